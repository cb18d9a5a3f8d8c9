"""The figures of engines, in the words of operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from shoal.ops.vitals.contract import EngineVitals, Vital, VitalName
from shoal.words.languages import Translated

_NAMES: Mapping[VitalName, str] = {
    "stored_bytes": "Stored",
    "log_bytes": "Log not yet merged",
    "disk_free_bytes": "Free on its disk",
    "memory_bytes": "Memory",
    "memory_most_bytes": "Memory, at most",
    "items": "Entries",
    "connections": "Connections",
    "connections_most": "Connections, at most",
    "commits": "Commits",
    "deadlocks": "Deadlocks",
    "evicted": "Entries pushed out",
    "operations_per_second": "Commands a second",
    "cache_hits": "Found in memory",
    "longest_transaction_seconds": "Longest transaction",
    "replica_behind_seconds": "Replica behind by",
    "jobs_waiting": "Jobs waiting",
    "jobs_delayed": "Jobs for later",
    "jobs_set_aside": "Jobs set aside",
    "workers": "Workers",
}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Figure(msgspec.Struct, frozen=True):
    """A number with its name, and whether it wants attention."""

    name: str
    value: str
    hint: str = ""
    wrong: bool = False


class EngineCard(msgspec.Struct, frozen=True):
    """An engine, where it is, and its figures."""

    engine: str
    place: str
    version: str
    reached: bool
    figures: tuple[Figure, ...]


def engine_cards(words: Translated, engines: Sequence[EngineVitals]) -> tuple[EngineCard, ...]:
    """Return the engines as a page shows them."""
    return tuple(
        EngineCard(one.engine, one.place, one.version, one.reached, tuple(_figure(words, it) for it in one.vitals))
        for one in engines
    )


def _figure(words: Translated, vital: Vital) -> Figure:
    return Figure(words.text(_NAMES[vital.name]), _value(words, vital), wrong=vital.wrong)


def _value(words: Translated, vital: Vital) -> str:
    if vital.name.endswith("_bytes"):
        return size(words, vital.value)
    if vital.name.endswith("_seconds"):
        return f"{words.decimal(vital.value, '.1f')} s"
    if vital.name == "cache_hits":
        return f"{words.decimal(100 * vital.value, '.1f')} %"
    return words.compact(round(vital.value))


def size(words: Translated, count: float) -> str:
    """Return a number of bytes as people say it: "3.2 GiB"."""
    unit = 0
    while count >= 1_000 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    return f"{words.decimal(count, '.1f' if unit and count < 100 else '.0f')} {_UNITS[unit]}"

"""Health of storage engines under common names: versions, sizes, connections and queues, for operators and metrics.

Each engine is queried over a separate connection, which is closed afterwards, so members' requests never wait for it. All
engines are queried together, at bounded intervals. SQLite is included; the other engines have a module each, loaded when
used.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from shoal.queries.context import Renewed
from shoal.throttled_log import ThrottledLog

VitalName = Literal[
    "stored_bytes",
    "log_bytes",
    "disk_free_bytes",
    "memory_bytes",
    "memory_most_bytes",
    "items",
    "connections",
    "connections_most",
    "commits",
    "deadlocks",
    "evicted",
    "operations_per_second",
    "cache_hits",
    "longest_transaction_seconds",
    "replica_behind_seconds",
    "jobs_waiting",
    "jobs_delayed",
    "jobs_set_aside",
    "workers",
]
"""The unit is in the name: bytes, seconds, per second; `cache_hits` is a fraction from 0 to 1; others are counts."""


class Vital(NamedTuple):
    """A figure, and whether it requires attention."""

    name: VitalName
    value: float
    wrong: bool = False


class EngineVitals(msgspec.Struct, frozen=True):
    """The figures of an engine, or that it was not reached."""

    engine: str
    """Product name, such as "PostgreSQL"."""
    place: str
    """Host and port, or the name of a file or table. Never contains a password."""
    version: str = ""
    vitals: tuple[Vital, ...] = ()
    reached: bool = True


class EngineProbe(NamedTuple):
    """An engine and its query function, which raises if there is no answer."""

    engine: str
    place: str
    ask: Callable[[], Awaitable[list[EngineVitals]]]
    """An engine of several servers yields several results."""


_LITTLE = 0.05
"""Fraction of the disk below which free space requires attention."""


async def look(path: Path) -> list[EngineVitals]:
    """Return the sizes of a file, its log, and its disk. Raises `OSError` if the file does not exist."""
    return [await asyncio.to_thread(_look, path)]


def _look(path: Path) -> EngineVitals:
    disk = shutil.disk_usage(path.parent)
    log = path.with_name(f"{path.name}-wal")
    return EngineVitals(
        "SQLite",
        path.name,
        sqlite3.sqlite_version,
        (
            Vital("stored_bytes", path.stat().st_size),
            Vital("log_bytes", log.stat().st_size if log.exists() else 0),
            Vital("disk_free_bytes", disk.free, disk.free < _LITTLE * disk.total),
        ),
    )


_log = logging.getLogger(__name__)

_KEEP_MS = 5_000


class EngineWatch:
    """Queries of all engines, with a timeout of `patience` seconds; results are cached for five seconds and shared."""

    def __init__(self, probes: Sequence[EngineProbe], *, patience: float = 3.0) -> None:
        self._probes = probes
        self._patience = patience
        self._outage = ThrottledLog(_log)
        self._answers: Renewed[list[EngineVitals]] = Renewed(_KEEP_MS, _KEEP_MS)

    async def look(self) -> list[EngineVitals]:
        """Return the figures of all engines; one that did not answer is included without figures."""
        return await self._answers.get(time.monotonic_ns() // 1_000_000, self._ask)

    async def _ask(self) -> list[EngineVitals]:
        answers = await asyncio.gather(*map(self._answer, self._probes))
        return [one for answer in answers for one in answer]

    async def _answer(self, probe: EngineProbe) -> list[EngineVitals]:
        try:
            async with asyncio.timeout(self._patience):
                return await probe.ask()
        except Exception as error:  # noqa: BLE001  # no figures, whatever the reason
            self._outage.warning(
                "no figures of %s at %s: %r", probe.engine, probe.place, error, name=(probe.engine, probe.place)
            )
            return [EngineVitals(probe.engine, probe.place, reached=False)]

"""Figures that engines give of themselves, under the same names for all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

import msgspec

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
"""The unit is in the name: bytes, seconds, per second; `cache_hits` is a share from 0 to 1; the others are counts."""


class Vital(NamedTuple):
    """A figure, and whether it wants attention."""

    name: VitalName
    value: float
    wrong: bool = False


class EngineVitals(msgspec.Struct, frozen=True):
    """The figures of one engine, or that it was not reached."""

    engine: str
    """Its name: "PostgreSQL"."""
    place: str
    """Where it is, for people: a host and port, the name of a file or table. Never a password."""
    version: str = ""
    vitals: tuple[Vital, ...] = ()
    reached: bool = True


class EngineProbe(NamedTuple):
    """An engine, and how it is asked. `ask` raises when there is no answer."""

    engine: str
    place: str
    ask: Callable[[], Awaitable[list[EngineVitals]]]
    """Several answers come from an engine of several servers."""

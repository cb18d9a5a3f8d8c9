"""Health of storage engines under common names: versions, sizes, connections and queues, for operators and metrics.

Each engine is queried over a connection of its own, which is then closed, so requests of members never wait for it. All
engines are queried together, at bounded intervals. SQLite is in this module. Each other engine has a module, which is
imported when the engine is used.
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

MeasurementName = Literal[
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
"""The name contains the unit: bytes, seconds, per second.

`cache_hits` is a fraction from 0 to 1. Other measurements are counts.
"""


class Measurement(NamedTuple):
    """A measured value of an engine; `wrong` if it requires attention."""

    name: MeasurementName
    value: float
    wrong: bool = False


class EngineHealth(msgspec.Struct, frozen=True):
    """The measurements of an engine, such as a database server or an SQLite file.

    They are empty if the engine could not be reached.
    """

    engine: str
    """Product name, such as "PostgreSQL"."""
    place: str
    """Host and port, or the name of a file or table. It contains no password."""
    version: str = ""
    measurements: tuple[Measurement, ...] = ()
    reached: bool = True


class EngineProbe(NamedTuple):
    """An engine, such as a database, and the function that measures its health.

    The function raises an error if the engine does not answer.
    """

    engine: str
    place: str
    ask: Callable[[], Awaitable[list[EngineHealth]]]
    """Returns several results for an engine that consists of several servers."""


_LITTLE = 0.05
"""Free space below this fraction of the disk requires attention."""


async def look(path: Path) -> list[EngineHealth]:
    return [await asyncio.to_thread(_look, path)]


def _look(path: Path) -> EngineHealth:
    disk = shutil.disk_usage(path.parent)
    log = path.with_name(f"{path.name}-wal")
    return EngineHealth(
        "SQLite",
        path.name,
        sqlite3.sqlite_version,
        (
            Measurement("stored_bytes", path.stat().st_size),
            Measurement("log_bytes", log.stat().st_size if log.exists() else 0),
            Measurement("disk_free_bytes", disk.free, disk.free < _LITTLE * disk.total),
        ),
    )


_log = logging.getLogger(__name__)

_KEEP_MS = 5_000


class EngineWatch:
    def __init__(self, probes: Sequence[EngineProbe], *, patience: float = 3.0) -> None:
        self._probes = probes
        self._patience = patience
        self._outage = ThrottledLog(_log)
        self._answers: Renewed[list[EngineHealth]] = Renewed(_KEEP_MS, _KEEP_MS)

    async def look(self) -> list[EngineHealth]:
        """Return the measurements of all engines. An engine that does not answer is included without measurements."""
        return await self._answers.get(time.monotonic_ns() // 1_000_000, self._ask)

    async def _ask(self) -> list[EngineHealth]:
        answers = await asyncio.gather(*map(self._answer, self._probes))
        return [health for answer in answers for health in answer]

    async def _answer(self, probe: EngineProbe) -> list[EngineHealth]:
        try:
            async with asyncio.timeout(self._patience):
                return await probe.ask()
        except Exception as error:  # noqa: BLE001  # no figures, whatever the reason
            self._outage.warning(
                "cannot read the metrics of %s at %s: %r",
                probe.engine,
                probe.place,
                error,
                name=(probe.engine, probe.place),
            )
            return [EngineHealth(probe.engine, probe.place, reached=False)]

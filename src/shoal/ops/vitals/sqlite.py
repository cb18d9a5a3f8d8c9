"""SQLite: how much its file takes, and how much room its disk has left."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path

from shoal.ops.vitals.contract import EngineVitals, Vital

_LITTLE = 0.05
"""Share of the disk below which little is left."""


async def look(path: Path) -> list[EngineVitals]:
    """Return the sizes of a file, its log, and its disk. Raises `OSError` for a file that is not there."""
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

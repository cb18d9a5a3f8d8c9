"""Queries of SQLite files, whose errors become those of Shoal."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from shoal.graph.migrations import Migration
from shoal.graph.sqlite.files import connect
from shoal.graph.sqlite.migrating import migrate
from shoal.graph.sqlite.writer import refusal
from shoal.tracing.record import recording

T = TypeVar("T")


def reader(path: Path, cache_kib: int, migrations: Sequence[Migration]) -> sqlite3.Connection:
    """A connection that only reads; where there is no file, of empty tables."""
    if path.exists():
        return connect(path, cache_kib, read_only=True)
    empty = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    migrate(empty, path, migrations)
    return empty


def fetched(connection: sqlite3.Connection, statement: str, values: Sequence[Any] = ()) -> list[Any]:
    """All rows that answer a statement, on the event loop; the record of the request under way notes it."""
    record = recording()
    if record is None:
        return connection.execute(statement, values).fetchall()
    began = perf_counter()
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        record.add("sqlite", statement, began)


def asked(work: Callable[[sqlite3.Connection], T], connection: sqlite3.Connection) -> T:
    """Run the work and return its result. A failure of SQLite becomes `Unavailable` or `StorageFull`."""
    try:
        return work(connection)
    except sqlite3.Error as error:
        raise refusal(error) from error

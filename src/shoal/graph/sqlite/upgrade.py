"""`shoal upgrade` for SQLite files: estimates of an upgrade, and the upgrade with progress reports.

An estimate is a rehearsal: some of the rows are copied into a file next to the store, and upgraded there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from shoal.core.errors import Unavailable
from shoal.graph.migrations import Migration, PendingStep, Progress
from shoal.graph.sqlite import files, sql
from shoal.graph.sqlite.files import connect
from shoal.graph.sqlite.migrations import migrate, pending, progress_of, put_position, unprocessed_rows
from shoal.graph.sqlite.writer import asked

T = TypeVar("T")

_SAMPLE_ROWS = 50_000
_CACHE_KIB = 65_536


class SqliteUpgrade:
    """The upgrade of an SQLite file. `owner` is the store that the file belongs to, by default the file itself."""

    def __init__(self, url: str, migrations: Sequence[Migration] | None = None, *, owner: Path | None = None) -> None:
        self._path = Path(url.removeprefix("sqlite:///"))
        self._migrations = sql.MIGRATIONS if migrations is None else migrations
        self._owner = owner or self._path

    async def plan(self) -> list[PendingStep]:
        work = partial(_plan, self._path, migrations=self._migrations)
        return await asyncio.to_thread(_connected, self._path, work, read_only=True)

    async def upgrade(self, progress: Progress) -> None:
        """Upgrade the file, which no other process may have open. An interrupted run is resumed.

        On cancellation, it ends after the current batch. Raises `InUse`, `Unavailable`.
        """
        cancelled = threading.Event()

        def report(what: str, done: int, total: int) -> None:
            if cancelled.is_set():
                raise asyncio.CancelledError
            progress(what, done, total)

        working = asyncio.create_task(asyncio.to_thread(self._upgrade, report))
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.gather(working, return_exceptions=True)
            raise

    def _upgrade(self, progress: Progress) -> None:
        lock = files.own(self._owner)
        try:
            work = partial(migrate, path=self._path, migrations=self._migrations, progress=progress)
            _connected(self._path, work, read_only=False)
        finally:
            files.release(lock)


def _connected(path: Path, work: Callable[[sqlite3.Connection], T], *, read_only: bool) -> T:
    try:
        with closing(connect(path, _CACHE_KIB, read_only=read_only)) as connection:
            return asked(work, connection)
    except (sqlite3.Error, OSError) as error:
        raise Unavailable(f"cannot open the store {path.name}: {error}") from error


def _plan(path: Path, connection: sqlite3.Connection, migrations: Sequence[Migration]) -> list[PendingStep]:
    steps = pending(connection, path, migrations)
    short = all(isinstance(part, str) for part, _ in steps)
    rates = {} if short else _rehearsed(path, connection, migrations)
    return [
        PendingStep("tables", 0, 0.0)
        if isinstance(part, str)
        else PendingStep(part.what, rows, rows / rates[part.what])
        for part, rows in steps
    ]


def _rehearsed(path: Path, source: sqlite3.Connection, migrations: Sequence[Migration]) -> dict[str, float]:
    """Return the rows per second of each upgrade step that touches rows, measured on a sample."""
    rates: dict[str, float] = {}
    with _temporary(path) as copy, closing(connect(copy, _CACHE_KIB)) as connection:
        _copy(path, source, connection, migrations)
        began = time.perf_counter()

        def timed(what: str, done: int, total: int) -> None:
            nonlocal began
            if done >= total and what not in rates:
                now = time.perf_counter()
                rates[what] = max(1, total) / (now - began)
                began = now

        migrate(connection, copy, migrations, timed, batch_rows=_SAMPLE_ROWS)
    return rates


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """Yield a temporary file name on the disk of the store; delete it afterwards, with its `-wal` and `-shm` files."""
    number, name = tempfile.mkstemp(prefix=f"{path.name}.rehearsal-", dir=path.parent)
    os.close(number)
    copy = Path(name)
    try:
        yield copy
    finally:
        for suffix in ("", "-wal", "-shm"):
            copy.with_name(copy.name + suffix).unlink(missing_ok=True)


def _copy(
    path: Path, source: sqlite3.Connection, connection: sqlite3.Connection, migrations: Sequence[Migration]
) -> None:
    """Copy the tables with a sample of their rows.

    The sample consists of the last rows, and only of rows that an interrupted migration of the table has not changed yet.
    Full-text tables stay empty, because no migration changes their rows.
    """
    at = progress_of(source)
    made = source.execute(
        "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' "
        "ORDER BY type != 'table'"
    ).fetchall()
    kinds = {name: kind for _, name, kind, *_ in source.execute("PRAGMA table_list")}
    connection.execute("ATTACH ? AS source", (str(path),))
    connection.execute("BEGIN")
    for name, statement in made:
        if name == "upgrade":
            put_position(connection, at._replace(done=0))
            continue
        if kinds.get(name) == "shadow":
            # SQLite creates the shadow tables of a full-text table itself.
            continue
        connection.execute(statement)
        if kinds.get(name) == "table":
            keys = [column for _, column, _, _, _, part in source.execute(f"PRAGMA table_info({name})") if part]
            order = ", ".join(f"{column} DESC" for column in keys)
            behind, after = unprocessed_rows(migrations, at, name)
            connection.execute(
                f"INSERT INTO {name} SELECT * FROM source.{name} WHERE {behind} ORDER BY {order} LIMIT ?",  # noqa: S608  # our own names
                (*after, _SAMPLE_ROWS),
            )
    connection.execute(f"PRAGMA user_version = {source.execute('PRAGMA user_version').fetchone()[0]}")
    connection.execute("COMMIT")
    connection.execute("DETACH source")

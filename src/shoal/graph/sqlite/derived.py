"""SQLite files next to the graph's, for data that is derived from it: the search index and the tag cloud.

WAL with `synchronous=FULL`, because an event is acknowledged after its effects are written. Writes and reads each have a connection
and a thread.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from shoal.core.errors import ShoalError, Unavailable
from shoal.graph.migrations import Migration
from shoal.graph.sqlite.files import connect
from shoal.graph.sqlite.migrations import check_version, migrate
from shoal.graph.sqlite.sql import in_rows
from shoal.graph.sqlite.writer import asked, reader
from shoal.observability.tracing import timed

T = TypeVar("T")


class DerivedFile:
    """An SQLite file of data derived from the graph. Create it with `open`."""

    title: ClassVar[str]
    """Name of the file in error messages."""
    name: ClassVar[str]
    """The name of its threads, and of its spans in traces."""
    migrations: ClassVar[Sequence[Migration]]
    cache_kib: ClassVar[int]

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self._writing: sqlite3.Connection | None = None
        with ExitStack() as undo:
            if not read_only:
                self._writing = undo.enter_context(closing(connect(path, self.cache_kib)))
                migrate(self._writing, path, self.migrations)
            self._reading = undo.enter_context(closing(reader(path, self.cache_kib, self.migrations)))
            check_version(self._reading, path, self.migrations)
            self._prepare(path, undo)
            self._connections = undo.pop_all()
        self._writer = ThreadPoolExecutor(1, f"shoal-{self.name}-writer")
        self._reader = ThreadPoolExecutor(1, f"shoal-{self.name}")

    def _prepare(self, path: Path, undo: ExitStack) -> None:
        """Override to open further resources for the file at `path`, and to register their cleanup with `undo`."""

    @classmethod
    async def open(cls, path: Path, *, read_only: bool = False) -> Self:
        """Open or create the file. Raises `Unavailable` if it cannot be opened, or if a newer Shoal wrote it.

        With `read_only`, a missing file, which an operator may have deleted, is treated as empty and not created.
        """
        try:
            return await asyncio.to_thread(cls, path, read_only=read_only)
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(f"cannot open {cls.title} {path.name}: {error}") from error

    async def close(self) -> None:
        await asyncio.to_thread(self._writer.shutdown)
        await asyncio.to_thread(self._reader.shutdown)
        self._connections.close()

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        work = asyncio.get_running_loop().run_in_executor(self._reader, asked, read, self._reading)
        return await timed("sqlite", self.name, work)

    async def _write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Run a change in the writer thread. Cancelling the caller does not interrupt it."""
        if self._writing is None:
            raise ShoalError(f"{self.title} was opened read-only")
        work = asyncio.get_running_loop().run_in_executor(self._writer, asked, change, self._writing)
        return await timed("sqlite", f"{self.name} write", work)


def execute_rows(
    connection: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]], width: int
) -> list[Any]:
    """Run a statement that takes many rows (`sql.in_rows`), and return its result rows."""
    found: list[Any] = []
    for prepared, values in in_rows(statement, rows, width):
        found += connection.execute(prepared, values)
    return found

"""The tag cloud in an SQLite file of its own, next to the graph's.

WAL with `synchronous=FULL`. A merge is one transaction of a few dozen many-row statements in a writer thread; reads of many rows
have a thread and a connection too, and the head is read on the event loop. Several processes may have the file open.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from shoal import private_files
from shoal.core.errors import ShoalError, Unavailable
from shoal.graph.sqlite.files import connect, transaction
from shoal.graph.sqlite.migrations import check_version, migrate
from shoal.graph.sqlite.sql import in_rows
from shoal.graph.sqlite.writer import asked, fetched, reader
from shoal.observability.tracing import timed
from shoal.tagcloud import sqlite_sql as sql
from shoal.tagcloud.contract import (
    KEEP_CLOUDS,
    KEEP_INCREMENTS_MS,
    LOCK_SECONDS,
    ORDER_COLUMNS,
    AuthorKey,
    Head,
    Merge,
    Overtaken,
    Parts,
    TagRow,
    TagRule,
    authors_of,
    rows_of,
)

T = TypeVar("T")

_CACHE_KIB = 65_536
_READER_CACHE_KIB = 16_384


class SqliteCloud:
    """See `contract.CloudStore`. Make one with `open`."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self._writing: sqlite3.Connection | None = None
        alone, file = False, -1
        with ExitStack() as undo:
            if not read_only:
                alone, file = _arrive(path, undo)
                self._writing = undo.enter_context(closing(connect(path, _CACHE_KIB)))
                migrate(self._writing, path, sql.MIGRATIONS)
            self._reading = undo.enter_context(closing(reader(path, _READER_CACHE_KIB, sql.MIGRATIONS)))
            self._scanning = undo.enter_context(closing(reader(path, _CACHE_KIB, sql.MIGRATIONS)))
            check_version(self._reading, path, sql.MIGRATIONS)
            if self._writing is not None:
                if alone:
                    self._writing.execute(sql.UNLOCK_ANY)
                fcntl.flock(file, fcntl.LOCK_SH)
            self._connections = undo.pop_all()
        self._writer = ThreadPoolExecutor(1, "shoal-tags-writer")
        self._scanner = ThreadPoolExecutor(1, "shoal-tags")

    @classmethod
    async def open(cls, path: Path, *, read_only: bool = False) -> Self:
        """Open or create the file. Raises `Unavailable` for one that cannot be opened, or that a newer Shoal wrote.

        With `read_only`, a missing file is an empty cloud, and is not created: it may have been dropped.
        """
        try:
            return await asyncio.to_thread(cls, path, read_only=read_only)
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(f"the store {path.name} cannot be opened: {error}") from error

    async def lock(self, holder: bytes, seconds: float = LOCK_SECONDS) -> bool:
        values = {"holder": holder, "now": time.time(), "seconds": seconds}
        return bool(await self._write(lambda write: write.execute(sql.LOCK, values).rowcount))

    async def unlock(self, holder: bytes) -> None:
        await self._write(lambda write: write.execute(sql.UNLOCK, (holder,)))

    async def version(self) -> int:
        ((version,),) = self._read(sql.VERSION)
        return int(version)

    async def head(self) -> Head:
        found = self._read(sql.HEAD)
        return Head(*found[0]) if found else Head()

    async def clouds(self, limit: int) -> list[tuple[int, int, bytes]]:
        return await self._aside(lambda read: read.execute(sql.CLOUDS, (limit,)).fetchall())

    async def merged(self, increments: Collection[bytes]) -> set[bytes]:
        found = await self._aside(lambda read: _in_slices(read, sql.MERGED, [(id_,) for id_ in increments], 1))
        return {id_ for (id_,) in found}

    async def marks(self, buckets: Collection[int], after_version: int) -> dict[int, list[bytes]]:
        answer: dict[int, list[bytes]] = {}
        values = (_json(buckets), after_version)
        for bucket, marks in await self._aside(lambda read: read.execute(sql.MARKS, values).fetchall()):
            answer.setdefault(bucket, []).append(marks)
        return answer

    async def tags(self, ids: Collection[int]) -> dict[int, TagRow]:
        rows = await self._aside(lambda read: rows_of(read.execute(sql.COUNTS, (_json(ids),))))
        return {row.id: row for row in rows}

    async def authors(self, keys: Collection[AuthorKey]) -> dict[AuthorKey, int]:
        wanted = sorted((day, tag, member) for tag, day, member in keys)
        return authors_of(await self._aside(lambda read: _in_slices(read, sql.AUTHORS, wanted, 3)))

    async def author_counts(self, days: Collection[tuple[int, int]]) -> dict[AuthorKey, int]:
        wanted = sorted((day, tag) for tag, day in days)
        return authors_of(await self._aside(lambda read: _in_slices(read, sql.CROWDS, wanted, 2)))

    async def top(self, window: int, limit: int) -> list[TagRow]:
        statement = sql.TOP.format(column=ORDER_COLUMNS[window])
        return await self._aside(lambda read: rows_of(read.execute(statement, (limit,))))

    async def scan(self, after: int, limit: int) -> list[TagRow]:
        return await self._aside(lambda read: rows_of(read.execute(sql.SCAN, (after, limit))))

    async def rules(self) -> dict[str, TagRule]:
        return {name: TagRule(name, bool(denied), target) for name, denied, target in self._read(sql.RULES)}

    async def write(self, merge: Merge) -> None:
        def write(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                _write_merge(connection, merge)

        await self._write(write)

    async def put(self, id_: bytes, body: bytes) -> None:
        await self._write(lambda write: write.execute(sql.INBOX_PUT, (id_, body)))

    async def inbox(self, limit: int) -> list[tuple[bytes, bytes]]:
        return await self._aside(lambda read: read.execute(sql.INBOX, (limit,)).fetchall())

    async def discard(self, increments: Collection[bytes]) -> None:
        def discard(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                _in_slices(connection, sql.INBOX_FORGET, [(id_,) for id_ in increments], 1)

        await self._write(discard)

    async def waiting(self) -> int:
        ((count,),) = await self._aside(lambda read: read.execute(sql.INBOX_SIZE).fetchall())
        return int(count)

    async def close(self) -> None:
        await asyncio.to_thread(self._writer.shutdown)
        await asyncio.to_thread(self._scanner.shutdown)
        self._connections.close()

    def _read(self, statement: str) -> list[Any]:
        """Read a few rows on the event loop, which is cheaper than a thread switch."""
        return asked(lambda read: fetched(read, statement), self._reading)

    async def _aside(self, read: Callable[[sqlite3.Connection], T]) -> T:
        work = asyncio.get_running_loop().run_in_executor(self._scanner, asked, read, self._scanning)
        return await timed("sqlite", "tags", work)

    async def _write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Run a change in the writer thread; it continues if the caller is cancelled."""
        if self._writing is None:
            raise ShoalError("the store was opened for reading only")
        work = asyncio.get_running_loop().run_in_executor(self._writer, asked, change, self._writing)
        return await timed("sqlite", "tags write", work)


def _arrive(path: Path, undo: ExitStack) -> tuple[bool, int]:
    """Return whether no other process has the store open for writing, and the lock file that we hold open until `undo`.

    The lock in the table outlives a killed process, unlike the lock file: the first process to open the store need not wait for
    the rest of the thirty seconds. Later ones wait until it has opened.
    """
    file = private_files.open_file(f"{path}-lock", os.O_RDWR)
    undo.callback(os.close, file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fcntl.flock(file, fcntl.LOCK_SH)
        return False, file
    return True, file


def _write_merge(connection: sqlite3.Connection, merge: Merge) -> None:
    head, parts, write = merge.head, Parts(merge), connection.execute
    if write(sql.VERSION).fetchone()[0] != head.version - 1:
        raise Overtaken("another version of the tag cloud was written meanwhile")
    merged = [(id_,) for id_ in parts.increments]
    for statement, rows, width in (
        (sql.COUNT_PUT, parts.rows, 7),
        (sql.AUTHOR_PUT, parts.authors, 4),
        (sql.INCREMENT_PUT, [(*id_, head.at) for id_ in merged], 2),
        (sql.INBOX_FORGET, merged, 1),
        (sql.MARK_PUT, [(bucket, head.version, marks) for bucket, marks in parts.marks], 3),
        (sql.RULE_PUT, [(rule.name, rule.denied, rule.target) for rule in parts.rules], 3),
    ):
        _in_slices(connection, statement, rows, width)
    if parts.gone:
        write(sql.COUNT_FORGET, (_json(parts.gone),))
    if parts.silent:
        connection.executemany(sql.AUTHOR_FORGET, parts.silent)
    if parts.revoked:
        write(sql.RULE_FORGET, (_json(parts.revoked),))
    write(sql.AUTHORS_FORGET, (merge.before_day,))
    write(sql.INCREMENT_FORGET, (head.at - KEEP_INCREMENTS_MS,))
    write(sql.CLOUD_PUT, (head.version, head.at, head.cloud))
    write(sql.CLOUD_FORGET, (head.version - KEEP_CLOUDS,))
    write(sql.STATE_PUT, (head.version, head.at, head.complete_to, head.state))


def _in_slices(
    connection: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]], width: int
) -> list[Any]:
    found: list[Any] = []
    for prepared, values in in_rows(statement, rows, width):
        found += connection.execute(prepared, values)
    return found


def _json(values: Collection[int] | Collection[str]) -> str:
    return msgspec.json.encode(list(values)).decode()

"""The tag cloud in a separate SQLite file, next to the graph's.

A merge is one transaction of a few dozen many-row statements. The version, the head and the rules are read on the event loop, over
a separate connection. Several processes may have the file open.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Collection
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from shoal import private_files
from shoal.graph.sqlite.derived import DerivedFile, execute_rows
from shoal.graph.sqlite.files import transaction
from shoal.graph.sqlite.writer import asked, fetched, reader
from shoal.tagcloud import sqlite_sql as sql
from shoal.tagcloud.contract import (
    CLOCK_SLACK,
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

_QUICK_CACHE_KIB = 16_384


class SqliteCloud(DerivedFile):
    """A `contract.CloudStore` in SQLite."""

    title = "the store"
    name = "tags"
    migrations = sql.MIGRATIONS
    cache_kib = 65_536

    def _prepare(self, path: Path, undo: ExitStack) -> None:
        self._quick = undo.enter_context(closing(reader(path, _QUICK_CACHE_KIB, sql.MIGRATIONS)))
        if self._writing is not None:
            _release_stale_lock(self._writing, path, undo)

    async def lock(self, holder: bytes, seconds: float = LOCK_SECONDS) -> bool:
        return await self._take(sql.LOCK, holder, seconds)

    async def renew(self, holder: bytes, seconds: float = LOCK_SECONDS) -> bool:
        return await self._take(sql.RENEW, holder, seconds)

    async def _take(self, statement: str, holder: bytes, seconds: float) -> bool:
        def take(connection: sqlite3.Connection) -> int:
            # Read the clock inside the transaction, which may have waited for another process to finish a merge.
            with transaction(connection):
                values = {"holder": holder, "now": time.time(), "seconds": seconds, "slack": CLOCK_SLACK}
                return connection.execute(statement, values).rowcount

        return bool(await self._write(take))

    async def unlock(self, holder: bytes) -> None:
        await self._write(lambda write: write.execute(sql.UNLOCK, (holder,)))

    async def version(self) -> int:
        ((version,),) = self._read_here(sql.VERSION)
        return int(version)

    async def head(self) -> Head:
        found = self._read_here(sql.HEAD)
        return Head(*found[0]) if found else Head()

    async def clouds(self, limit: int) -> list[tuple[int, int, bytes]]:
        return await self._read(lambda read: read.execute(sql.CLOUDS, (limit,)).fetchall())

    async def merged(self, increments: Collection[bytes]) -> set[bytes]:
        found = await self._read(lambda read: execute_rows(read, sql.MERGED, [(id_,) for id_ in increments], 1))
        return {id_ for (id_,) in found}

    async def marks(self, buckets: Collection[int], after_version: int) -> dict[int, list[bytes]]:
        answer: dict[int, list[bytes]] = {}
        values = (_json(buckets), after_version)
        for bucket, marks in await self._read(lambda read: read.execute(sql.MARKS, values).fetchall()):
            answer.setdefault(bucket, []).append(marks)
        return answer

    async def tags(self, ids: Collection[int]) -> dict[int, TagRow]:
        rows = await self._read(lambda read: rows_of(read.execute(sql.COUNTS, (_json(ids),))))
        return {row.id: row for row in rows}

    async def authors(self, keys: Collection[AuthorKey]) -> dict[AuthorKey, int]:
        sorted_keys = sorted((day, tag, member) for tag, day, member in keys)
        return authors_of(await self._read(lambda read: execute_rows(read, sql.AUTHORS, sorted_keys, 3)))

    async def author_counts(self, days: Collection[tuple[int, int]]) -> dict[AuthorKey, int]:
        sorted_keys = sorted((day, tag) for tag, day in days)
        return authors_of(await self._read(lambda read: execute_rows(read, sql.CROWDS, sorted_keys, 2)))

    async def top(self, window: int, limit: int) -> list[TagRow]:
        statement = sql.TOP.format(column=ORDER_COLUMNS[window])
        return await self._read(lambda read: rows_of(read.execute(statement, (limit,))))

    async def scan(self, after: int, limit: int) -> list[TagRow]:
        return await self._read(lambda read: rows_of(read.execute(sql.SCAN, (after, limit))))

    async def rules(self) -> dict[str, TagRule]:
        return {name: TagRule(name, bool(denied), target) for name, denied, target in self._read_here(sql.RULES)}

    async def write(self, merge: Merge, holder: bytes = b"") -> None:
        def write(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                _write_merge(connection, merge, holder)

        await self._write(write)

    async def put(self, id_: bytes, body: bytes) -> None:
        await self._write(lambda write: write.execute(sql.INBOX_PUT, (id_, body)))

    async def inbox(self, limit: int) -> list[tuple[bytes, bytes]]:
        return await self._read(lambda read: read.execute(sql.INBOX, (limit,)).fetchall())

    async def discard(self, increments: Collection[bytes]) -> None:
        def discard(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                execute_rows(connection, sql.INBOX_FORGET, [(id_,) for id_ in increments], 1)

        await self._write(discard)

    async def waiting(self) -> int:
        ((count,),) = await self._read(lambda read: read.execute(sql.INBOX_SIZE).fetchall())
        return int(count)

    def _read_here(self, statement: str) -> list[Any]:
        """Read a few rows on the event loop, which is cheaper than a thread switch."""
        return asked(lambda read: fetched(read, statement), self._quick)


def _release_stale_lock(writing: sqlite3.Connection, path: Path, undo: ExitStack) -> None:
    """Release the lock in the table, if no other process has the store open for writing.

    Unlike a file lock, this lock outlives a killed process, and would block the store until its lease expires. Other processes
    that open the store wait here until this one has opened it. The file stays locked until `undo` is closed.
    """
    file = private_files.open_file(f"{path}-lock", os.O_RDWR)
    undo.callback(os.close, file)
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        writing.execute(sql.UNLOCK_ANY)
    fcntl.flock(file, fcntl.LOCK_SH)


def _write_merge(connection: sqlite3.Connection, merge: Merge, holder: bytes) -> None:
    head, parts, write = merge.head, Parts(merge), connection.execute
    if write(sql.VERSION).fetchone()[0] != head.version - 1:
        raise Overtaken("the tag cloud was changed concurrently")
    if holder and write(sql.HELD, (holder,)).fetchone() is None:
        raise Overtaken("another process has taken the lock of the tag cloud")
    merged = [(id_,) for id_ in parts.increments]
    for statement, rows, width in (
        (sql.COUNT_PUT, parts.rows, 7),
        (sql.AUTHOR_PUT, parts.authors, 4),
        (sql.INCREMENT_PUT, [(*id_, head.at) for id_ in merged], 2),
        (sql.INBOX_FORGET, merged, 1),
        (sql.MARK_PUT, [(bucket, head.version, marks) for bucket, marks in parts.marks], 3),
        (sql.RULE_PUT, [(rule.name, rule.denied, rule.target) for rule in parts.rules], 3),
    ):
        execute_rows(connection, statement, rows, width)
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


def _json(values: Collection[int] | Collection[str]) -> str:
    return msgspec.json.encode(list(values)).decode()

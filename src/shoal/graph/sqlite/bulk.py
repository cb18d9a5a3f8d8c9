"""Bulk access to an SQLite store: whole rows, imports, and snapshots read by another process.

An import writes in table order, so consecutive rows go to one page. A snapshot blocks writers with SQLite's own lock until its read
transaction has begun. The write-ahead log cannot restart while a snapshot is open, so it grows with every write.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from shoal.core.errors import Unavailable
from shoal.graph.bulk import (
    ASSOC_BYTES,
    HOLD_SECONDS,
    MEMBER_MARK,
    POST_MARK,
    KeyRow,
    LoadPart,
    Occupied,
    Row,
    Rows,
    SnapshotTable,
    Spread,
    Table,
)
from shoal.graph.schema import encode_node
from shoal.graph.shard_map import ShardMap
from shoal.graph.sqlite import sql
from shoal.graph.sqlite.files import connect, transaction
from shoal.graph.sqlite.migrations import check_own_version
from shoal.graph.sqlite.writer import asked, put_links, remove_links

KEYS_SCAN = "SELECT space, name, id, until FROM key WHERE (space, name) > (?, ?) ORDER BY space, name LIMIT ?"

_PUT = (
    "INSERT OR REPLACE INTO object (id, version, data) VALUES (?, ?, ?)",
    sql.COUNT_SET,
    "INSERT OR REPLACE INTO key (space, name, id, until) VALUES (?, ?, ?, ?)",
)
_REMOVE = (
    "DELETE FROM object WHERE id = ?",
    sql.COUNT_DELETE,
    "DELETE FROM key WHERE space = ? AND name = ?",
)

# The lowest 10 bits of an id are a sequence, the next 13 its shard.
_OBJECTS = """
    SELECT id >> 10 & 8191, sum(instr(substr(data, 1, 32), ?) > 0), sum(instr(substr(data, 1, 32), ?) > 0), sum(length(data))
    FROM object GROUP BY 1"""
_ASSOCS = "SELECT id1 >> 10 & 8191, 0, 0, sum(length(data) + ?) FROM {} WHERE alive >= 0 GROUP BY 1"


def keys_after(read: sqlite3.Connection, after: tuple[str, str], limit: int) -> list[KeyRow]:
    return [KeyRow._make(row) for row in read.execute(KEYS_SCAN, (*after, limit))]


def put_rows(write: sqlite3.Connection, rows: Rows) -> None:
    """Store rows unchanged, in the open transaction."""
    objects = [(node.id, node.version, encode_node(node)) for node in rows.objects]
    _each(write, _PUT, (objects, rows.counts, rows.keys))
    put_links(write, rows.assocs, {row[:3] for row in rows.assocs})


def remove_rows(write: sqlite3.Connection, rows: Rows) -> None:
    objects = [(node.id,) for node in rows.objects]
    counts, keys = ([row[:2] for row in part] for part in (rows.counts, rows.keys))
    _each(write, _REMOVE, (objects, counts, keys))
    remove_links(write, [row[:3] for row in rows.assocs])


def _each(write: sqlite3.Connection, statements: Sequence[str], parts: Sequence[Sequence[Any]]) -> None:
    for statement, part in zip(statements, parts, strict=True):
        if part:
            write.executemany(statement, part)


def spread(read: sqlite3.Connection) -> dict[int, Spread]:
    spreads: dict[int, Spread] = {}
    rows = read.execute(_OBJECTS, (MEMBER_MARK, POST_MARK)).fetchall()
    for table in ("association", "displaced"):
        rows += read.execute(_ASSOCS.format(table), (ASSOC_BYTES,))
    for shard, *part in rows:
        spreads[shard] = spreads.get(shard, Spread()).plus(Spread(*part))
    return spreads


def load(write: sqlite3.Connection, part: LoadPart) -> None:
    """Store one chunk of an import in the open transaction. Raises `Occupied` if a row already exists."""
    try:
        for statement, rows, width in ((sql.NEW_OBJECTS, part.objects, 3), (sql.NEW_KEYS, part.keys, 4)):
            for prepared, values in sql.in_rows(statement, rows, width):
                write.execute(prepared, values)
        _links(write, part.links)
        write.executemany(sql.NEW_COUNT, part.counts.tolist())
    except sqlite3.IntegrityError as error:
        raise Occupied("the store already has a row of the import") from error


def _links(write: sqlite3.Connection, links: Table) -> None:
    whole = len(links) - len(links) % sql.ROWS_AT_ONCE
    for start in range(0, whole, sql.ROWS_AT_ONCE):
        write.execute(sql.NEW_LINKS, links[start : start + sql.ROWS_AT_ONCE].ravel().tolist())
    write.executemany(sql.NEW_LINK, links[whole:].tolist())


_CACHE_KIB = 4_096
_NOTE_SECONDS = 30.0
_PATIENCE = "PRAGMA busy_timeout = {:.0f}"
_PAGES: Mapping[SnapshotTable, str] = {
    SnapshotTable.OBJECTS: "SELECT id, version, data FROM object WHERE id > ? ORDER BY id LIMIT ?",
    SnapshotTable.ASSOCIATIONS: sql.ASSOC_SCAN,
    SnapshotTable.COUNTS: sql.COUNT_SCAN,
    SnapshotTable.KEYS: KEYS_SCAN,
    SnapshotTable.EVENTS: "SELECT seq, event FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?",
    SnapshotTable.PARKED: "SELECT seq, event, error FROM buried WHERE seq > ? ORDER BY seq LIMIT ?",
}


class SqliteSnapshot:
    def __init__(self, path: Path) -> None:
        with ExitStack() as undo:
            self._reading = undo.enter_context(closing(connect(path, _CACHE_KIB, read_only=True)))
            check_own_version(self._reading, path, sql.MIGRATIONS)
            # Blocks writers (`hold`), and writes the row of `backup_key` at the end of the backup (`note`).
            self._holding = undo.enter_context(closing(connect(path, _CACHE_KIB, read_only=True)))
            self._holding.execute("PRAGMA query_only = OFF")
            undo.pop_all()

    @classmethod
    async def connect(cls, path: Path) -> SqliteSnapshot:
        try:
            return await asyncio.to_thread(cls, path)
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(f"cannot open the store {path.name}: {error}") from error

    async def hold(self) -> None:
        def hold(connection: sqlite3.Connection) -> None:
            connection.execute(_PATIENCE.format(HOLD_SECONDS * 1_000))
            connection.execute("BEGIN IMMEDIATE")

        await asyncio.to_thread(asked, hold, self._holding)

    async def open(self) -> None:
        """Begin the snapshot: open a transaction and read a row, because SQLite fixes a transaction's state at its first read."""

        def begin(connection: sqlite3.Connection) -> None:
            _end(connection)
            connection.execute("BEGIN")
            connection.execute("SELECT 1 FROM object LIMIT 1").fetchall()

        await asyncio.to_thread(asked, begin, self._reading)

    async def release(self) -> None:
        await asyncio.to_thread(asked, _end, self._holding)

    async def map(self) -> ShardMap | None:
        return None

    async def page(self, table: SnapshotTable, after: Row, limit: int) -> list[Row]:
        def read(connection: sqlite3.Connection) -> list[Row]:
            rows = connection.execute(_PAGES[table], (*after, limit)).fetchall()
            if table is not SnapshotTable.ASSOCIATIONS:
                return rows
            return [(id1, atype, id2, moment, bool(alive), data) for id1, atype, id2, moment, alive, data in rows]

        return await asyncio.to_thread(asked, read, self._reading)

    async def forget(self) -> None:
        await asyncio.to_thread(asked, _end, self._reading)

    async def note(self, row: KeyRow) -> None:
        """Store the row of the backup key in a separate transaction."""

        def put(connection: sqlite3.Connection) -> None:
            connection.execute(_PATIENCE.format(_NOTE_SECONDS * 1_000))
            with transaction(connection):
                connection.execute("INSERT OR REPLACE INTO key (space, name, id, until) VALUES (?, ?, ?, ?)", row)

        await asyncio.to_thread(asked, put, self._holding)

    async def close(self) -> None:
        for connection in (self._holding, self._reading):
            await asyncio.to_thread(connection.close)


def _end(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")

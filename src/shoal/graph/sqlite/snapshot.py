"""An SQLite store as it is at one moment, read by another process than the one that has it open.

SQLite's own locks do it: whoever may write holds off every other writer, and a transaction that has read something goes on
reading that state. The log beside the file cannot begin anew meanwhile, so it grows by all that is written.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from shoal.core.errors import Unavailable
from shoal.graph.rows import KeyRow
from shoal.graph.sharding.shard_map import ShardMap
from shoal.graph.snapshots import HOLD_SECONDS, Row, SnapshotTable
from shoal.graph.sqlite import sql
from shoal.graph.sqlite.asking import asked
from shoal.graph.sqlite.bulk import KEYS_SCAN
from shoal.graph.sqlite.files import connect, transaction
from shoal.graph.sqlite.migrating import check_own_version

_CACHE_KIB = 4_096
_NOTE_SECONDS = 30.0
_PATIENCE = "PRAGMA busy_timeout = {:.0f}"
_PAGES: Mapping[SnapshotTable, str] = {
    SnapshotTable.OBJECTS: "SELECT id, version, data FROM object WHERE id > ? ORDER BY id LIMIT ?",
    SnapshotTable.ASSOCIATIONS: sql.ASSOC_SCAN,
    SnapshotTable.COUNTS: sql.COUNT_SCAN,
    SnapshotTable.KEYS: KEYS_SCAN,
    SnapshotTable.EVENTS: "SELECT seq, event FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?",
    SnapshotTable.BURIED: "SELECT seq, event, error FROM buried WHERE seq > ? ORDER BY seq LIMIT ?",
}


class SqliteSnapshot:
    """One file. Make one with `connect`."""

    def __init__(self, path: Path) -> None:
        with ExitStack() as undo:
            self._reading = undo.enter_context(closing(connect(path, _CACHE_KIB, read_only=True)))
            check_own_version(self._reading, path, sql.MIGRATIONS)
            # It holds others off, and writes one row at the end.
            self._holding = undo.enter_context(closing(connect(path, _CACHE_KIB, read_only=True)))
            self._holding.execute("PRAGMA query_only = OFF")
            undo.pop_all()

    @classmethod
    async def connect(cls, path: Path) -> SqliteSnapshot:
        """Raises `Unavailable` for a file that cannot be read, or whose tables are of another version."""
        try:
            return await asyncio.to_thread(cls, path)
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(f"the store {path.name} cannot be opened: {error}") from error

    async def hold(self) -> None:
        """See `snapshots.SnapshotSource`, as of all that follows."""

        def hold(connection: sqlite3.Connection) -> None:
            connection.execute(_PATIENCE.format(HOLD_SECONDS * 1_000))
            connection.execute("BEGIN IMMEDIATE")

        await asyncio.to_thread(asked, hold, self._holding)

    async def open(self) -> None:
        """Begin a transaction and read something: SQLite chooses the state at the first read."""

        def begin(connection: sqlite3.Connection) -> None:
            _end(connection)
            connection.execute("BEGIN")
            connection.execute("SELECT 1 FROM object LIMIT 1").fetchall()

        await asyncio.to_thread(asked, begin, self._reading)

    async def release(self) -> None:
        """Nobody but this process could have ended what it holds."""
        await asyncio.to_thread(asked, _end, self._holding)

    async def map(self) -> ShardMap | None:
        """Files keep no map."""
        return None

    async def page(self, table: SnapshotTable, after: Row, limit: int) -> list[Row]:
        """Read one page in a thread."""

        def read(connection: sqlite3.Connection) -> list[Row]:
            rows = connection.execute(_PAGES[table], (*after, limit)).fetchall()
            if table is not SnapshotTable.ASSOCIATIONS:
                return rows
            return [(id1, atype, id2, moment, bool(alive), data) for id1, atype, id2, moment, alive, data in rows]

        return await asyncio.to_thread(asked, read, self._reading)

    async def forget(self) -> None:
        """From now on the log may begin anew."""
        await asyncio.to_thread(asked, _end, self._reading)

    async def note(self, row: KeyRow) -> None:
        """Store the row with a commit of its own, between two of the server's."""

        def put(connection: sqlite3.Connection) -> None:
            connection.execute(_PATIENCE.format(_NOTE_SECONDS * 1_000))
            with transaction(connection):
                connection.execute("INSERT OR REPLACE INTO key (space, name, id, until) VALUES (?, ?, ?, ?)", row)

        await asyncio.to_thread(asked, put, self._holding)

    async def close(self) -> None:
        """Close both connections."""
        for connection in (self._holding, self._reading):
            await asyncio.to_thread(connection.close)


def _end(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")

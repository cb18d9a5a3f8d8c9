"""A PostgreSQL store as it is at one moment, read beside the processes that go on writing to it.

Every commit looks at the table `owner`, and so locks it until its end (`schema`). Whoever locks that table against all others
has waited for the commits under way, in every process, and holds up the next ones: no lock is taken that was not taken before.
A transaction that reads repeatably has the state of its first question. The server ends a lock that is held for too
long, and `release` says so: what was read under it is then no moment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import asyncpg
import msgspec

from shoal.core.errors import Unavailable
from shoal.core.placement import source_of
from shoal.graph.postgres import moving_sql, sql
from shoal.graph.postgres.bulk import KEYS_PUT, KEYS_SCAN
from shoal.graph.postgres.connections import LONG_PATIENCE, connect, goodbye, refusal, was_lost
from shoal.graph.postgres.migrating import check_own_version
from shoal.graph.postgres.primary import PrimaryConnection
from shoal.graph.rows import KeyRow
from shoal.graph.sharding.shard_map import ShardMap
from shoal.graph.snapshots import HOLD_SECONDS, Row, SnapshotTable

T = TypeVar("T")

_SETTINGS = {
    "application_name": "shoal backup",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "jit": "off",
    "statement_timeout": "0",
    # What was read may have to wait for the place that it is written to.
    "idle_in_transaction_session_timeout": "0",
}
_HOLDING = {
    "application_name": "shoal backup",
    "lock_timeout": f"{HOLD_SECONDS * 1_000:.0f}",
    # The snapshots of all stores are opened meanwhile. A process that is stopped in between holds nobody up for longer.
    "idle_in_transaction_session_timeout": "3s",
}
_PAGES: Mapping[SnapshotTable, str] = {
    SnapshotTable.OBJECTS: "SELECT id, version, data FROM shoal.object WHERE id > $1 ORDER BY id LIMIT $2",
    SnapshotTable.ASSOCIATIONS: sql.ASSOC_SCAN,
    SnapshotTable.COUNTS: sql.COUNT_SCAN,
    SnapshotTable.KEYS: KEYS_SCAN,
    SnapshotTable.EVENTS: "SELECT seq, event FROM shoal.outbox WHERE seq > $1 ORDER BY seq LIMIT $2",
    SnapshotTable.BURIED: "SELECT seq, event, error FROM shoal.buried WHERE seq > $1 ORDER BY seq LIMIT $2",
}
_LOST = "the store was lost while it was read: run the backup again"


class PostgresSnapshot:
    """One database. Make one with `connect`."""

    def __init__(self, url: str, reading: PrimaryConnection, holding: PrimaryConnection) -> None:
        self._url = url
        self._reading = reading
        self._holding = holding

    @classmethod
    async def connect(cls, url: str) -> PostgresSnapshot:
        """Raises `Unavailable` for a database that cannot be reached, or whose tables are of another version."""
        reading = await connect(url, _SETTINGS)
        try:
            await _do(reading, check_own_version)
            return cls(url, reading, await connect(url, _HOLDING))
        except BaseException:
            reading.terminate()
            raise

    async def hold(self) -> None:
        """See `snapshots.SnapshotSource`, as of all that follows. No new map is published meanwhile either."""

        async def hold(connection: asyncpg.Connection) -> None:
            await connection.execute("BEGIN")
            await connection.execute(sql.OWNER_LOCK)
            await connection.execute(moving_sql.MAP_KEEP)

        if self._holding.is_closed():
            self._holding = await connect(self._url, _HOLDING)
        await _do(self._holding, hold)

    async def open(self) -> None:
        """Begin a transaction that sees the commits until now, and no later one."""

        async def begin(connection: asyncpg.Connection) -> None:
            if connection.is_in_transaction():
                await connection.execute("ROLLBACK")
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # It names no table: one would be locked against upgrades for as long as the backup takes.
            await connection.execute("SELECT 1")

        await _do(self._reading, begin)

    async def release(self) -> None:
        """End the transaction of the locks; that fails where the server has ended it already, or another one has taken over."""

        if self._holding.is_closed() or self._holding.history != self._reading.history:
            raise Unavailable(_LOST)
        if self._holding.is_in_transaction():
            await _do(self._holding, lambda connection: connection.execute("ROLLBACK"))

    async def map(self) -> ShardMap | None:
        """Read it in the snapshot."""
        row = await _do(self._reading, lambda connection: connection.fetchrow(moving_sql.LAST_MAP))
        return ShardMap.from_plain(row[0], msgspec.json.decode(row[1])) if row else None

    async def page(self, table: SnapshotTable, after: Row, limit: int) -> list[Row]:
        """Ask for one page."""

        async def read(connection: asyncpg.Connection) -> list[Row]:
            rows = await connection.fetch(_PAGES[table], *after, limit, timeout=LONG_PATIENCE)
            return list(map(tuple, rows))

        return await _do(self._reading, read)

    async def forget(self) -> None:
        """From now on a vacuum may take what only the snapshot saw."""
        if self._reading.is_in_transaction():
            await _do(self._reading, lambda connection: connection.execute("ROLLBACK"))

    async def note(self, row: KeyRow) -> None:
        """Store the row with a statement of its own, which a mover of data sources learns of as of any other."""
        values = (*row, 1, source_of(row.shard))

        async def put(connection: asyncpg.Connection) -> None:
            async with connection.transaction():
                await connection.execute(sql.KEY_WATCH, [row.space], [row.name], [source_of(row.shard)])
                await connection.execute(KEYS_PUT, *([value] for value in values))

        await _do(self._holding, put)

    async def close(self) -> None:
        """End both transactions with their connections."""
        await goodbye(self._holding)
        await goodbye(self._reading)


async def _do(connection: asyncpg.Connection, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    try:
        return await work(connection)
    except asyncpg.PostgresConnectionError as error:
        raise Unavailable(_LOST) from error
    except asyncpg.PostgresError as error:
        refused = refusal(error)
        if refused is error:
            raise
        raise refused from error
    except (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError, AttributeError) as error:
        if isinstance(error, AttributeError) and not was_lost(connection, error):
            raise
        raise Unavailable(_LOST) from error

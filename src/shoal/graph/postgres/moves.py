"""The store operations with which a move copies logical shards between two PostgreSQL stores, and the shard map kept in a store.

A move runs alongside the processes that serve the network, on separate connections. It records in the store that a shard is
being copied, frozen or away (`mark`), under a lock that waits for running commits: once `mark` returns, every commit respects the
new state.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import asyncpg

from shoal.core.errors import ShoalError, Unavailable
from shoal.graph.bulk import grouped
from shoal.graph.failover import Histories
from shoal.graph.postgres import PostgresGraph, event_log, event_log_sql, ranks
from shoal.graph.postgres import moves_sql as sql
from shoal.graph.postgres.connections import ConnectionPool, connect, goodbye
from shoal.graph.postgres.migrations import check_own_version
from shoal.graph.postgres.schema import MIGRATIONS
from shoal.graph.shard_map import Digest, LogEnd, RowKind, RowNames, ShardMap, ShardState, from_json, to_json
from shoal.graph.sharding.live_map import MapNews

_MAP_PATIENCE = 1.0
# A lost heartbeat does no harm, because the next one follows shortly: do not wait for the disk.
_MAP_SETTINGS = {"application_name": "shoal map", "synchronous_commit": "off", "lock_timeout": "900ms"}


class PostgresPost:
    """Reads and writes the shard map in a store, over a separate connection: a busy pool would delay heartbeats."""

    def __init__(self, url: str, histories: Histories | None = None) -> None:
        self._connections = ConnectionPool(url, 1, _MAP_SETTINGS, _MAP_PATIENCE, histories=histories)

    async def beat(self, me: int, version: int, *, joins: bool) -> MapNews:
        return _news(await self._connections.ask(sql.BEAT, me, version, joins))

    async def look(self, version: int) -> MapNews:
        return _news(await self._connections.ask(sql.LOOK, version))

    async def leave(self, me: int) -> None:
        await self._connections.ask(sql.LEAVE, me)

    async def offer(self, known: ShardMap) -> None:
        await self._connections.ask(sql.OFFER, known.version, to_json(known))

    async def admit(self, shards: list[int], version: int, seconds: float, ends: Mapping[int, LogEnd]) -> None:
        await _admit(self._connections, shards, version, seconds, ends)

    async def marks(self) -> dict[int, ShardState]:
        return {shard: ShardState(*mark) for shard, *mark in await self._connections.ask(sql.STATES)}

    async def close(self, me: int) -> None:
        """Remove this process from the store's list of processes, if the store can be reached."""
        with contextlib.suppress(ShoalError, asyncpg.PostgresError):
            await self.leave(me)
        await self._connections.close()


def _news(rows: Sequence[Any]) -> MapNews:
    ((newest, stored, peers),) = rows
    return MapNews(from_json(newest, stored) if stored else None, peers)


_SETTINGS = {
    "application_name": "shoal move",
    "enable_seqscan": "on",
    "enable_hashjoin": "on",
    "enable_mergejoin": "on",
    "plan_cache_mode": "force_custom_plan",
    "statement_timeout": "0",
}
_CONNECTIONS = 4
_PATIENCE = 10.0
_BULK_PATIENCE = 86_400.0
_WIPED_AT_ONCE = 10_000
_PREFETCHED_CHUNKS = 16
"""Maximum number of copied chunks that wait to be written to the target store."""

_BROKEN = "the other store failed during the copy"

_LOCK_SECONDS = 2.0

_TABLES = dict(zip(RowKind, sql.TABLES, strict=True))


async def _lock(connection: asyncpg.Connection) -> None:
    """Lock the store against other moves. Retries briefly, because the server may not have noticed yet that a mover was killed."""
    deadline = asyncio.get_running_loop().time() + _LOCK_SECONDS
    while not await connection.fetchval(sql.MOVER_LOCK):
        if asyncio.get_running_loop().time() > deadline:
            raise Unavailable("another move is running, or source and target are one store")
        await asyncio.sleep(_LOCK_SECONDS / 20)


class PostgresSide:
    def __init__(self, url: str, lock: asyncpg.Connection) -> None:
        self.url = url
        self._lock = lock
        self._connections = ConnectionPool(url, _CONNECTIONS, _SETTINGS, _PATIENCE, direct=True)

    @classmethod
    async def open(cls, url: str, *, joins: bool) -> PostgresSide:
        """Connect to the store and lock it against other moves.

        If `joins`, the database may not be a store yet, and its tables are created. Raises `Unavailable` if the database cannot be
        reached or another move is running.
        """
        lock = await connect(url)
        try:
            if joins and await lock.fetchval(sql.VERSION_OF) != str(len(MIGRATIONS)):
                # Opening the graph creates the tables.
                await (await PostgresGraph.open(url)).close()
            await check_own_version(lock)
            await _lock(lock)
        except BaseException:
            lock.terminate()
            raise
        return cls(url, lock)

    async def close(self) -> None:
        await self._connections.close()
        await goodbye(self._lock)

    async def mark(
        self, shards: Sequence[int], state: str, mover: int, peer: str, seconds: float | None = None
    ) -> None:
        await self._locked([(sql.MARK, (shards, state, seconds, mover, peer))], sql.MOVING_LOCK)

    async def end(self, shards: Sequence[int]) -> None:
        await self._locked([(sql.UNMARK, (shards,)), (sql.JOURNAL_CLEAR, (shards,))], sql.MOVING_LOCK)

    async def marks(self) -> dict[int, ShardState]:
        return {shard: ShardState(*mark) for shard, *mark in await self._connections.ask(sql.STATES)}

    async def forget_recorded(self, shards: Sequence[int]) -> None:
        await self._connections.ask(sql.JOURNAL_CLEAR, shards, patience=_BULK_PATIENCE)

    async def recorded_changes(self, shards: Sequence[int], limit: int) -> tuple[list[int], RowNames]:
        rows = await self._connections.ask(sql.JOURNAL_NEXT, shards, limit)
        return [row[0] for row in rows], RowNames.of(row[1:] for row in rows)

    async def done(self, entries: Sequence[int]) -> None:
        await self._connections.ask(sql.JOURNAL_DONE, entries)

    async def holds_others(self, shards: Sequence[int]) -> bool:
        return bool((await self._connections.ask(sql.STRANGERS, shards, patience=_BULK_PATIENCE))[0][0])

    async def wipe(self, shards: Sequence[int]) -> int:
        # Delete the rank index blocks before the rows, so that the triggers of the deleted rows have no blocks to update.
        await self._connections.ask(ranks.DROP_SHARDS, shards, patience=_BULK_PATIENCE)
        wiped = 0
        for table in _TABLES.values():
            after: Sequence[Any] = (
                ("",) * 2 if table.name == "key" else (-(2**63), -(2**15), -(2**63))[: len(table.key)]
            )
            while page := await self._connections.ask(
                table.wipe, *after, shards, _WIPED_AT_ONCE, patience=_BULK_PATIENCE
            ):
                wiped += len(page)
                after = tuple(page[-1])
        return wiped

    async def copy_to(
        self, other: PostgresSide, kind: RowKind, shards: Sequence[int], tell: Callable[[int], None]
    ) -> int:
        table = _TABLES[kind]
        stream = _Stream(tell)
        statement = table.copy.format(shards=", ".join(map(str, shards)))

        async def read(connection: asyncpg.Connection) -> str:
            async with stream.filled():
                done: str = await connection.copy_from_query(statement, output=stream.put, format="binary")
            return done

        async def write(connection: asyncpg.Connection) -> str:
            async with stream.emptied():
                done: str = await connection.copy_to_table(
                    table.name, schema_name="shoal", columns=table.columns, source=stream.chunks(), format="binary"
                )
            return done

        _, written = await asyncio.gather(
            self._connections.use(read, patience=_BULK_PATIENCE), other._connections.use(write, patience=_BULK_PATIENCE)
        )
        return int(written.rpartition(" ")[2])

    async def rows_of(self, names: RowNames) -> dict[RowKind, list[Any]]:
        async def read(connection: asyncpg.Connection) -> dict[RowKind, list[Any]]:
            return {kind: await connection.fetch(_TABLES[kind].get, *columns) for kind, columns in names.columns()}

        return await self._connections.use(read, patience=_BULK_PATIENCE)

    async def make_equal(self, names: RowNames, rows: dict[RowKind, list[Any]]) -> None:
        async def write(connection: asyncpg.Connection) -> None:
            async with connection.transaction():
                for kind, columns in names.columns():
                    await connection.execute(_TABLES[kind].drop, *columns)
                    if rows[kind]:
                        await connection.execute(_TABLES[kind].put, *map(list, zip(*rows[kind], strict=True)))

        await self._connections.use(write, patience=_BULK_PATIENCE)

    async def digest(self, shards: Sequence[int]) -> tuple[Digest, RowNames]:
        async def read(connection: asyncpg.Connection) -> tuple[Digest, RowNames]:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                names = RowNames.of(await connection.fetch(sql.JOURNAL_NAMES, shards))
                return await _digest_but(connection, shards, names), names

        return await self._connections.use(read, patience=_BULK_PATIENCE)

    async def digest_but(self, shards: Sequence[int], names: RowNames) -> Digest:
        async def read(connection: asyncpg.Connection) -> Digest:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                return await _digest_but(connection, shards, names)

        return await self._connections.use(read, patience=_BULK_PATIENCE)

    async def digest_of(self, names: RowNames) -> Digest:
        return await self._connections.use(lambda connection: _digest_of(connection, names), patience=_BULK_PATIENCE)

    async def map(self) -> ShardMap | None:
        rows = await self._connections.ask(sql.LAST_MAP)
        return from_json(*rows[0]) if rows else None

    async def publish(self, new: ShardMap) -> None:
        await self._locked([(sql.OFFER, _stored(new))], sql.MAP_LOCK)

    async def switch(self, shards: Sequence[int], mover: int, peer: str, new: ShardMap) -> bool:
        async def change(connection: asyncpg.Connection) -> bool:
            async with connection.transaction():
                await connection.execute(sql.MOVING_LOCK)
                await connection.execute(sql.MAP_LOCK)
                frozen: int = await connection.fetchval(sql.FROZEN, shards, mover)
                last = await connection.fetchrow(sql.LAST_MAP)
                if frozen != len(shards) or (last is not None and last[0] >= new.version):
                    return False
                await connection.execute(sql.MARK, shards, "away", None, mover, peer)
                await connection.execute(sql.OFFER, *_stored(new))
                return True

        return await self._connections.use(change)

    async def log_end(self) -> LogEnd | None:
        return await event_log.handover(self._connections)

    async def turn_log_on(self) -> None:
        await self._connections.use(partial(event_log.switch, on=True))

    async def admit(self, shards: Sequence[int], version: int, seconds: float, ends: Mapping[int, LogEnd]) -> None:
        await _admit(self._connections, shards, version, seconds, ends)

    async def laggards(self, version: int, seconds: float) -> int:
        return int((await self._connections.ask(sql.LAGGARDS, version, seconds))[0][0])

    async def _locked(self, steps: Sequence[tuple[str, Sequence[Any]]], lock: str) -> None:
        async def change(connection: asyncpg.Connection) -> None:
            async with connection.transaction():
                await connection.execute(lock)
                for statement, values in steps:
                    await connection.execute(statement, *values)

        await self._connections.use(change)


async def _admit(
    connections: ConnectionPool, shards: Sequence[int], version: int, seconds: float, ends: Mapping[int, LogEnd]
) -> None:
    for end, part in grouped([shard for shard in shards if shard in ends], ends.__getitem__).items():
        await connections.ask(event_log_sql.MOVED, part, *end)
    await connections.ask(sql.ADMIT, shards, version, seconds)


def _stored(new: ShardMap) -> tuple[int, str]:
    return new.version, to_json(new)


async def _digest_but(connection: asyncpg.Connection, shards: Sequence[int], names: RowNames) -> Digest:
    parts = {kind: await connection.fetchrow(table.digest, shards) for kind, table in _TABLES.items()}
    whole = Digest({kind: (row[0], int(row[1])) for kind, row in parts.items()})
    return whole - await _digest_of(connection, names)


async def _digest_of(connection: asyncpg.Connection, names: RowNames) -> Digest:
    parts = {kind: await connection.fetchrow(_TABLES[kind].digest_of, *columns) for kind, columns in names.columns()}
    return Digest({kind: (row[0], int(row[1])) for kind, row in parts.items()})


class _Stream:
    """A queue of chunks between two stores. If reading from the source fails, so does writing to the target, and vice versa."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(_PREFETCHED_CHUNKS)
        self._broken = False

    async def put(self, chunk: bytes) -> None:
        if self._broken:
            raise Unavailable(_BROKEN)
        self._tell(len(chunk))
        await self._queue.put(chunk)

    async def chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self._queue.get()) is not None:
            yield chunk
        if self._broken:
            raise Unavailable(_BROKEN)

    @asynccontextmanager
    async def filled(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            self._broken = True
            raise
        finally:
            await self._queue.put(None)

    @asynccontextmanager
    async def emptied(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            self._broken = True
            raise
        finally:
            # Empty the queue: the task that reads from the source may be waiting for space in it.
            while not self._queue.empty():
                self._queue.get_nowait()

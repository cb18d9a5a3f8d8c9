"""Where a PostgreSQL store keeps the shard map, and the list of the processes that go by it (`live_map`)."""

from __future__ import annotations

import contextlib

import asyncpg
import msgspec

from shoal.core.errors import ShoalError
from shoal.graph.histories import Histories
from shoal.graph.postgres import moving_sql as sql
from shoal.graph.postgres.connections import ConnectionPool
from shoal.graph.sharding.live_map import MapNews
from shoal.graph.sharding.moves import SourceState
from shoal.graph.sharding.shard_map import ShardMap

_PATIENCE = 1.0
# What a beat says is worth nothing a moment later: it need not wait for the disk.
_SETTINGS = {"application_name": "shoal map", "synchronous_commit": "off", "lock_timeout": "900ms"}


class PostgresPost:
    """A connection of its own: however busy the others are, the map is heard of."""

    def __init__(self, url: str, histories: Histories | None = None) -> None:
        self._connections = ConnectionPool(url, 1, _SETTINGS, _PATIENCE, histories=histories)

    async def beat(self, me: int, version: int, *, joins: bool) -> MapNews:
        """See `live_map.Post`, as of all that follows."""
        ((newest, stored, peers),) = await self._connections.ask(sql.BEAT, me, version, joins)
        return MapNews(ShardMap.from_plain(newest, msgspec.json.decode(stored)) if stored else None, peers)

    async def offer(self, known: ShardMap) -> None:
        """One statement."""
        await self._connections.ask(sql.OFFER, known.version, msgspec.json.encode(known.plain()).decode())

    async def admit(self, sources: list[int], version: int, seconds: float) -> None:
        """Confirm with one statement."""
        await self._connections.ask(sql.ADMIT, sources, version, seconds)

    async def marks(self) -> dict[int, SourceState]:
        """Counts the journal."""
        return {source: SourceState(*mark) for source, *mark in await self._connections.ask(sql.STATES)}

    async def close(self, me: int) -> None:
        """Leave the list, if the store can be reached."""
        with contextlib.suppress(ShoalError, asyncpg.PostgresError):
            await self._connections.ask(sql.LEAVE, me)
        await self._connections.close()

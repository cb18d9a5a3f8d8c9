"""Real engines for a simulated network: PostgreSQL stores, with home timelines and version tokens on Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from shoal.core.placement import SHARDS_PER_SOURCE
from shoal.graph.cache.coherence import VersionTokens
from shoal.graph.contract import Store
from shoal.graph.postgres import PostgresGraph
from shoal.graph.redis.client import Nodes
from shoal.graph.redis.version_tokens import RedisVersionTokens
from shoal.graph.resolve import Owns
from shoal.timelines.contract import Timelines
from shoal.timelines.redis import RedisTimelines
from tests.engines import postgres, redis


class Engines(NamedTuple):
    """The parts of a network that several processes share."""

    stores: Sequence[Store]
    timelines: Timelines
    versions: VersionTokens


@asynccontextmanager
async def opened(stores: int, length: int, *, cluster: bool) -> AsyncIterator[Engines]:
    """Open empty engines. Each data source is divided evenly among the stores."""
    owner = _Owner()
    async with AsyncExitStack() as stack:
        graphs = []
        for at in range(stores):
            url = await postgres.database(owner)
            graphs.append(
                graph := await PostgresGraph.open(
                    url, owns=_part(at, stores), patience=postgres.PATIENT_SECONDS, logs=True
                )
            )
            stack.push_async_callback(graph.close)
        nodes = await Nodes.open(redis.cluster() if cluster else redis.single())
        stack.push_async_callback(nodes.close)
        versions = RedisVersionTokens(nodes)
        stack.push_async_callback(versions.close)
        timelines = RedisTimelines(nodes, length)
        stack.push_async_callback(timelines.close)
        yield Engines(graphs, timelines, versions)


class _Owner:
    """The owner of databases, which exist as long as this object."""


def _part(at: int, stores: int) -> Owns:
    return lambda shard: part_of(shard, stores) == at


def part_of(shard: int, stores: int) -> int:
    """Return the store of a shard, if each data source is divided among all stores."""
    return shard % SHARDS_PER_SOURCE * stores // SHARDS_PER_SOURCE

"""The contract of `timelines/contract.py`, tested on every store of readings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from shoal.core.errors import Unavailable
from shoal.graph.redis.client import Nodes
from shoal.queries.foryou.ranking import new_reading_id
from shoal.timelines.contract import RETENTION_SECONDS, MemoryReadings, Readings
from shoal.timelines.dynamodb import DynamoReadings
from shoal.timelines.redis import RedisReadings
from shoal_devcluster.program import free_port
from tests.async_runner import in_loop
from tests.engines import redis
from tests.timelines.on_dynamodb import shared_url, timelines_on

MEMBERS = [11 << 10, 12 << 10, 5_000 << 10]
"""Members on three shards, which Redis Cluster stores on three nodes."""


@asynccontextmanager
async def in_memory() -> AsyncIterator[Readings]:
    yield MemoryReadings()


@asynccontextmanager
async def on_redis(url: str) -> AsyncIterator[Readings]:
    nodes = Nodes(url, **redis.PATIENT)
    yield RedisReadings(nodes)
    await nodes.close()


@asynccontextmanager
async def on_dynamodb() -> AsyncIterator[Readings]:
    async with timelines_on(shared_url()) as timelines:
        yield DynamoReadings(timelines.service)


BACKENDS: dict[str, Callable[[], AbstractAsyncContextManager[Readings]]] = {
    "memory": in_memory,
    "redis": lambda: on_redis(redis.single()),
    "redis-cluster": lambda: on_redis(redis.cluster()),
    "valkey": lambda: on_redis(redis.valkey()),
    "dynamodb": on_dynamodb,
}


@pytest.mark.parametrize("backend", list(BACKENDS))
@in_loop
async def test_ranking_cache_returns_latest_stored_ranking_and_none_for_unknown_id(backend: str) -> None:
    async with BACKENDS[backend]() as readings:
        ids = [new_reading_id(member) for member in MEMBERS for _ in range(3)]
        assert len(set(ids)) == len(ids)
        for n, id_ in enumerate(ids):
            await readings.keep(id_, bytes([n]) * 12_000)
        await readings.keep(ids[0], b"again")
        assert [await readings.get(id_) for id_ in ids] == [
            b"again",
            *(bytes([n]) * 12_000 for n in range(1, len(ids))),
        ]
        assert await readings.get(new_reading_id(MEMBERS[0])) is None


@in_loop
async def test_ranking_cache_in_memory_is_limited_in_bytes_and_age() -> None:
    now = 0.0
    readings = MemoryReadings(most_bytes=1_000, clock=lambda: now)
    for id_ in range(5):
        await readings.keep(id_, bytes(300))
    assert [await readings.get(id_) is not None for id_ in range(5)] == [False, False, True, True, True]
    now = RETENTION_SECONDS - 1.0
    assert await readings.get(4) is not None
    now = RETENTION_SECONDS
    assert await readings.get(4) is None


@in_loop
async def test_ranking_cache_on_unreachable_redis_raises_unavailable() -> None:
    nodes = Nodes(f"redis://127.0.0.1:{free_port()}", connect_seconds=0.2, answer_seconds=0.2)
    readings = RedisReadings(nodes)
    with pytest.raises(Unavailable):
        await readings.keep(1, b"x")
    with pytest.raises(Unavailable):
        await readings.get(1)
    await nodes.close()

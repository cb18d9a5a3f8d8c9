"""Rate limits shared in Redis: exact across processes, and local while Redis is unavailable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import pytest
from redis import Redis

from shoal.graph.redis.client import Nodes
from shoal.http.rate_limits import RateKey, RateRule, RateWindow
from shoal.http.redis_rate_limits import RedisLimiter
from shoal_devcluster.program import Program
from tests.async_runner import eventually, in_loop
from tests.engines import redis

RULES = {"api": RateRule(5, 86_400), "files": RateRule(0, 60), "short": RateRule(2, 1)}
ANN, BEN = RateKey("api", 5 << 10), RateKey("api", 5_000 << 10)


async def counted(limiter: RedisLimiter, key: RateKey, cost: int = 1) -> RateWindow:
    """Count a request of a limited class and return its window."""
    window = await limiter.take(key, cost)
    assert window is not None
    return window


@asynccontextmanager
async def limiter_at(url: str) -> AsyncIterator[RedisLimiter]:
    nodes = Nodes(url, **redis.PATIENT)
    yield RedisLimiter(nodes, RULES)
    await nodes.close()


@contextmanager
def paused(program: Program, limiter: RedisLimiter) -> Iterator[None]:
    """Pause Redis for the block. Only there, the limiter has a short timeout, which a slow answer could exceed too."""
    nodes = limiter._nodes
    program.pause()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes, "_connect_seconds", 0.0)
        patch.setattr(nodes, "_answer_seconds", 0.3)
        yield
    program.resume()


@pytest.mark.parametrize("where", ["single", "cluster", "valkey"])
@in_loop
async def test_redis_rate_limiter_counts_across_processes(where: str) -> None:
    url = getattr(redis, where)()
    async with AsyncExitStack() as stack:
        limiters = [await stack.enter_async_context(limiter_at(url)) for _ in range(3)]
        for key in (ANN, BEN, RateKey("api", "192.0.2.1"), RateKey("api", "2001:db8::/64")):
            windows = [window for _ in range(3) for limiter in limiters if (window := await limiter.take(key))]
            assert [window.remaining for window in windows] == [4, 3, 2, 1, 0, 0, 0, 0, 0]
            assert [bool(window.wait) for window in windows] == [False] * 5 + [True] * 4
            assert len({(window.limit, window.reset) for window in windows}) == 1
            assert windows[0].reset % 86_400 == 0


@in_loop
async def test_redis_rate_limiter_allows_exactly_limit_for_concurrent_requests() -> None:
    url = redis.single()
    async with limiter_at(url) as one, limiter_at(url) as other:
        windows = await asyncio.gather(*(limiter.take(ANN) for limiter in (one, other) * 20))
        assert sum(window is not None and not window.wait for window in windows) == 5


@in_loop
async def test_redis_rate_limiter_does_not_count_refused_requests() -> None:
    async with limiter_at(redis.single()) as limiter:
        remaining = [window.remaining for cost in (3, 3, 2, 1) if (window := await limiter.take(ANN, cost))]
        assert remaining == [2, 2, 0, 0]


@pytest.mark.parametrize("where", ["single", "cluster", "valkey"])
@in_loop
async def test_redis_rate_limiter_give_back_works_across_processes(where: str) -> None:
    url = getattr(redis, where)()
    async with limiter_at(url) as one, limiter_at(url) as other:
        key = RateKey("api", "192.0.2.9")
        # Give back before any request is counted.
        await one.give_back(key, await counted(one, key, 0))
        window = await counted(one, key, 5)
        assert window.remaining == 0
        await other.give_back(key, window)
        taken = [await limiter.take(key) for limiter in (one, other)]
        assert [window is not None and not window.wait for window in taken] == [True, False]
        for _ in range(7):
            await other.give_back(key, window)
        assert (await counted(one, key)).remaining == 4


@in_loop
async def test_redis_rate_limiter_without_limit_sends_no_commands() -> None:
    nodes = Nodes(redis.single())
    limiter = RedisLimiter(nodes, RULES)
    assert limiter.classes == {"api", "files", "short"}
    assert await limiter.take(RateKey("files", 1)) is None
    assert nodes.calls == 0
    await nodes.close()


@in_loop
async def test_redis_rate_limiter_keys_expire_with_window() -> None:
    async with limiter_at(redis.single()) as limiter:
        key = RateKey("short", 9)
        # Repeat until enough requests fall into one window to reach the limit.
        window = await counted(limiter, key)

        async def is_limited() -> bool:
            nonlocal window
            window = await counted(limiter, key)
            return window.wait > 0

        await eventually(is_limited, True)
        assert 0 < window.wait <= 1.0
        await limiter.take(ANN)
        with Redis.from_url(redis.server().url) as server:
            ages = {name: server.pttl(name) for name in server.keys("r:*")}
            # -1: the key does not expire; -2: it has expired since its name was read.
            assert [age for age in ages.values() if age != -2 and not 0 < age <= 86_400_000] == []

            async def held() -> int:
                return len(list(server.keys("r:*short*")))

            await eventually(held, 0)
        after = await limiter.take(key)
        assert after is not None
        assert not after.wait


@in_loop
async def test_redis_rate_limiter_without_redis_counts_locally_and_logs_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    program = redis.own()
    async with limiter_at(program.url) as limiter:
        await limiter.take(ANN)
        with paused(program, limiter), caplog.at_level(logging.WARNING):
            windows = [window for _ in range(7) if (window := await limiter.take(ANN))]
        assert [window.remaining for window in windows] == [4, 3, 2, 1, 0, 0, 0]
        assert [bool(window.wait) for window in windows] == [False] * 5 + [True] * 2
        assert len(caplog.records) == 1

        async def shared() -> bool:
            window = await limiter.take(ANN, 0)
            return window is not None and window.remaining > 0

        await eventually(shared, True)
    program.stop()


@in_loop
async def test_redis_rate_limiter_give_back_for_past_window_does_not_change_current_window() -> None:
    async with limiter_at(redis.single()) as limiter:
        key = RateKey("api", "192.0.2.10")
        first = await counted(limiter, key)
        window = await counted(limiter, key, 4)
        await limiter.give_back(key, first._replace(reset=first.reset - 86_400))
        assert (await counted(limiter, key)).wait
        await limiter.give_back(key, window)
        assert not (await counted(limiter, key)).wait


@in_loop
async def test_redis_rate_limiter_give_back_during_redis_outage_restores_only_locally_counted_allowance() -> None:
    program = redis.own()
    async with limiter_at(program.url) as limiter:
        shared = await counted(limiter, ANN)
        with paused(program, limiter):
            alone = await counted(limiter, ANN, 5)
            await limiter.give_back(ANN, shared)
            assert (await counted(limiter, ANN)).wait
            await limiter.give_back(ANN, alone)
            assert not (await counted(limiter, ANN)).wait
    program.stop()

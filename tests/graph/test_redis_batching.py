"""Calls made in one turn of the event loop are sent in one batch, and each gets its own answer."""

from __future__ import annotations

import asyncio

import pytest

from shoal.graph.redis.client import Batching
from tests.async_runner import in_loop


class Counted:
    """Double numbers, record the batches, and fail for 13."""

    def __init__(self) -> None:
        self.trips: list[list[int]] = []

    async def act(self, items: list[int]) -> list[int]:
        self.trips.append(items)
        await asyncio.sleep(0)
        if 13 in items:
            raise ValueError("thirteen")
        return [2 * item for item in items]


@in_loop
async def test_redis_batching_combines_calls_of_one_event_loop_turn() -> None:
    counted = Counted()
    gathering = Batching("gathering", counted.act)
    assert await asyncio.gather(*(gathering.ask(n) for n in range(5))) == [0, 2, 4, 6, 8]
    assert await gathering.ask(7) == 14
    assert counted.trips == [[0, 1, 2, 3, 4], [7]]


@in_loop
async def test_redis_batching_failure_is_raised_to_all_callers_of_the_batch() -> None:
    gathering = Batching("gathering", Counted().act)
    answers = await asyncio.gather(gathering.ask(13), gathering.ask(1), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["thirteen", "thirteen"]
    assert await gathering.ask(1) == 2


@in_loop
async def test_redis_batching_cancelled_caller_does_not_affect_others() -> None:
    counted = Counted()
    gathering = Batching("gathering", counted.act)
    one, other = asyncio.ensure_future(gathering.ask(1)), asyncio.ensure_future(gathering.ask(2))
    await asyncio.sleep(0)
    one.cancel()
    assert await other == 4
    with pytest.raises(asyncio.CancelledError):
        await one
    assert counted.trips == [[1, 2]]


@in_loop
async def test_redis_batching_close_waits_for_pending_calls() -> None:
    counted = Counted()
    gathering = Batching("gathering", counted.act)
    asked = asyncio.ensure_future(gathering.ask(4))
    await asyncio.sleep(0)
    await gathering.close()
    assert counted.trips == [[4]]
    assert await asked == 8

"""`Renewed`: concurrent requests share one computation, and a cancelled request does not affect the others."""

from __future__ import annotations

import asyncio

import pytest

from shoal.queries.context import Renewed
from tests.async_runner import in_loop

MINUTE = 60_000


class Kitchen:
    """Returns increasing numbers, each once `ready` is set."""

    def __init__(self) -> None:
        self.made = 0
        self.ready = asyncio.Event()
        self.fails = False

    async def make(self) -> int:
        self.made += 1
        await self.ready.wait()
        if self.fails:
            raise OSError
        return self.made


@in_loop
async def test_query_cache_concurrent_requests_share_one_computation_for_a_minute() -> None:
    kitchen, answer = Kitchen(), Renewed[int]()
    asking = [asyncio.create_task(answer.get(0, kitchen.make)) for _ in range(10)]
    await asyncio.sleep(0)
    kitchen.ready.set()
    assert await asyncio.gather(*asking) == [1] * 10
    assert await answer.get(MINUTE - 1, kitchen.make) == 1
    assert await answer.get(MINUTE, kitchen.make) == 2


@in_loop
async def test_query_cache_outdated_value_is_returned_without_waiting() -> None:
    kitchen, answer = Kitchen(), Renewed[int]()
    kitchen.ready.set()
    assert await answer.get(0, kitchen.make, outdated=True) == 1
    kitchen.ready.clear()
    assert await answer.get(MINUTE, kitchen.make, outdated=True) == 1
    waiting = asyncio.create_task(answer.get(MINUTE, kitchen.make))
    await asyncio.sleep(0)
    assert not waiting.done()
    kitchen.ready.set()
    assert await waiting == 2
    assert await answer.get(MINUTE, kitchen.make, outdated=True) == 2
    assert await answer.get(11 * MINUTE, kitchen.make, outdated=True) == 3, "ten minutes are too old"


@in_loop
async def test_query_cache_cancelled_request_does_not_affect_others() -> None:
    kitchen, answer = Kitchen(), Renewed[int]()
    first = asyncio.create_task(answer.get(0, kitchen.make))
    await asyncio.sleep(0)
    first.cancel()
    second = asyncio.create_task(answer.get(0, kitchen.make))
    await asyncio.sleep(0)
    kitchen.ready.set()
    assert (await second, kitchen.made) == (1, 1)


@in_loop
async def test_query_cache_error_reaches_all_waiters_and_next_request_recomputes() -> None:
    kitchen, answer = Kitchen(), Renewed[int]()
    kitchen.fails = True
    asking = [asyncio.create_task(answer.get(0, kitchen.make)) for _ in range(3)]
    await asyncio.sleep(0)
    kitchen.ready.set()
    assert [type(error) for error in await asyncio.gather(*asking, return_exceptions=True)] == [OSError] * 3
    kitchen.fails = False
    assert await answer.get(0, kitchen.make) == 2
    kitchen.fails = True
    assert await answer.get(MINUTE, kitchen.make, outdated=True) == 2
    with pytest.raises(OSError):
        await answer.get(MINUTE, kitchen.make)

"""Calls of one turn travel together, and each gets its own answer."""

from __future__ import annotations

import asyncio

import pytest

from shoal.graph.redis.client import Batching
from tests.running import in_loop


class Counted:
    """Doubles numbers, and remembers what came together; 13 is not to be doubled."""

    def __init__(self) -> None:
        self.trips: list[list[int]] = []

    async def act(self, items: list[int]) -> list[int]:
        self.trips.append(items)
        await asyncio.sleep(0)
        if 13 in items:
            raise ValueError("thirteen")
        return [2 * item for item in items]


@in_loop
async def test_a_turn_is_one_trip_and_the_next_another() -> None:
    counted = Counted()
    gathering = Batching("gathering", counted.act)
    assert await asyncio.gather(*(gathering.ask(n) for n in range(5))) == [0, 2, 4, 6, 8]
    assert await gathering.ask(7) == 14
    assert counted.trips == [[0, 1, 2, 3, 4], [7]]


@in_loop
async def test_a_failure_is_of_those_who_travelled_together() -> None:
    gathering = Batching("gathering", Counted().act)
    answers = await asyncio.gather(gathering.ask(13), gathering.ask(1), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["thirteen", "thirteen"]
    assert await gathering.ask(1) == 2


@in_loop
async def test_who_goes_away_keeps_nobody_from_their_answer() -> None:
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
async def test_closing_waits_for_what_was_asked() -> None:
    counted = Counted()
    gathering = Batching("gathering", counted.act)
    asked = asyncio.ensure_future(gathering.ask(4))
    await asyncio.sleep(0)
    await gathering.close()
    assert counted.trips == [[4]]
    assert await asked == 8

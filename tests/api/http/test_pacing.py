"""Request pacing starts as many requests per event loop iteration as fit, in arrival order."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.http.connections import RequestPace
from tests.async_runner import in_loop
from tests.example_counts import examples


class Requests:
    """Requests that block the loop in the iteration after they start, as uvicorn runs them."""

    def __init__(self, turn_seconds: float) -> None:
        self.pace = RequestPace(turn_seconds)
        self.begun: list[int] = []
        self.done = 0
        self.run_once = 0
        self.by_turn: Counter[int] = Counter()

    def begin(self, number: int, seconds: float = 0.0) -> None:
        """Submit a request."""
        self.pace.begin(partial(self._begun, number, seconds))

    def _begun(self, number: int, seconds: float) -> None:
        self.begun.append(number)
        self.by_turn[self.run_once] += 1
        asyncio.get_running_loop().call_soon(self._work, seconds)

    def _work(self, seconds: float) -> None:
        time.sleep(seconds)
        self.done += 1

    async def finish(self, count: int, most_turns: int) -> None:
        """Run the loop until `count` requests are done."""
        for _ in range(most_turns):
            if self.done == count:
                return
            self.run_once += 1
            await asyncio.sleep(0)
        raise AssertionError(f"{self.done} of {count} were done in {most_turns} turns")


@settings(max_examples=examples(25, full=50))
@given(st.lists(st.integers(0, 30), max_size=12))
@in_loop
async def test_request_pacing_preserves_arrival_order(bursts: list[int]) -> None:
    requests, came = Requests(0.002), 0
    for burst in bursts:
        for _ in range(burst):
            requests.begin(came)
            came += 1
        requests.run_once += 1
        await asyncio.sleep(0)
    # At least one request is started in each iteration of the event loop.
    await requests.finish(came, came + 3)
    assert requests.begun == [*range(came)]


@in_loop
async def test_request_pacing_starts_at_most_two_long_requests_per_loop_iteration() -> None:
    requests = Requests(0.001)
    for number in range(40):
        requests.begin(number, 0.0015)
    others = 0
    while requests.done < 40:
        requests.run_once += 1
        await asyncio.sleep(0)
        others += 1
    assert others >= 35
    assert set(requests.by_turn.values()) <= {1, 2}


@in_loop
async def test_request_pacing_starts_many_short_requests_per_loop_iteration() -> None:
    requests = Requests(10.0)
    for number in range(500):
        requests.begin(number)
    await requests.finish(500, 60)


@in_loop
async def test_request_pacing_starts_single_request_immediately() -> None:
    requests = Requests(0.001)
    for number in range(3):
        requests.begin(number)
        assert requests.begun == [*range(number + 1)]
        await requests.finish(number + 1, 5)
        for _ in range(5):
            await asyncio.sleep(0)


class Overload:
    """A queue with a simulated clock: each turn of the event loop starts one request and takes ten milliseconds."""

    def __init__(self) -> None:
        self.now = self.worked = 0.0
        self.pace = RequestPace(0.001, clock=lambda: self.now, worked=lambda: self.worked)
        self.waits: list[float] = []
        self.refused: list[float] = []

    def begin(self, *, exempt: bool = False) -> None:
        came = self.now
        refuse = None if exempt else partial(self._end, self.refused, came)
        self.pace.begin(partial(self._end, self.waits, came), refuse)

    def _end(self, waits: list[float], came: float) -> None:
        waits.append(self.now - came)

    async def run(self, turns: int, requests_per_turn: int, seconds: float = 0.01) -> None:
        for _ in range(turns):
            for _ in range(requests_per_turn):
                self.begin()
            self.now += seconds
            self.worked += seconds
            await asyncio.sleep(0)


@in_loop
async def test_request_pacing_under_overload_refuses_new_requests_at_once_and_bounds_the_wait_of_others() -> None:
    load = Overload()
    await load.run(200, 3)
    begun, late = len(load.waits), len(load.refused)
    await load.run(300, 3)
    # The first part begins with a burst, in which requests wait for longer and are refused late.
    assert max(load.waits[:begun]) >= 0.4
    assert load.refused[0] >= 0.15
    assert max(load.waits[begun:]) <= 0.07
    assert len(load.waits) - begun == 300
    assert len(load.refused) - late == 600
    assert max(load.refused[late:]) == 0.0
    assert load.pace.refused == len(load.refused)


@in_loop
async def test_request_pacing_under_overload_that_slows_down_refuses_queued_requests_that_are_late() -> None:
    load = Overload()
    await load.run(200, 3)
    before = len(load.refused)
    await load.run(1, 0, 0.2)
    await load.run(1, 0)
    assert len(load.refused) > before
    assert min(load.refused[before:]) >= 0.15


@in_loop
async def test_request_pacing_with_slow_turns_refuses_after_a_second_of_overload() -> None:
    load = Overload()
    await load.run(3, 3, 0.5)
    assert load.refused


@in_loop
async def test_request_pacing_after_idle_time_queues_as_many_requests_as_before_it() -> None:
    load = Overload()
    await load.run(200, 3)
    await load.run(10, 0)
    load.now += 5.0
    before = len(load.refused)
    for _ in range(5):
        load.begin()
    await load.run(10, 0)
    assert len(load.refused) == before


@in_loop
async def test_request_pacing_with_burst_of_less_than_half_a_second_refuses_nothing() -> None:
    load = Overload()
    for _ in range(45):
        load.begin()
    await load.run(60, 0)
    assert len(load.waits) == 45
    assert max(load.waits) > 0.15
    assert not load.refused


@pytest.mark.parametrize("pause", [0.4, 0.7, 30.0])
@in_loop
async def test_request_pacing_with_pause_of_a_busy_process_refuses_nothing(pause: float) -> None:
    load = Overload()
    # Like a client with eight connections, each of which sends its next request after a response.
    for _ in range(8):
        load.begin()
    await load.run(300, 1)
    for _ in range(5):
        load.now += pause
        await load.run(100, 1)
    assert not load.refused
    assert max(load.waits) > 0.15


@in_loop
async def test_request_pacing_shortly_after_overload_refuses_after_shorter_queue() -> None:
    load = Overload()
    await load.run(100, 3)
    await load.run(100, 0)
    before = len(load.refused)
    for _ in range(45):
        load.begin()
    await load.run(60, 0)
    assert len(load.refused) > before
    await load.run(1_100, 0)
    before = len(load.refused)
    for _ in range(45):
        load.begin()
    await load.run(60, 0)
    assert len(load.refused) == before


@in_loop
async def test_request_pacing_never_refuses_health_checks() -> None:
    load = Overload()
    for _ in range(300):
        load.begin(exempt=True)
    await load.run(310, 0)
    assert len(load.waits) == 300
    assert not load.refused

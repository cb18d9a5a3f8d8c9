"""The relay: what it sends, what it acknowledges, and what it does while the broker is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence

import pytest

from shoal.core.errors import Unavailable
from shoal.core.events import PostCreated
from shoal.core.ids import shard_of
from shoal.graph.contract import Batch, Job, WakeUp
from shoal.graph.memory import MemoryGraph
from shoal.outbox.relay import Relay
from tests.running import eventually, in_loop
from tests.stores import ANN, Clock


@pytest.fixture(autouse=True)
def _no_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("shoal.outbox.relay._AWAY_SECONDS", 0.005)
    with caplog.at_level(logging.CRITICAL + 1):
        yield


class Broker:
    """Where jobs are sent; it can be away."""

    def __init__(self) -> None:
        self.away = False
        self.got: list[int] = []

    async def send(self, jobs: Sequence[Job]) -> None:
        await asyncio.sleep(0)
        if self.away:
            raise Unavailable("away")
        self.got += [job.seq for job in jobs]


async def emit(graph: MemoryGraph, count: int) -> None:
    batch = Batch(shard_of(ANN))
    for n in range(count):
        batch.emit(PostCreated(post_id=n, author_id=ANN))
    await graph.commit(batch)


@in_loop
async def test_a_batch_is_sent_in_order_and_then_acknowledged() -> None:
    graph, broker = MemoryGraph(), Broker()
    relay = Relay(graph, broker.send, batch=3)
    await emit(graph, 5)
    assert [await relay.run_once() for _ in range(3)] == [3, 2, 0]
    assert broker.got == [1, 2, 3, 4, 5]
    assert await graph.backlog() == 0


@in_loop
async def test_a_started_relay_sends_what_is_committed_without_being_asked() -> None:
    graph, broker = MemoryGraph(), Broker()
    relay = Relay(graph, broker.send, poll_seconds=3600.0)
    relay.start()
    await asyncio.sleep(0.01)
    await emit(graph, 5)
    await eventually(graph.backlog, 0)
    await relay.stop()
    assert broker.got == [1, 2, 3, 4, 5]


class Counted(MemoryGraph):
    """Counts claims; what is committed wakes nobody when it is `silent`, as if another process had."""

    asked = 0
    silent = False

    async def claim(self, limit: int, lease: float) -> list[Job]:
        self.asked += 1
        return await super().claim(limit, lease)

    def on_event(self, wake: WakeUp) -> None:
        super().on_event(lambda: None if self.silent else wake())


@in_loop
async def test_events_that_were_sent_are_not_followed_by_a_question_whether_there_are_more() -> None:
    graph, broker = Counted(), Broker()
    relay = Relay(graph, broker.send, poll_seconds=3600.0)
    relay.start()
    for n in range(1, 4):
        await asyncio.sleep(0.01)
        await emit(graph, 1)
        await eventually(graph.backlog, 0)
        assert graph.asked == 1 + n, "once at the start, and once for each"
    await relay.stop()


@in_loop
async def test_a_relay_that_finds_nothing_looks_less_often_and_still_finds_what_wakes_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.outbox.relay._LONGEST_POLL_SECONDS", 0.2)
    graph, broker = Counted(), Broker()
    relay = Relay(graph, broker.send, poll_seconds=0.001)
    relay.start()
    await asyncio.sleep(0.5)
    # 1, 2, 4 and so on up to 128 ms, then 200: never so many as every millisecond would make.
    assert graph.asked < 15
    graph.silent = True
    await emit(graph, 1)
    await eventually(graph.backlog, 0)
    await relay.stop()
    assert broker.got == [1]


@in_loop
async def test_while_the_broker_is_away_events_stay_in_the_store_and_are_sent_when_it_is_back() -> None:
    graph, broker = MemoryGraph(), Broker()
    relay = Relay(graph, broker.send)
    broker.away = True
    relay.start()
    await emit(graph, 3)
    await asyncio.sleep(0.03)
    assert (broker.got, await graph.backlog()) == ([], 3)
    broker.away = False
    await eventually(graph.backlog, 0)
    await relay.stop()
    assert broker.got == [1, 2, 3]


@in_loop
async def test_a_relay_that_ends_while_the_broker_is_away_leaves_its_jobs_to_the_next() -> None:
    clock, broker = Clock(), Broker()
    graph = MemoryGraph(clock=clock)
    relay = Relay(graph, broker.send, lease=30.0)
    broker.away = True
    relay.start()
    await emit(graph, 3)
    await asyncio.sleep(0.01)
    async with asyncio.timeout(60):
        await relay.stop()
    broker.away = False
    next_one = Relay(graph, broker.send)
    assert await next_one.run_once() == 0
    clock.now = 31.0
    assert await next_one.run_once() == 3


@in_loop
async def test_a_store_that_is_away_for_a_while_is_asked_again() -> None:
    class Away(MemoryGraph):
        asked = 0

        async def claim(self, limit: int, lease: float) -> list[Job]:
            self.asked += 1
            if self.asked < 4:
                raise Unavailable("away") if self.asked % 2 else OSError("away")
            return await super().claim(limit, lease)

    graph, broker = Away(), Broker()
    await emit(graph, 1)
    relay = Relay(graph, broker.send)
    relay.start()
    await eventually(graph.backlog, 0)
    await relay.stop()
    assert broker.got == [1]

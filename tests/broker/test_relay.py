"""The relay: sending, acknowledging, polling and broker outages."""

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
from tests.async_runner import eventually, in_loop
from tests.stores import ANN, Clock


@pytest.fixture(autouse=True)
def _no_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("shoal.outbox.relay._AWAY_SECONDS", 0.005)
    with caplog.at_level(logging.CRITICAL + 1):
        yield


class Broker:
    """A broker that records jobs and can be unavailable."""

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
async def test_outbox_relay_sends_batch_in_order_and_then_acknowledges_it() -> None:
    graph, broker = MemoryGraph(), Broker()
    relay = Relay(graph, broker.send, batch=3)
    await emit(graph, 5)
    assert [await relay.run_once() for _ in range(3)] == [3, 2, 0]
    assert broker.got == [1, 2, 3, 4, 5]
    assert await graph.backlog() == 0


@in_loop
async def test_outbox_relay_sends_committed_events_without_polling() -> None:
    graph, broker = MemoryGraph(), Broker()
    relay = Relay(graph, broker.send, poll_seconds=3600.0)
    relay.start()
    await asyncio.sleep(0.01)
    await emit(graph, 5)
    await eventually(graph.backlog, 0)
    await relay.stop()
    assert broker.got == [1, 2, 3, 4, 5]


class Counted(MemoryGraph):
    """Counts claims. While `silent`, commits do not wake the relay, as if another process had committed."""

    asked = 0
    silent = False

    async def claim(self, limit: int, lease: float) -> list[Job]:
        self.asked += 1
        return await super().claim(limit, lease)

    async def claims(self) -> int:
        return self.asked

    def on_event(self, wake: WakeUp) -> None:
        super().on_event(lambda: None if self.silent else wake())


@in_loop
async def test_outbox_relay_does_not_poll_again_after_sending_events() -> None:
    graph, broker = Counted(), Broker()
    relay = Relay(graph, broker.send, poll_seconds=3600.0)
    relay.start()
    await eventually(graph.claims, 1)
    for n in range(1, 4):
        await emit(graph, 1)
        await eventually(graph.backlog, 0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert graph.asked == 1 + n, "one claim at the start and one per event"
    await relay.stop()


@in_loop
async def test_outbox_relay_when_idle_polls_less_often_and_finds_unannounced_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.outbox.relay._LONGEST_POLL_SECONDS", 0.2)
    graph, broker = Counted(), Broker()
    relay = Relay(graph, broker.send, poll_seconds=0.001)
    relay.start()
    await asyncio.sleep(0.5)
    # The interval doubles from 1 ms to 128 ms, then stays at 200 ms: far fewer polls than one per millisecond.
    assert graph.asked < 15
    graph.silent = True
    await emit(graph, 1)
    await eventually(graph.backlog, 0)
    await relay.stop()
    assert broker.got == [1]


@in_loop
async def test_outbox_relay_without_broker_keeps_events_and_sends_them_after_recovery() -> None:
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
async def test_outbox_relay_stopped_without_broker_leaves_its_jobs_to_next_relay() -> None:
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
async def test_outbox_relay_retries_unavailable_store() -> None:
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

"""The link reconnects to a broker that rejects messages or does not respond."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from aiormq.abc import AbstractChannel, AbstractConnection

from shoal import amqp
from shoal.core.errors import Unavailable
from tests.async_runner import eventually, in_loop, run
from tests.engines import rabbitmq
from tests.faults import proxy
from tests.tiers import deep


class _Made:
    """A link with a queue of at most one message; counts how often the link connected."""

    def __init__(self, url: str) -> None:
        self._queue = rabbitmq.namespace()
        self._channel: AbstractChannel | None = None
        self.times = 0
        self.link = amqp.Link(url, self._prepare, lambda: None)

    async def _prepare(self, connection: AbstractConnection) -> Sequence[AbstractChannel]:
        self._channel = await connection.channel()
        await self._channel.queue_declare(self._queue, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        self.times += 1
        return [self._channel]

    async def publish(self) -> bool:
        """Publish a message and return whether the broker accepted it."""
        try:
            await self.link.publish(self._queue, [b"one"])
        except Unavailable:
            return False
        return True

    async def empty(self) -> None:
        """Purge the queue."""
        assert self._channel is not None
        await self.link.ask(self._channel.queue_purge(self._queue))


@asynccontextmanager
async def _made(url: str) -> AsyncIterator[_Made]:
    made = _Made(url)
    await made.link.open()
    try:
        yield made
    finally:
        await made.link.close()


@in_loop
async def test_broker_link_to_queue_that_rejects_publishes_reconnects_with_growing_backoff(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(amqp, "_REFUSED_SECONDS", 0.05)
    async with _made(rabbitmq.node().url) as made:
        assert await made.publish()

        async def times() -> int:
            assert not await made.publish()
            return made.times

        for wanted in (2, 3, 4):
            await eventually(times, wanted)
        (refusing,) = made.link._refusing.values()
        # On a slow machine, the last rejection may already be the reason for one more reconnect.
        reconnects = sum("accepts no messages" in record.getMessage() for record in caplog.records)
        assert reconnects >= 3
        assert refusing.seconds == pytest.approx(2**reconnects * 0.05)


@in_loop
async def test_broker_link_does_not_reconnect_when_queue_accepts_between_two_rejections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A second rejection in a row would cause a reconnect.
    monkeypatch.setattr(amqp, "_REFUSED_SECONDS", 1e-6)
    async with _made(rabbitmq.node().url) as made:
        for _ in range(3):
            assert await made.publish()
            assert not await made.publish()
            await made.empty()
        assert made.times == 1


@in_loop
async def test_broker_link_to_unresponsive_broker_reconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    between = proxy.Link(proxy.port_of(rabbitmq.node().url))
    try:
        async with _made(proxy.moved(rabbitmq.node().url, between.at)) as made:
            monkeypatch.setattr(amqp, "_PATIENCE_SECONDS", 0.2)
            between.silence()
            assert not await made.publish()
            monkeypatch.undo()
            between.heal()

            async def times() -> int:
                return made.times

            await eventually(times, 2)
    finally:
        between.close()


@pytest.mark.parametrize("how", ["kill", *deep("stop")])
def test_broker_link_to_stopped_broker_logs_one_line_without_traceback(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    rabbitmq.node()
    node = rabbitmq.start_another()

    async def story() -> None:
        async with _made(node.url) as made:
            assert await made.publish()
            await asyncio.to_thread(getattr(node, how))

            async def noted() -> int:
                return sum("is unreachable" in record.getMessage() for record in caplog.records)

            await eventually(noted, 1)

    try:
        run(story())
    finally:
        rabbitmq.stop(node)
    first, second = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert (first.name, second.name) == (amqp.__name__, amqp.__name__)
    assert first.getMessage().startswith("lost the connection to the message broker: ")
    assert not first.exc_info

"""How many jobs workers have in hand, since when, and how many they finish: asked of all of them over the broker.

The broker itself tells only what waits in its queues. Every worker answers a question that is put to the exchange; who asks
knows from the work queue how many there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiormq
import msgspec
from aiormq.abc import AbstractChannel, DeliveredMessage

from shoal.broker.tally import Tally

_REPLIES = "amq.rabbitmq.reply-to"
_PATIENCE_SECONDS = 1.0
"""A worker that has not answered by then is busy or stuck."""


class Census:
    """Asks and answers, on a channel of its own."""

    def __init__(self, exchange: str, own: Callable[[], Tally] | None) -> None:
        self._exchange = exchange
        self._own = own
        self._channel: AbstractChannel | None = None
        self._answers: asyncio.Queue[tuple[str | None, Tally]] = asyncio.Queue()
        self._asking = asyncio.Lock()
        self._questions = 0

    async def prepare(self, channel: AbstractChannel) -> None:
        """Be ready to ask; and to answer, in a process that works."""
        await channel.basic_consume(_REPLIES, self._hear, no_ack=True)
        if self._own is not None:
            queue = (await channel.queue_declare("", exclusive=True, auto_delete=True)).queue or ""
            await channel.queue_bind(queue, self._exchange)
            await channel.basic_consume(queue, self._answer, no_ack=True)
        self._channel = channel

    async def take(self, workers: int) -> Tally:
        """What so many workers say, as one. Those that are silent count as having something in hand."""
        async with self._asking:
            self._questions += 1
            question = str(self._questions)
            total = Tally()
            if workers and self._channel is not None:
                properties = aiormq.spec.Basic.Properties(reply_to=_REPLIES, correlation_id=question)
                await self._channel.basic_publish(b"", exchange=self._exchange, properties=properties)
                await self._collect(question, workers, total)
            total.silent = workers - total.workers
            return total

    async def _collect(self, question: str, workers: int, total: Tally) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while total.workers < workers:
                    answered, tally = await self._answers.get()
                    if answered == question:
                        total.add(tally)
        except TimeoutError:
            return

    async def _hear(self, message: DeliveredMessage) -> None:
        properties = message.header.properties
        self._answers.put_nowait((properties.correlation_id, msgspec.msgpack.decode(message.body, type=Tally)))

    async def _answer(self, message: DeliveredMessage) -> None:
        asked = message.header.properties
        if self._own is not None and asked.reply_to:
            properties = aiormq.spec.Basic.Properties(correlation_id=asked.correlation_id)
            body = msgspec.msgpack.encode(self._own())
            await message.channel.basic_publish(body, routing_key=asked.reply_to, properties=properties)

"""A question to all processes over the broker: how much does each have in hand?

The broker itself tells only what waits in its queues, and how many consume them. Every process that does answers a question that
is put to the exchange, with a value of one kind. Whoever does not answer may have something in hand, but not for long: the broker
ends a connection that says nothing, and gives what it had to others. RabbitMQ also counts consumers that were connected to a node
that died, until that node is back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import aiormq
import msgspec
from aiormq.abc import AbstractChannel, DeliveredMessage

T = TypeVar("T")

_REPLIES = "amq.rabbitmq.reply-to"
_PATIENCE_SECONDS = 1.0
"""A process that has not answered by then is busy or stuck."""
_GONE_SECONDS = 35.0
"""As many that were silent for so long are no processes: three heartbeats, and some time to spare."""
_FORGOTTEN_SECONDS = 60.0
"""A silence from before a longer pause between two questions says nothing about one after it."""


class Roll(NamedTuple, Generic[T]):
    """The answers, and how many are `silent` that may have something in hand."""

    answers: list[T]
    silent: int


class _Silence(NamedTuple):
    """How many were silent, since when without a change, and when that was last seen."""

    many: int
    since: float
    seen: float


class RollCall(Generic[T]):
    """Asks and answers, on a channel of its own. Who only asks has no answer of its `own`."""

    def __init__(
        self, exchange: str, kind: type[T], own: Callable[[], T] | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._exchange = exchange
        self._own = own
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._channel: AbstractChannel | None = None
        self._answers: asyncio.Queue[tuple[str | None, T]] = asyncio.Queue()
        self._asking = asyncio.Lock()
        self._questions = 0
        self._clock = clock
        self._silence = _Silence(0, 0.0, 0.0)

    async def prepare(self, channel: AbstractChannel) -> None:
        """Be ready to ask; and to answer, in a process that has an answer."""
        await channel.basic_consume(_REPLIES, self._hear, no_ack=True)
        if self._own is not None:
            queue = (await channel.queue_declare("", exclusive=True, auto_delete=True)).queue or ""
            await channel.queue_bind(queue, self._exchange)
            await channel.basic_consume(queue, self._answer, no_ack=True)
        self._channel = channel

    async def take(self, expected: int) -> Roll[T]:
        """Ask so many processes and return their answers; fewer when some of them are silent."""
        async with self._asking:
            self._questions += 1
            question = str(self._questions)
            found: list[T] = []
            if expected and self._channel is not None:
                properties = aiormq.spec.Basic.Properties(reply_to=_REPLIES, correlation_id=question)
                await self._channel.basic_publish(b"", exchange=self._exchange, properties=properties)
                await self._collect(question, expected, found)
            return Roll(found, self._still_there(max(0, expected - len(found))))

    def _still_there(self, silent: int) -> int:
        """Return how many of so many that are silent may be processes."""
        now, before = self._clock(), self._silence
        known = silent == before.many and now - before.seen < _FORGOTTEN_SECONDS
        self._silence = _Silence(silent, before.since if known else now, now)
        return 0 if now - self._silence.since >= _GONE_SECONDS else silent

    async def _collect(self, question: str, expected: int, found: list[T]) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while len(found) < expected:
                    answered, answer = await self._answers.get()
                    if answered == question:
                        found.append(answer)
                    else:
                        # It came too late, and whoever gave it is there.
                        self._silence = _Silence(0, 0.0, 0.0)
        except TimeoutError:
            return

    async def _hear(self, message: DeliveredMessage) -> None:
        properties = message.header.properties
        self._answers.put_nowait((properties.correlation_id, self._decoder.decode(message.body)))

    async def _answer(self, message: DeliveredMessage) -> None:
        asked = message.header.properties
        if self._own is not None and asked.reply_to:
            properties = aiormq.spec.Basic.Properties(correlation_id=asked.correlation_id)
            body = msgspec.msgpack.encode(self._own())
            await message.channel.basic_publish(body, routing_key=asked.reply_to, properties=properties)

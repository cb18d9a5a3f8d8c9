"""Increments carried by RabbitMQ: a fan-out exchange puts each into every one of a few durable queues, which collectors take from.

What is sent is on the broker's disks in all queues before `send` returns. A collector gives the receipt for a delivery when the
increment is in a version, so whatever dies before that, the increment is delivered again; by then it may be in a version, and is
dropped. A queue loses nothing for having the wrong collector, or several one after the other: see `places`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence

import msgspec
from aiormq.abc import AbstractChannel, AbstractConnection, DeliveredMessage

from shoal.amqp.depth import depth_of
from shoal.amqp.link import Link
from shoal.amqp.roll_call import Roll, RollCall
from shoal.core.errors import TooLarge, Unavailable
from shoal.tagcloud.contract import Parcel
from shoal.tagcloud.deliveries import Deliveries, QueueReceipt
from shoal.tagcloud.places import QueueNames, QueuePlace, too_many

_log = logging.getLogger(__name__)

MOST_BYTES = 1_000_000
"""Largest increment that is accepted, in bytes. Emitters send a tenth of that at most."""
_LOOK_SECONDS = 0.2
_STILL_SECONDS = 5.0
"""A queue in which something waits for so long while no collector has anything of it gives to nobody any more."""


class CollectorReport(msgspec.Struct, array_like=True):
    """A collector's report: unacknowledged deliveries by queue, and how many there ever were."""

    held: dict[str, int]
    taken: int


class RabbitTransport:
    """See `contract.Transport`. A process that is not `collecting` sends, and may ask what waits; nothing arrives there.

    `prefetch`: increments of a queue that a collector has in hand at most. `turn_seconds`: how often it looks whether it is first
    in too many lines.
    """

    def __init__(self, url: str, namespace: str, *, collecting: bool, prefetch: int, turn_seconds: float) -> None:
        self._names = QueueNames(namespace)
        self._prefetch = prefetch
        self._turn_seconds = turn_seconds
        self._deliveries: Deliveries = Deliveries()
        self._places: list[QueuePlace] = []
        self._came = asyncio.Event()
        self._counting: AbstractChannel | None = None
        self._looking: AbstractChannel | None = None
        self._roll_call = RollCall(self._names.census, CollectorReport, self._report if collecting else None)
        # Two connections: a broker that is short of memory stops to read from those that publish, receipts too.
        self._putting = Link(url, self._prepare_putting, lambda: None)
        self._taking = Link(url, self._prepare_taking, self._lost) if collecting else None
        self._turns: asyncio.Task[None] | None = None
        self._still: dict[str, float] = {}

    @classmethod
    async def open(
        cls, url: str, namespace: str = "shoal", *, collecting: bool, prefetch: int = 1_000, turn_seconds: float = 1.0
    ) -> RabbitTransport:
        """Connect, or begin to try.

        Raises `InvalidInput` for a URL that is none of a broker, `MisconfiguredEngine` where the broker refuses us.
        """
        transport = cls(url, namespace, collecting=collecting, prefetch=prefetch, turn_seconds=turn_seconds)
        try:
            await transport._putting.open()
            if transport._taking is not None:
                await transport._taking.open()
        except Unavailable:
            await transport.close()
            raise
        if transport._taking is not None:
            transport._turns = asyncio.create_task(transport._take_turns(), name="shoal-tag-queues")
        return transport

    async def close(self) -> None:
        if self._turns is not None:
            self._turns.cancel()
            await asyncio.wait([self._turns])
        if self._taking is not None and self._taking.up:
            # Answered after all that was said before: the receipts have arrived.
            with contextlib.suppress(Unavailable):
                await self._taking.ask(self._said())
        for link in filter(None, (self._taking, self._putting)):
            await link.close()

    async def send(self, id_: bytes, body: bytes) -> None:
        if len(body) > MOST_BYTES:
            raise TooLarge(f"an increment has at most {MOST_BYTES} bytes, and this one {len(body)}", field="increment")
        await self._putting.publish("", [bytes([len(id_)]) + id_ + body], exchange=self._names.exchange)

    async def arrivals(self) -> AsyncIterator[Sequence[Parcel]]:
        # Whoever begins to look has not seen what another one left undone.
        self._deliveries.again()
        while True:
            self._came.clear()
            yield self._deliveries.take()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._came.wait()

    def hurry(self) -> None:
        self._came.set()

    async def done(self, parcels: Sequence[Parcel]) -> None:
        await self._give(self._deliveries.done([parcel.id for parcel in parcels]))

    async def _give(self, receipts: Sequence[QueueReceipt]) -> None:
        for place, tag in receipts:
            # A connection that has ended takes none, and delivers again.
            with contextlib.suppress(Exception):
                await place.channel.basic_ack(tag, wait=False)

    async def waiting(self) -> int:
        """A collector that does not answer has one increment in hand."""
        return await self._putting.ask(self._count())

    async def _count(self) -> int:
        counting = self._counting
        if counting is None:
            raise Unavailable("the message broker cannot be reached")
        # Asked before and after: what moves from a queue into somebody's hands meanwhile is counted.
        collectors = await self._names.collectors(counting)
        before = await self._roll_call.take(collectors)
        waiting = {queue: (await depth_of(counting, queue)).messages for queue in self._names.queues}
        after = await self._roll_call.take(collectors)
        fullest = max(n + max(_held(before, queue), _held(after, queue)) for queue, n in waiting.items())
        moved = sum(report.taken for report in before.answers) != sum(report.taken for report in after.answers)
        return fullest + after.silent or int(moved)

    def _report(self) -> CollectorReport:
        held = self._deliveries.by_place()
        return CollectorReport({place.queue: n for place, n in held.items()}, self._deliveries.taken)

    async def _prepare_putting(self, connection: AbstractConnection) -> Sequence[AbstractChannel]:
        counting, asking = await connection.channel(), await connection.channel(publisher_confirms=False)
        await self._names.declare(counting)
        await self._roll_call.prepare(asking)
        self._counting = counting
        return counting, asking

    async def _prepare_taking(self, connection: AbstractConnection) -> Sequence[AbstractChannel]:
        self._places = [
            QueuePlace(queue, await connection.channel(publisher_confirms=False), self._delivered)
            for queue in self._names.queues
        ]
        self._looking = looking = await connection.channel(publisher_confirms=False)
        await self._names.declare(looking)
        await looking.basic_consume(self._names.roll, _nothing)
        for place in self._places:
            await place.channel.basic_qos(prefetch_count=self._prefetch)
            place.channel.on_consumer_cancel_callbacks.add(self._cancelled)
            await place.stand()
        return [looking, *[place.channel for place in self._places]]

    async def _delivered(self, place: QueuePlace, tag: int, message: bytes) -> None:
        body = 1 + int.from_bytes(message[:1], "big")
        receipt = QueueReceipt(place, tag)
        if self._deliveries.arrive(Parcel(message[1:body], message[body:]), receipt):
            self._came.set()
        else:
            await self._give([receipt])

    async def _cancelled(self, _frame: object) -> None:
        """Somebody deleted the queue."""
        if self._taking is not None:
            self._taking.renew()

    def _lost(self) -> None:
        self._deliveries.clear()
        self._places = []

    async def _take_turns(self) -> None:
        while self._taking is not None:
            await asyncio.sleep(self._turn_seconds)
            if self._taking.up:
                try:
                    await self._taking.ask(self._take_turn())
                    if self._putting.up and await self._putting.ask(self._stands_still()):
                        self._taking.renew()
                except Unavailable:
                    # It may have left a line and not be in it again.
                    self._taking.renew()

    async def _take_turn(self) -> None:
        """Give up one queue, if this collector has more than its share of them."""
        if self._looking is None:
            return
        given_up = too_many(self._places, await self._names.collectors(self._looking))
        if given_up is not None:
            await given_up.leave()
            # From here on none of its numbers may be named to the broker.
            self._deliveries.forget(given_up)
            await given_up.give_back()
            await given_up.stand()

    async def _stands_still(self) -> bool:
        """Return whether a queue has given nothing to anybody for some seconds, although something waits there.

        Seen once after some hundred restarts of RabbitMQ 3.10, on a busy machine: every collector stood in every line.
        """
        counting = self._counting
        if counting is None:
            return False
        waiting = [queue for queue in self._names.queues if (await depth_of(counting, queue)).messages]
        collectors = await self._names.collectors(counting) if waiting else 0
        reports = await self._roll_call.take(collectors)
        if reports.silent:
            # Whoever is silent may have something.
            waiting = []
        now = asyncio.get_running_loop().time()
        self._still = {queue: self._still.get(queue, now) for queue in waiting if not _held(reports, queue)}
        still = [queue for queue, since in self._still.items() if now - since >= _STILL_SECONDS]
        if still:
            _log.warning("increments wait in %s and come to nobody: this collector connects anew", ", ".join(still))
            self._still = {}
        return bool(still)

    async def _said(self) -> None:
        for place in self._places:
            await place.channel.basic_qos(prefetch_count=self._prefetch)


def _held(reports: Roll[CollectorReport], queue: str) -> int:
    return sum(report.held.get(queue, 0) for report in reports.answers)


async def _nothing(_message: DeliveredMessage) -> None:
    """Nothing is ever sent there."""

"""Tag cloud increments over RabbitMQ: a fan-out exchange with durable queues and deduplicated deliveries.

`send` returns once every queue has the increment on disk. A collector acknowledges it when it is in a version; redeliveries after
a crash are dropped if already counted. Every collector consumes every queue; the broker delivers to the first and fails over. A
collector that is first on more queues than its fair share requeues itself on one. Receipts are valid for one connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
from aiormq.abc import AbstractChannel, AbstractConnection, DeliveredMessage
from pamqp.common import FieldValue

from shoal.amqp import Link, LivenessQuery, Replies, depth_of
from shoal.core.errors import TooLarge, Unavailable
from shoal.locks import set_within
from shoal.tagcloud.contract import Parcel

QUEUES = 3
_numbers = itertools.count(1)
_ARGUMENTS: dict[str, FieldValue] = {
    "x-queue-type": "quorum",
    "x-single-active-consumer": True,
    # Half an hour of increments at maximum load while no collector runs; after that, events wait in their outbox.
    "x-max-length": 1_000_000,
    "x-overflow": "reject-publish",
    # Newer brokers drop a message after about twenty deliveries, but collectors may die or put back messages more often.
    "x-delivery-limit": 1_000_000,
}


Deliver = Callable[["QueuePosition", int, bytes], Awaitable[None]]
"""Called with the position at the queue, the delivery number there, and the message."""


class QueueNames:
    """The names of a network's exchange and queues. `namespace` separates networks on one broker."""

    def __init__(self, namespace: str) -> None:
        self.exchange = f"{namespace}.tags"
        self.queues = [f"{namespace}.tags.{number}" for number in range(1, QUEUES + 1)]
        self.census = f"{namespace}.tags.census"
        self.collectors_queue = f"{namespace}.tags.collectors"
        """A queue that stays empty, consumed by every collector: for the other queues the broker counts only the active consumer.
        """

    async def declare(self, channel: AbstractChannel) -> None:
        """Declare the queues that do not exist yet.

        Emitters do this too, because increments must be kept even if no collector ever ran.
        """
        await channel.exchange_declare(self.exchange, exchange_type="fanout", durable=True)
        await channel.exchange_declare(self.census, exchange_type="fanout", durable=True)
        await channel.queue_declare(self.collectors_queue, durable=True, arguments={"x-queue-type": "quorum"})
        for queue in self.queues:
            await channel.queue_declare(queue, durable=True, arguments=_ARGUMENTS)
            await channel.queue_bind(queue, self.exchange)

    async def collectors(self, channel: AbstractChannel) -> int:
        return (await depth_of(channel, self.collectors_queue)).consumers


class QueuePosition:
    def __init__(self, queue: str, channel: AbstractChannel, deliver: Deliver) -> None:
        self.queue = queue
        self.channel = channel
        self._deliver = deliver
        self._ticket = ""
        self.first_since = 0
        """The order number at which this became the first consumer; 0 if it may not be first."""

    async def stand(self) -> None:
        self._ticket, self.first_since = f"{self.queue}.{next(_numbers)}", 0
        await self.channel.basic_consume(self.queue, self._came, consumer_tag=self._ticket)

    async def leave(self) -> None:
        """Unsubscribe from the queue. Nothing is delivered afterwards; unacknowledged deliveries stay until `give_back`."""
        await self.channel.basic_cancel(self._ticket)
        self._ticket = ""

    async def give_back(self) -> None:
        await self.channel.basic_recover(requeue=True)

    async def _came(self, delivered: DeliveredMessage) -> None:
        tag = getattr(delivered.delivery, "delivery_tag", None)
        # Deliveries for a cancelled subscription are returned to the queue with the others.
        if tag is None or getattr(delivered.delivery, "consumer_tag", None) != self._ticket:
            return
        self.first_since = self.first_since or next(_numbers)
        await self._deliver(self, tag, delivered.body)


def too_many(positions: Sequence[QueuePosition], collectors: int) -> QueuePosition | None:
    """Return the queue that a collector should leave if it is the active consumer of too many queues; otherwise None.

    This is the queue in which it became the active consumer last.
    """
    first = sorted((queue for queue in positions if queue.first_since), key=lambda queue: queue.first_since)
    return first[-1] if len(first) > -(-QUEUES // max(1, collectors)) else None


_REMEMBERED = 10_000
"""Ids of finished increments that are remembered, for the copies that other queues deliver soon after."""


class QueueReceipt(NamedTuple):
    position: QueuePosition
    tag: int


class Deliveries:
    """Delivered increments by id, with a receipt for each delivery. `arrived` has the increments that were not taken yet."""

    def __init__(self) -> None:
        self._parcels: dict[bytes, Parcel] = {}
        self._receipts: dict[bytes, list[QueueReceipt]] = {}
        self._done: OrderedDict[bytes, None] = OrderedDict()
        self.arrived: list[Parcel] = []
        self.taken = 0

    def arrive(self, parcel: Parcel, receipt: QueueReceipt) -> bool:
        """Add a delivery of an increment.

        Return False if the increment is done already, so that the delivery can be acknowledged at once.
        """
        self.taken += 1
        if parcel.id in self._done:
            return False
        self._receipts.setdefault(parcel.id, []).append(receipt)
        if parcel.id not in self._parcels:
            self._parcels[parcel.id] = parcel
            self.arrived.append(parcel)
        return True

    def again(self) -> None:
        """Make the next `take` return all increments again that are not done."""
        self.arrived = list(self._parcels.values())

    def take(self) -> list[Parcel]:
        taken, self.arrived = self.arrived, []
        return taken

    def done(self, ids: Iterable[bytes]) -> list[QueueReceipt]:
        """Mark increments as done; return the receipts to acknowledge."""
        given: list[QueueReceipt] = []
        for id_ in ids:
            self._parcels.pop(id_, None)
            given += self._receipts.pop(id_, ())
            self._done[id_] = None
        while len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
        return given

    def forget(self, position: QueuePosition) -> None:
        """Forget a queue's deliveries, which the broker will redeliver. Increments that other queues delivered too are kept."""
        for id_, receipts in list(self._receipts.items()):
            left = [receipt for receipt in receipts if receipt.position is not position]
            if left:
                self._receipts[id_] = left
            else:
                del self._receipts[id_], self._parcels[id_]

    def clear(self) -> None:
        self._parcels.clear()
        self._receipts.clear()
        self.arrived.clear()

    def by_position(self) -> Counter[QueuePosition]:
        return Counter(receipt.position for receipts in self._receipts.values() for receipt in receipts)


_log = logging.getLogger(__name__)

MOST_BYTES = 1_000_000
"""Largest accepted increment, in bytes. Emitters send a tenth of that at most."""
_LOOK_SECONDS = 0.2
_STUCK_SECONDS = 5.0
"""Seconds after which a queue with waiting messages counts as stuck if no collector has received any of them."""


class CollectorReport(msgspec.Struct, array_like=True):
    """A collector's report: unacknowledged deliveries by queue, and the total number of deliveries ever."""

    held: dict[str, int]
    taken: int


class RabbitTransport:
    """A `contract.Transport` over RabbitMQ. A process that is not `collecting` can send and count, but receives nothing.

    `prefetch` limits unacknowledged increments of a queue. `check_seconds` is how often a collector checks whether it is the
    active consumer of too many queues.
    """

    def __init__(self, url: str, namespace: str, *, collecting: bool, prefetch: int, check_seconds: float) -> None:
        self._names = QueueNames(namespace)
        self._prefetch = prefetch
        self._check_seconds = check_seconds
        self._deliveries: Deliveries = Deliveries()
        self._positions: list[QueuePosition] = []
        self._came = asyncio.Event()
        self._counting: AbstractChannel | None = None
        self._look_channel: AbstractChannel | None = None
        self._liveness = LivenessQuery(self._names.census, CollectorReport, self._report if collecting else None)
        # Two connections: a broker that is short of memory stops reading from publishers, including their acknowledgments.
        self._putting = Link(url, self._prepare_putting, lambda: None)
        self._taking = Link(url, self._prepare_taking, self._lost) if collecting else None
        self._balancing: asyncio.Task[None] | None = None
        self._stuck_since: dict[str, float] = {}

    @classmethod
    async def open(
        cls, url: str, namespace: str = "shoal", *, collecting: bool, prefetch: int = 1_000, check_seconds: float = 1.0
    ) -> RabbitTransport:
        """Connect to the broker. If it is unreachable, keep trying in the background.

        Raises `InvalidInput` for an invalid URL, and `MisconfiguredEngine` if the broker rejects the login.
        """
        transport = cls(url, namespace, collecting=collecting, prefetch=prefetch, check_seconds=check_seconds)
        try:
            await transport._putting.open()
            if transport._taking is not None:
                await transport._taking.open()
        except Unavailable:
            await transport.close()
            raise
        if transport._taking is not None:
            transport._balancing = asyncio.create_task(transport._balance(), name="shoal-tag-queues")
        return transport

    async def close(self) -> None:
        if self._balancing is not None:
            self._balancing.cancel()
            await asyncio.wait([self._balancing])
        if self._taking is not None and self._taking.up:
            # The broker replies only after it has processed the acknowledgments that were sent before.
            with contextlib.suppress(Unavailable):
                await self._taking.ask(self._flush())
        for link in filter(None, (self._taking, self._putting)):
            await link.close()

    async def send(self, id_: bytes, body: bytes) -> None:
        if len(body) > MOST_BYTES:
            raise TooLarge(
                f"an increment of tag counts has at most {MOST_BYTES} bytes (got {len(body)})", field="increment"
            )
        await self._putting.publish("", [bytes([len(id_)]) + id_ + body], exchange=self._names.exchange)

    async def arrivals(self) -> AsyncIterator[Sequence[Parcel]]:
        # Deliver again what the previous reader left unprocessed.
        self._deliveries.again()
        while True:
            self._came.clear()
            yield self._deliveries.take()
            await set_within(self._came, _LOOK_SECONDS)

    def hurry(self) -> None:
        self._came.set()

    async def done(self, parcels: Sequence[Parcel]) -> None:
        await self._acknowledge(self._deliveries.done([parcel.id for parcel in parcels]))

    async def _acknowledge(self, receipts: Sequence[QueueReceipt]) -> None:
        for position, tag in receipts:
            # If the connection has ended, the broker redelivers the message anyway.
            with contextlib.suppress(Exception):
                await position.channel.basic_ack(tag, wait=False)

    async def waiting(self) -> int:
        """Count the increments that are sent but not merged. For a collector that does not answer, one increment is assumed."""
        return await self._putting.ask(self._count())

    async def _count(self) -> int:
        counting = self._counting
        if counting is None:
            raise Unavailable("the message broker is unreachable")
        # Ask the collectors before and after counting the queues, so that an increment that moves from a queue to a collector in
        # between is counted.
        collectors = await self._names.collectors(counting)
        before = await self._liveness.send(collectors)
        waiting = {queue: (await depth_of(counting, queue)).messages for queue in self._names.queues}
        after = await self._liveness.send(collectors)
        fullest = max(
            n + max(_unacknowledged(before, queue), _unacknowledged(after, queue)) for queue, n in waiting.items()
        )
        moved = sum(report.taken for report in before.answers) != sum(report.taken for report in after.answers)
        return fullest + after.silent or int(moved)

    def _report(self) -> CollectorReport:
        counts = self._deliveries.by_position()
        return CollectorReport({position.queue: n for position, n in counts.items()}, self._deliveries.taken)

    async def _prepare_putting(self, connection: AbstractConnection) -> Sequence[AbstractChannel]:
        counting, request_channel = await connection.channel(), await connection.channel(publisher_confirms=False)
        await self._names.declare(counting)
        await self._liveness.prepare(request_channel)
        self._counting = counting
        return counting, request_channel

    async def _prepare_taking(self, connection: AbstractConnection) -> Sequence[AbstractChannel]:
        self._positions = [
            QueuePosition(queue, await connection.channel(publisher_confirms=False), self._delivered)
            for queue in self._names.queues
        ]
        self._look_channel = looking = await connection.channel(publisher_confirms=False)
        await self._names.declare(looking)
        await looking.basic_consume(self._names.collectors_queue, _nothing)
        for position in self._positions:
            await position.channel.basic_qos(prefetch_count=self._prefetch)
            position.channel.on_consumer_cancel_callbacks.add(self._cancelled)
            await position.stand()
        return [looking, *[position.channel for position in self._positions]]

    async def _delivered(self, position: QueuePosition, tag: int, message: bytes) -> None:
        body = 1 + int.from_bytes(message[:1], "big")
        receipt = QueueReceipt(position, tag)
        if self._deliveries.arrive(Parcel(message[1:body], message[body:]), receipt):
            self._came.set()
        else:
            await self._acknowledge([receipt])

    async def _cancelled(self, _frame: object) -> None:
        """Reconnect, because the queue was deleted."""
        if self._taking is not None:
            self._taking.renew()

    def _lost(self) -> None:
        self._deliveries.clear()
        self._positions = []

    async def _balance(self) -> None:
        while self._taking is not None:
            await asyncio.sleep(self._check_seconds)
            if self._taking.up:
                try:
                    await self._taking.ask(self._give_up_surplus())
                    if self._putting.up and await self._putting.ask(self._is_stuck()):
                        self._taking.renew()
                except Unavailable:
                    # The error may have left a queue without a subscription, so reconnect.
                    self._taking.renew()

    async def _give_up_surplus(self) -> None:
        """Leave one queue if this collector is the active consumer of more than its fair share of the queues."""
        if self._look_channel is None:
            return
        given_up = too_many(self._positions, await self._names.collectors(self._look_channel))
        if given_up is not None:
            await given_up.leave()
            # Deliveries of this queue must not be acknowledged any more.
            self._deliveries.forget(given_up)
            await given_up.give_back()
            await given_up.stand()

    async def _is_stuck(self) -> bool:
        """Return whether a queue has delivered nothing for some seconds, although messages are waiting.

        Seen once after some hundred restarts of RabbitMQ 3.10, on a busy machine, with every collector subscribed to every queue.
        """
        counting = self._counting
        if counting is None:
            return False
        waiting = [queue for queue in self._names.queues if (await depth_of(counting, queue)).messages]
        collectors = await self._names.collectors(counting) if waiting else 0
        reports = await self._liveness.send(collectors)
        if reports.silent:
            # A collector that does not answer may have the waiting messages, so no queue counts as stuck.
            waiting = []
        now = asyncio.get_running_loop().time()
        self._stuck_since = {
            queue: self._stuck_since.get(queue, now) for queue in waiting if not _unacknowledged(reports, queue)
        }
        still = [queue for queue, since in self._stuck_since.items() if now - since >= _STUCK_SECONDS]
        if still:
            _log.warning("reconnecting, because no collector of the tag cloud reads the queues %s", ", ".join(still))
            self._stuck_since = {}
        return bool(still)

    async def _flush(self) -> None:
        for position in self._positions:
            await position.channel.basic_qos(prefetch_count=self._prefetch)


def _unacknowledged(reports: Replies[CollectorReport], queue: str) -> int:
    return sum(report.held.get(queue, 0) for report in reports.answers)


async def _nothing(_message: DeliveredMessage) -> None:
    """Do nothing: no messages are ever sent to this consumer."""

"""Tag cloud increments over RabbitMQ: a fan-out exchange with durable queues, single active consumers, and deduplicated
deliveries.

`send` returns once every queue has the increment on disk. A collector acknowledges it when it is in a version; what is
redelivered after a crash is dropped if counted. Every collector consumes every queue; the broker delivers to the first and
fails over. A collector that is first on more queues than its share requeues itself on one. Receipts are valid for one
connection.
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

from shoal.amqp import Link, Roll, RollCall, depth_of
from shoal.core.errors import TooLarge, Unavailable
from shoal.tagcloud.contract import Parcel

QUEUES = 3
_numbers = itertools.count(1)
_ARGUMENTS: dict[str, FieldValue] = {
    "x-queue-type": "quorum",
    "x-single-active-consumer": True,
    # Half an hour of hard work without any collector; after that events wait in their outbox, and not here.
    "x-max-length": 1_000_000,
    "x-overflow": "reject-publish",
    # Newer brokers throw away what was delivered some twenty times: so many collectors may die, or go to the end of a line.
    "x-delivery-limit": 1_000_000,
}


Deliver = Callable[["QueuePlace", int, bytes], Awaitable[None]]
"""Gets where a delivery came from, its number there, and the message."""


class QueueNames:
    """The names of one network's exchange and queues. `namespace` tells networks on one broker apart."""

    def __init__(self, namespace: str) -> None:
        self.exchange = f"{namespace}.tags"
        self.queues = [f"{namespace}.tags.{number}" for number in range(1, QUEUES + 1)]
        self.census = f"{namespace}.tags.census"
        self.roll = f"{namespace}.tags.collectors"
        """A queue that stays empty. Every collector consumes it: of the others the broker counts only who is first."""

    async def declare(self, channel: AbstractChannel) -> None:
        """Make what is not there. Emitters do so too: an increment must be safe though no collector ever ran."""
        await channel.exchange_declare(self.exchange, exchange_type="fanout", durable=True)
        await channel.exchange_declare(self.census, exchange_type="fanout", durable=True)
        await channel.queue_declare(self.roll, durable=True, arguments={"x-queue-type": "quorum"})
        for queue in self.queues:
            await channel.queue_declare(queue, durable=True, arguments=_ARGUMENTS)
            await channel.queue_bind(queue, self.exchange)

    async def collectors(self, channel: AbstractChannel) -> int:
        """How many collectors there are."""
        return (await depth_of(channel, self.roll)).consumers


class QueuePlace:
    """A place in the line for one queue, on a channel of its own."""

    def __init__(self, queue: str, channel: AbstractChannel, deliver: Deliver) -> None:
        self.queue = queue
        self.channel = channel
        self._deliver = deliver
        self._ticket = ""
        self.first_since = 0
        """The moment, by a count of such moments, from which on this is the first in line; 0 when it may not be."""

    async def stand(self) -> None:
        """Go to the end of the line."""
        self._ticket, self.first_since = f"{self.queue}.{next(_numbers)}", 0
        await self.channel.basic_consume(self.queue, self._came, consumer_tag=self._ticket)

    async def leave(self) -> None:
        """Nothing comes any more when this returns; what came goes to the next at `give_back`."""
        await self.channel.basic_cancel(self._ticket)
        self._ticket = ""

    async def give_back(self) -> None:
        """Have what came and has no receipt delivered to others. The numbers of all that came are void."""
        await self.channel.basic_recover(requeue=True)

    async def _came(self, delivered: DeliveredMessage) -> None:
        tag = getattr(delivered.delivery, "delivery_tag", None)
        # What came just before this collector left is given back with the rest.
        if tag is None or getattr(delivered.delivery, "consumer_tag", None) != self._ticket:
            return
        self.first_since = self.first_since or next(_numbers)
        await self._deliver(self, tag, delivered.body)


def too_many(places: Sequence[QueuePlace], collectors: int) -> QueuePlace | None:
    """The place that one of so many collectors should give up, if any: the one in which it was first last.

    It then goes round among the others until it finds one that has room; with so many queues somebody has.
    """
    first = sorted((place for place in places if place.first_since), key=lambda place: place.first_since)
    return first[-1] if len(first) > -(-QUEUES // max(1, collectors)) else None


_REMEMBERED = 10_000
"""So many ids of increments that are done are known here, for the copies that other queues bring soon after."""


class QueueReceipt(NamedTuple):
    """From which place in the line for a queue it came, and under which number."""

    place: QueuePlace
    tag: int


class Deliveries:
    """Increments by id, with a receipt for each of their deliveries; `arrived` are those that nobody has looked at."""

    def __init__(self) -> None:
        self._parcels: dict[bytes, Parcel] = {}
        self._receipts: dict[bytes, list[QueueReceipt]] = {}
        self._done: OrderedDict[bytes, None] = OrderedDict()
        self.arrived: list[Parcel] = []
        self.taken = 0

    def arrive(self, parcel: Parcel, receipt: QueueReceipt) -> bool:
        """A delivery came. False when its increment is done: then the receipt can be given at once."""
        self.taken += 1
        if parcel.id in self._done:
            return False
        self._receipts.setdefault(parcel.id, []).append(receipt)
        if parcel.id not in self._parcels:
            self._parcels[parcel.id] = parcel
            self.arrived.append(parcel)
        return True

    def again(self) -> None:
        """Have everything that is not done looked at once more."""
        self.arrived = list(self._parcels.values())

    def take(self) -> list[Parcel]:
        """Take the increments that have arrived since the last call."""
        taken, self.arrived = self.arrived, []
        return taken

    def done(self, ids: Iterable[bytes]) -> list[QueueReceipt]:
        """These are done: the receipts to give for them."""
        given: list[QueueReceipt] = []
        for id_ in ids:
            self._parcels.pop(id_, None)
            given += self._receipts.pop(id_, ())
            self._done[id_] = None
        while len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
        return given

    def forget(self, place: QueuePlace) -> None:
        """Forget a place's deliveries: the broker gives them to others. Those that also came from elsewhere stay."""
        for id_, receipts in list(self._receipts.items()):
            left = [receipt for receipt in receipts if receipt.place is not place]
            if left:
                self._receipts[id_] = left
            else:
                del self._receipts[id_], self._parcels[id_]

    def clear(self) -> None:
        """The connection has ended."""
        self._parcels.clear()
        self._receipts.clear()
        self.arrived.clear()

    def by_place(self) -> Counter[QueuePlace]:
        """How many deliveries from each place wait for their receipt."""
        return Counter(receipt.place for receipts in self._receipts.values() for receipt in receipts)


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

"""The outbox on RabbitMQ: what a relay has put into quorum queues, given to whoever works it off.

It keeps the same promises as the outbox of a store (`graph/contract.py`). A job is acknowledged to the broker after its work
is done; one that is put back is published anew, and confirmed, before the old delivery is acknowledged. Whatever dies in
between, a job comes twice rather than never. A lease is as long as the connection, and within this process as asked.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import msgspec
from aiormq import spec
from aiormq.abc import AbstractChannel, AbstractConnection, DeliveredMessage

from shoal.amqp.depth import depth_of
from shoal.amqp.link import Link
from shoal.amqp.roll_call import RollCall
from shoal.broker.in_flight import Delivery, InFlight, Key, Receipt, key_of
from shoal.broker.queues import Message, Queues, now_ms, read, write
from shoal.broker.tally import Rate, WorkerFigures, summed
from shoal.core.errors import Unavailable
from shoal.graph.contract import Job, WakeUp

T = TypeVar("T")

_log = logging.getLogger(__name__)

_TRUSTED = 2
"""So often a job is given among others; after that its workers died, and it is given alone."""
_UNREADABLE_MS = 6_400
"""How long a job rests that this version cannot read."""
_AWAY_SECONDS = 1.0
"""How long a job that cannot be put back rests here."""


class RabbitOutbox:
    """The jobs of one network on a broker. With `taking` this process works; without, it relays, lists and replays.

    `prefetch`: jobs that the broker gives before others are acknowledged. `deaths`: so many workers may a job cost.
    """

    def __init__(self, url: str, namespace: str, *, taking: bool, prefetch: int, deaths: int) -> None:
        self._queues = Queues(namespace)
        self._prefetch = prefetch
        self._deaths = deaths
        self._in_flight = InFlight()
        self._rate = Rate()
        self._connection: AbstractConnection | None = None
        self._counting: AbstractChannel | None = None
        self._work: AbstractChannel | None = None
        self._wake: WakeUp | None = None
        self._roll_call = RollCall(self._queues.census, WorkerFigures, self._own if taking else None)
        # Two connections: a broker that is short of memory stops to read from those that publish, acknowledgements too.
        self._putting = Link(url, self._prepare_putting, lambda: None)
        self._taking = Link(url, self._prepare_taking, self._lost) if taking else None

    @classmethod
    async def open(
        cls, url: str, *, namespace: str = "shoal", taking: bool = True, prefetch: int = 512, deaths: int = 8
    ) -> RabbitOutbox:
        """Connect, or begin to try: while the broker is away nothing is claimed and nothing can be published.

        Raises `InvalidInput` for a URL that is none of a broker, `MisconfiguredEngine` where the broker refuses us.
        """
        outbox = cls(url, namespace, taking=taking, prefetch=prefetch, deaths=deaths)
        try:
            await outbox._putting.open()
            if outbox._taking is not None:
                await outbox._taking.open()
        except Unavailable:
            await outbox.close()
            raise
        return outbox

    async def close(self) -> None:
        """Hang up: what is not acknowledged is given to others."""
        if self._taking is not None and self._work is not None and self._taking.up:
            # Answered after all that was said before: what was acknowledged has arrived.
            with suppress(Unavailable):
                await self._taking.ask(self._work.basic_qos(prefetch_count=self._prefetch))
        for link in filter(None, (self._taking, self._putting)):
            await link.close()

    async def send(self, jobs: Sequence[Job]) -> None:
        """Put new jobs in the queue; they are on the broker's disks when this returns. Raises `Unavailable`."""
        at = now_ms()
        await self._putting.publish(self._queues.work, [write(job._replace(attempt=0), at) for job in jobs])

    async def claim(self, limit: int, lease: float) -> list[Job]:
        """Claim jobs that the broker has delivered, oldest first; never wait for more. Give a suspicious job alone."""
        jobs = self._in_flight.due(limit, lease)
        arrived, aside = self._in_flight.arrived, list[Delivery]()
        while arrived and len(jobs) < limit:
            alone = arrived[0].alone
            if alone and jobs:
                break
            delivery = arrived.popleft()
            if delivery.job is None or self._goes_elsewhere(delivery):
                aside.append(delivery)
            elif self._in_flight.hold(delivery.job, delivery, lease):
                jobs.append(delivery.job)
                if alone:
                    break
        if aside:
            await self._pass_on(aside)
        return jobs

    def _goes_elsewhere(self, delivery: Delivery) -> bool:
        if delivery.alone:
            return delivery.before >= self._deaths - _TRUSTED
        return delivery.rest > 0 or delivery.before >= _TRUSTED

    async def _pass_on(self, deliveries: Sequence[Delivery]) -> None:
        """To the next queue, then acknowledged here. What cannot go there now is looked at again by the next claim."""
        bodies: dict[str, list[bytes]] = {}
        for delivery in deliveries:
            queue, body = self._next(delivery)
            bodies.setdefault(queue, []).append(body)
        try:
            for queue, there in bodies.items():
                await self._putting.publish(queue, there)
        except Unavailable:
            self._in_flight.arrive_again(deliveries)
            return
        await self._tell(self._in_flight.settle(deliveries))

    def _next(self, delivery: Delivery) -> tuple[str, bytes]:
        """Where a job goes that is not given to the runner, and as what."""
        job = delivery.job
        if job is None:
            # A newer version wrote it, and has workers too.
            return self._queues.waiting[_UNREADABLE_MS], delivery.body
        if delivery.alone:
            return self._queues.buried, write(job, delivery.at, error=f"its worker died or hung {self._deaths} times")
        if delivery.rest > 0:
            queue, rest = self._queues.after(delivery.rest)
            return queue, write(job, delivery.at, rest=rest)
        return self._queues.again, write(job, delivery.at)

    async def ack(self, jobs: Sequence[Job]) -> None:
        self._rate.add(len(jobs))
        await self._tell(self._in_flight.release(jobs))

    async def _tell(self, receipts: Sequence[Receipt]) -> None:
        """Acknowledge. When the connection has ended the jobs come again: that does no harm."""
        if self._taking is None or not self._taking.up:
            return
        with suppress(Unavailable):
            await self._taking.ask(self._acknowledge(receipts))

    async def _acknowledge(self, receipts: Sequence[Receipt]) -> None:
        for channel, tag, up_to in receipts:
            await channel.basic_ack(tag, multiple=up_to, wait=False)

    async def put_back(self, job: Job, delay: float = 0.0) -> None:
        at = self._in_flight.since(job)
        if at is None:
            # The connection ended since: the broker gives it again as it was.
            return
        queue, rest = self._queues.after(round(delay * 1000))
        # The broker may give it again before it says that it has it: that delivery must not be acknowledged with these.
        deliveries = self._in_flight.lay_down(job)
        try:
            await self._putting.publish(queue, [write(job, at, rest=rest)])
        except Unavailable:
            self._in_flight.take_up(job, deliveries, max(delay, _AWAY_SECONDS))
            return
        await self._tell(self._in_flight.settle(deliveries))

    async def bury(self, job: Job, error: str) -> None:
        at = self._in_flight.since(job)
        await self._putting.publish(self._queues.buried, [write(job, at or now_ms(), error=error)])
        await self._tell(self._in_flight.release([job]))

    async def backlog(self) -> int:
        """Count jobs that wait, are delayed, or are in hand anywhere. A worker that is silent counts as one job."""
        before = await self.tally()
        # In the order in which jobs go, so that one that moves meanwhile is counted twice rather than not at all.
        names = [*self._queues.waiting.values(), self._queues.work, self._queues.again]
        waiting = await self._asked(self._count(self._counting, names))
        after = await self.tally()
        count = waiting + max(before.in_hand, after.in_hand) + after.silent
        return count or int(before.taken != after.taken)

    async def tally(self) -> WorkerFigures:
        """Ask all workers of this network what they have in hand and finish."""
        return await self._asked(self._take_roll_call())

    async def lag(self) -> float:
        oldest = [(await self.tally()).oldest]
        # Looking at a job counts as giving it, and what waits in `again` must not be counted: that may bury it.
        for queue in (self._queues.work, *self._queues.waiting.values()):
            oldest += [message.at for _, message in await self._asked(self._look(queue, 1))]
        since = min(filter(None, oldest), default=None)
        return 0.0 if since is None else max(0, now_ms() - since) / 1000

    async def buried(self) -> list[tuple[Job, str]]:
        found = await self._asked(self._look(self._queues.buried))
        return [(message.job(), message.error) for _, message in found]

    async def unbury(self, jobs: Sequence[Job]) -> int:
        return await self._asked(self._unbury({key_of(job) for job in jobs}))

    async def ready(self) -> int:
        """How many jobs wait for a worker. What had been given to this process by now has arrived when this returns."""
        names = [self._queues.work, self._queues.again]
        if self._taking is None:
            return await self._asked(self._count(self._counting, names))
        return await self._taking.ask(self._count(self._work, names))

    def on_event(self, wake: WakeUp) -> None:
        self._wake = wake

    async def _asked(self, question: Coroutine[Any, Any, T]) -> T:
        return await self._putting.ask(question)

    async def _take_roll_call(self) -> WorkerFigures:
        if self._counting is None:
            raise Unavailable("the message broker cannot be reached")
        workers = (await depth_of(self._counting, self._queues.work)).consumers
        roll = await self._roll_call.take(workers)
        return summed(roll.answers, roll.silent)

    async def _count(self, channel: AbstractChannel | None, names: Sequence[str]) -> int:
        """How many messages are in these queues and in nobody's hands."""
        if channel is None:
            raise Unavailable("the message broker cannot be reached")
        return sum([(await depth_of(channel, name)).messages for name in names])

    async def _look(self, queue: str, limit: int = sys.maxsize) -> list[tuple[DeliveredMessage, Message]]:
        """The first messages of a queue, which go back to where they were when the channel is closed."""
        async with self._aside() as channel:
            return await _first(channel, queue, limit)

    async def _unbury(self, wanted: set[Key]) -> int:
        given: set[Key] = set()
        async with self._aside() as channel:
            for delivered, message in await _first(channel, self._queues.buried, sys.maxsize):
                job = message.job()
                if (key := key_of(job)) not in wanted:
                    continue
                if key not in given:
                    await self._putting.publish(self._queues.work, [write(job._replace(attempt=0), now_ms())])
                    given.add(key)
                await channel.basic_ack(_tag(delivered))
        return len(given)

    @asynccontextmanager
    async def _aside(self) -> AsyncIterator[AbstractChannel]:
        """A channel for a moment: what is taken on it and not acknowledged goes back when it is closed."""
        if self._connection is None:
            raise Unavailable("the message broker cannot be reached")
        channel = await self._connection.channel(publisher_confirms=False)
        try:
            yield channel
        finally:
            await channel.close()

    async def _prepare_putting(self, connection: AbstractConnection) -> Sequence[AbstractChannel]:
        counting, asking = await connection.channel(), await connection.channel(publisher_confirms=False)
        await self._queues.declare(counting)
        await self._roll_call.prepare(asking)
        self._connection, self._counting = connection, counting
        return counting, asking

    async def _prepare_taking(self, connection: AbstractConnection) -> Sequence[AbstractChannel]:
        work, again = await connection.channel(), await connection.channel()
        await self._queues.declare(work)
        for channel, queue, prefetch in ((work, self._queues.work, self._prefetch), (again, self._queues.again, 1)):
            await channel.basic_qos(prefetch_count=prefetch)
            await channel.basic_consume(queue, partial(self._delivered, alone=channel is again))
            channel.on_consumer_cancel_callbacks.add(self._cancelled)
        self._work = work
        return work, again

    async def _delivered(self, delivered: DeliveredMessage, *, alone: bool) -> None:
        count = (delivered.header.properties.headers or {}).get("x-delivery-count", 0)
        before = count if isinstance(count, int) else 0
        try:
            message = read(delivered.body)
            job = message.job()
        except msgspec.MsgspecError:
            _log.exception("a job cannot be read; it waits for workers of another version")
            delivery = Delivery(delivered.channel, _tag(delivered), delivered.body, None, now_ms(), 0, before, alone)
        else:
            rest = message.rest
            delivery = Delivery(delivered.channel, _tag(delivered), b"", job, message.at, rest, before, alone)
        self._in_flight.arrive(delivery)
        if self._wake is not None:
            self._wake()

    async def _cancelled(self, _frame: object) -> None:
        """Somebody deleted the queue."""
        if self._taking is not None:
            self._taking.renew()

    def _lost(self) -> None:
        self._in_flight.clear()

    def _own(self) -> WorkerFigures:
        in_flight = self._in_flight
        return WorkerFigures(
            workers=1, in_hand=len(in_flight), oldest=in_flight.oldest, taken=in_flight.taken, rate=self._rate.value
        )


async def _first(channel: AbstractChannel, queue: str, limit: int) -> list[tuple[DeliveredMessage, Message]]:
    found: list[tuple[DeliveredMessage, Message]] = []
    while len(found) < limit:
        delivered = await channel.basic_get(queue)
        if not isinstance(delivered.delivery, spec.Basic.GetOk):
            break
        with suppress(msgspec.MsgspecError):
            found.append((delivered, read(delivered.body)))
    return found


def _tag(delivered: DeliveredMessage) -> int:
    tag: int | None = getattr(delivered.delivery, "delivery_tag", None)
    if tag is None:
        raise TypeError("a message without a delivery tag")
    return tag

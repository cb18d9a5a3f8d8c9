"""The outbox on RabbitMQ: quorum queues filled by a relay and consumed by workers.

It keeps the promises of a store's outbox (`graph/contract.py`). A job is acknowledged after its work; a job put back is
published and confirmed before the old delivery is acknowledged, so a crash repeats a job and never loses it. At the
broker, a lease lasts as long as the connection; within the process, it lasts as long as requested. Queues: `work` has
the jobs, and `work.1`, `work.2` and so on, if the settings divide them; `again` the jobs whose workers died twice, run
one at a time; `wait.<ms>` delays; `buried` keeps parked jobs.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import msgspec
from aiormq import spec
from aiormq.abc import AbstractChannel, AbstractConnection, DeliveredMessage
from pamqp.common import FieldValue

from shoal.amqp import Link, LivenessQuery, depth_of
from shoal.core.errors import Unavailable
from shoal.core.events import Event, decode, encode
from shoal.core.ids import now_ms
from shoal.graph.contract import Job, WakeUp
from shoal.outbox.runner import Rate, WorkerFigures, summed

DELAYS_MS = (100, 400, 1_600, 6_400, 60_000, 600_000)
"""How long the wait queues keep a job. A longer delay is a sequence of these, to within the shortest."""


class Message(msgspec.Struct, array_like=True):
    """A job in a queue. `at` is when it was first published (Unix ms), `delays_left` its further delay after this queue (ms)."""

    store: int
    seq: int
    event: bytes
    step: int
    mark: int
    attempt: int
    at: int
    delays_left: int = 0
    error: str = ""

    def job(self) -> Job:
        return Job(self.seq, decode(self.event), self.step, self.mark, self.attempt, self.store)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)
read = _decoder.decode


def write(job: Job, at: int, *, delays_left: int = 0, error: str = "") -> bytes:
    event = encode(job.event)
    return _encoder.encode(Message(job.store, job.seq, event, job.step, job.mark, job.attempt, at, delays_left, error))


class Queues:
    """The names of a network's queues. `namespace` separates networks on one broker; `number` is the number of work queues."""

    def __init__(self, namespace: str, number: int = 1) -> None:
        self.work = f"{namespace}.work"
        self.works = [self.work, *(f"{self.work}.{n}" for n in range(1, number))]
        self.again = f"{namespace}.again"
        self.parked = f"{namespace}.buried"
        self.waiting = {delay: f"{namespace}.wait.{delay}" for delay in DELAYS_MS}
        self.census = f"{namespace}.census"

    def after(self, delay_ms: int) -> tuple[str, int]:
        """Return the queue for a job to be delayed, and the delay that is left after that queue."""
        if delay_ms <= 0:
            return self.work, 0
        step = max((delay for delay in DELAYS_MS if delay <= delay_ms), default=DELAYS_MS[0])
        return self.waiting[step], max(0, delay_ms - step)

    async def declare(self, channel: AbstractChannel) -> None:
        for name in (self.work, self.again, self.parked):
            await channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
        for name in self.works[1:]:
            # Spread the leaders of the queues over the nodes of the broker.
            arguments: dict[str, FieldValue] = {"x-queue-type": "quorum", "x-queue-leader-locator": "balanced"}
            await channel.queue_declare(name, durable=True, arguments=arguments)
        for delay, name in self.waiting.items():
            await channel.queue_declare(name, durable=True, arguments=self._waiting(delay))
        await channel.exchange_declare(self.census, exchange_type="fanout", durable=True)

    def _waiting(self, delay_ms: int) -> dict[str, FieldValue]:
        return {
            "x-queue-type": "quorum",
            "x-message-ttl": delay_ms,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": self.work,
            # Keep an expired message in this queue until the work queue has stored it. This strategy requires `reject-publish`.
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        }


Key = tuple[int, int, Event]


class Delivery(NamedTuple):
    """One delivered message, with its channel and delivery tag.

    `job` is None if this version cannot read it. `at` is when it was first published (Unix ms), `delays_left` the remaining
    delay in ms, and `before` the number of earlier deliveries. `alone` means that the job is suspected of killing its workers.
    """

    channel: AbstractChannel
    tag: int
    body: bytes
    job: Job | None
    at: int
    delays_left: int
    before: int
    alone: bool


class Receipt(NamedTuple):
    """An acknowledgment on a channel: of the delivery with this tag or, with `up_to`, of all deliveries up to it."""

    channel: AbstractChannel
    tag: int
    up_to: bool


@dataclass(slots=True, eq=False)
class _ClaimedJob:
    job: Job
    at: int
    deliveries: list[Delivery]
    deadline: float = 0.0


def key_of(job: Job) -> Key:
    """Return a job's identity. It includes the event, because a new shard map may renumber the stores."""
    return job.store, job.seq, job.event


class InFlight:
    """The unacknowledged deliveries in arrival order, and the claimed jobs by key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.arrived: deque[Delivery] = deque()
        # For each channel, the tags of its deliveries in ascending order, and when (Unix ms) their jobs were first published.
        self._open: dict[AbstractChannel, dict[int, int]] = {}
        self._claimed: dict[Key, _ClaimedJob] = {}
        # No lease expires before this time. From then on, `due` searches all claimed jobs. They are few.
        self._soonest = math.inf
        self.taken = 0

    def __len__(self) -> int:
        return sum(len(tags) for tags in self._open.values())

    @property
    def oldest(self) -> int:
        """Return since when (Unix ms) the oldest unacknowledged job has been waiting; 0 if there is none."""
        return min((at for tags in self._open.values() for at in tags.values()), default=0)

    def clear(self) -> None:
        self.arrived.clear()
        self._open.clear()
        self._claimed.clear()

    def arrive(self, delivery: Delivery) -> None:
        self.taken += 1
        self._open.setdefault(delivery.channel, {})[delivery.tag] = delivery.at
        self.arrived.append(delivery)

    def arrive_again(self, deliveries: Iterable[Delivery]) -> None:
        """Queue deliveries for `claim` again, unless their connection has ended."""
        self.arrived.extend(delivery for delivery in deliveries if delivery.channel in self._open)

    def hold(self, job: Job, delivery: Delivery, lease: float) -> bool:
        """Claim the job of a delivery. Return False if it is claimed already.

        All deliveries of a claimed job are acknowledged together.
        """
        entry = self._claimed.get(key := key_of(job))
        if entry is not None:
            entry.deliveries.append(delivery)
            return False
        self._claimed[key] = entry = _ClaimedJob(job, delivery.at, [delivery])
        self._lend(entry, lease)
        return True

    def due(self, limit: int, lease: float) -> list[Job]:
        """Return jobs whose lease has expired, with a new lease."""
        now = self._clock()
        if now < self._soonest:
            return []
        ended = [entry for entry in self._claimed.values() if entry.deadline <= now][:limit]
        for entry in ended:
            self._lend(entry, lease)
        self._soonest = min((entry.deadline for entry in self._claimed.values()), default=math.inf)
        return [entry.job for entry in ended]

    def _lend(self, entry: _ClaimedJob, seconds: float) -> None:
        entry.deadline = self._clock() + seconds
        self._soonest = min(self._soonest, entry.deadline)

    def since(self, job: Job) -> int | None:
        """Return when a claimed job was first published; None if it is not claimed any more."""
        entry = self._claimed.get(key_of(job))
        return None if entry is None else entry.at

    def take_out(self, job: Job) -> list[Delivery]:
        """Forget a job that is put back, and return its deliveries. If it is delivered again, it counts as a new job."""
        entry = self._claimed.pop(key_of(job), None)
        return entry.deliveries if entry is not None else []

    def restore(self, job: Job, deliveries: Iterable[Delivery], seconds: float) -> None:
        """Restore a claimed job that could not be put back; `due` returns it after `seconds`."""
        for delivery in deliveries:
            if delivery.channel in self._open:
                self.hold(job, delivery, seconds)

    def release(self, jobs: Iterable[Job]) -> list[Receipt]:
        """Forget completed jobs, and return as few acknowledgments as possible for their deliveries."""
        entries = [self._claimed.pop(key_of(job), None) for job in jobs]
        return self.settle([delivery for entry in entries if entry is not None for delivery in entry.deliveries])

    def settle(self, deliveries: Sequence[Delivery]) -> list[Receipt]:
        """Remove completed deliveries, and return as few acknowledgments as possible for them."""
        settled: dict[AbstractChannel, set[int]] = {}
        for delivery in deliveries:
            if delivery.channel in self._open:
                settled.setdefault(delivery.channel, set()).add(delivery.tag)
        return [receipt for channel, tags in settled.items() for receipt in self._receipts(channel, tags)]

    def _receipts(self, channel: AbstractChannel, tags: set[int]) -> Iterator[Receipt]:
        waiting = self._open[channel]
        first: list[int] = []
        for tag in waiting:
            if tag not in tags:
                break
            first.append(tag)
        for tag in tags:
            waiting.pop(tag, None)
        if first:
            yield Receipt(channel, first[-1], up_to=True)
        for tag in sorted(tags.difference(first)):
            yield Receipt(channel, tag, up_to=False)


_log = logging.getLogger(__name__)

_SUSPECT_AFTER = 2
"""Number of normal deliveries of a job. If its workers died in all of them, it is delivered alone from then on."""
_UNREADABLE_MS = 6_400
_AWAY_SECONDS = 1.0


class RabbitOutbox:
    """The outbox of a network on a RabbitMQ broker.

    With `taking`, this process runs jobs; otherwise it only publishes and lists them, and retries parked jobs. `prefetch` limits
    unacknowledged deliveries. `deaths` is how many workers a job may kill before it is parked.
    """

    def __init__(self, url: str, namespace: str, *, taking: bool, prefetch: int, deaths: int, queues: int) -> None:
        self._queues = Queues(namespace, queues)
        self._prefetch = -(-prefetch // queues)
        self._deaths = deaths
        self._in_flight = InFlight()
        self._rate = Rate()
        self._connection: AbstractConnection | None = None
        self._counting: AbstractChannel | None = None
        self._work: AbstractChannel | None = None
        self._wake: WakeUp | None = None
        self._liveness = LivenessQuery(self._queues.census, WorkerFigures, self._figures if taking else None)
        # Publish on one connection and acknowledge on another: a broker that is short of memory stops reading from
        # connections that publish.
        self._putting = Link(url, self._prepare_putting, lambda: None)
        self._taking = Link(url, self._prepare_taking, self._in_flight.clear) if taking else None

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        namespace: str = "shoal",
        taking: bool = True,
        prefetch: int = 512,
        deaths: int = 8,
        queues: int = 1,
    ) -> RabbitOutbox:
        """Connect, or keep trying in the background. While the broker is unreachable, no job can be claimed or published.

        Raises `InvalidInput` for an invalid URL, and `MisconfiguredEngine` if the broker rejects the login.
        """
        outbox = cls(url, namespace, taking=taking, prefetch=prefetch, deaths=deaths, queues=queues)
        try:
            await outbox._putting.open()
            if outbox._taking is not None:
                await outbox._taking.open()
        except Unavailable:
            await outbox.close()
            raise
        return outbox

    async def close(self) -> None:
        """Disconnect. The broker redelivers unacknowledged jobs to other workers."""
        if self._taking is not None and self._work is not None and self._taking.up:
            # Send any request and wait for its reply, because the broker first processes the acknowledgments that were sent before.
            with suppress(Unavailable):
                await self._taking.ask(self._work.basic_qos(prefetch_count=self._prefetch))
        for link in filter(None, (self._taking, self._putting)):
            await link.close()

    async def send(self, jobs: Sequence[Job]) -> None:
        """Publish new jobs; they are on the broker's disks when this returns. Raises `Unavailable`."""
        at, works = now_ms(), self._queues.works
        bodies: dict[str, list[bytes]] = {}
        for job in jobs:
            bodies.setdefault(works[job.seq % len(works)], []).append(write(job._replace(attempt=0), at))
        await asyncio.gather(*(self._putting.publish(queue, mine) for queue, mine in bodies.items()))

    async def claim(self, limit: int, lease: float) -> list[Job]:
        """Claim delivered jobs, oldest first, without waiting for more.

        A job that is suspected of killing its workers is returned alone.
        """
        jobs = self._in_flight.due(limit, lease)
        arrived, postponed = self._in_flight.arrived, list[Delivery]()
        while arrived and len(jobs) < limit:
            alone = arrived[0].alone
            if alone and jobs:
                break
            delivery = arrived.popleft()
            if delivery.job is None or self._is_rerouted(delivery):
                postponed.append(delivery)
            elif self._in_flight.hold(delivery.job, delivery, lease):
                jobs.append(delivery.job)
                if alone:
                    break
        if postponed:
            await self._reroute(postponed)
        return jobs

    def _is_rerouted(self, delivery: Delivery) -> bool:
        if delivery.alone:
            return delivery.before >= self._deaths - _SUSPECT_AFTER
        return delivery.delays_left > 0 or delivery.before >= _SUSPECT_AFTER

    async def _reroute(self, deliveries: Sequence[Delivery]) -> None:
        """Move deliveries to their next queues, then acknowledge them. If that fails, the next claim tries again."""
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
        """Return the queue to which to move a delivery that is not run now, and the body of the new message."""
        job = delivery.job
        if job is None:
            # A newer version of Shoal wrote the job: put it back for a worker of that version.
            return self._queues.waiting[_UNREADABLE_MS], delivery.body
        if delivery.alone:
            return self._queues.parked, write(job, delivery.at, error=f"its worker died or hung {self._deaths} times")
        if delivery.delays_left > 0:
            queue, delays_left = self._queues.after(delivery.delays_left)
            return queue, write(job, delivery.at, delays_left=delays_left)
        return self._queues.again, write(job, delivery.at)

    async def ack(self, jobs: Sequence[Job]) -> None:
        self._rate.add(len(jobs))
        await self._tell(self._in_flight.release(jobs))

    async def _tell(self, receipts: Sequence[Receipt]) -> None:
        """Send acknowledgments. If the connection has ended, the jobs are delivered again, which is harmless."""
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
            # The connection has been closed in the meantime: the broker redelivers the unchanged job.
            return
        queue, delays_left = self._queues.after(round(delay * 1000))
        # The broker may deliver the new message before it confirms the publication. The new delivery must not be
        # acknowledged together with the old ones.
        deliveries = self._in_flight.take_out(job)
        try:
            await self._putting.publish(queue, [write(job, at, delays_left=delays_left)])
        except Unavailable:
            self._in_flight.restore(job, deliveries, max(delay, _AWAY_SECONDS))
            return
        await self._tell(self._in_flight.settle(deliveries))

    async def park(self, job: Job, error: str) -> None:
        at = self._in_flight.since(job)
        await self._putting.publish(self._queues.parked, [write(job, at or now_ms(), error=error)])
        await self._tell(self._in_flight.release([job]))

    async def backlog(self) -> int:
        """Count the jobs that are queued, delayed or claimed. A worker that does not reply counts as having one job."""
        before = await self.figures()
        # Count the queues in the order in which jobs move, so that a moving job is counted twice rather than missed.
        names = [*self._queues.waiting.values(), *self._queues.works, self._queues.again]
        waiting = await self._putting.ask(self._count(self._counting, names))
        after = await self.figures()
        count = waiting + max(before.in_hand, after.in_hand) + after.silent
        return count or int(before.taken != after.taken)

    async def figures(self) -> WorkerFigures:
        return await self._putting.ask(self._worker_figures())

    async def lag(self) -> float:
        oldest = [(await self.figures()).oldest]
        # Skip the queue `again`: looking at a job counts as a delivery, and there it could cause the job to be parked.
        for queue in (*self._queues.works, *self._queues.waiting.values()):
            oldest += [message.at for _, message in await self._putting.ask(self._look(queue, 1))]
        since = min(filter(None, oldest), default=None)
        return 0.0 if since is None else max(0, now_ms() - since) / 1000

    async def parked(self) -> list[tuple[Job, str]]:
        found = await self._putting.ask(self._look(self._queues.parked))
        return [(message.job(), message.error) for _, message in found]

    async def unpark(self, jobs: Sequence[Job]) -> int:
        return await self._putting.ask(self._unpark({key_of(job) for job in jobs}))

    async def ready(self) -> int:
        """Return the number of queued jobs.

        All jobs that the broker delivered to this process before the call are received when it returns.
        """
        names = [*self._queues.works, self._queues.again]
        if self._taking is None:
            return await self._putting.ask(self._count(self._counting, names))
        return await self._taking.ask(self._count(self._work, names))

    def on_event(self, wake: WakeUp) -> None:
        self._wake = wake

    async def _worker_figures(self) -> WorkerFigures:
        if self._counting is None:
            raise Unavailable("the message broker is unreachable")
        workers = (await depth_of(self._counting, self._queues.work)).consumers
        replies = await self._liveness.send(workers)
        return summed(replies.answers, replies.silent)

    async def _count(self, channel: AbstractChannel | None, names: Sequence[str]) -> int:
        if channel is None:
            raise Unavailable("the message broker is unreachable")
        return sum([(await depth_of(channel, name)).messages for name in names])

    async def _look(self, queue: str, limit: int = sys.maxsize) -> list[tuple[DeliveredMessage, Message]]:
        """Return the first messages of a queue, which are requeued in place when the channel is closed."""
        async with self._temporary_channel() as channel:
            return await _first(channel, queue, limit)

    async def _unpark(self, requested: set[Key]) -> int:
        given: set[Key] = set()
        async with self._temporary_channel() as channel:
            for delivered, message in await _first(channel, self._queues.parked, sys.maxsize):
                job = message.job()
                if (key := key_of(job)) not in requested:
                    continue
                if key not in given:
                    await self._putting.publish(self._queues.work, [write(job._replace(attempt=0), now_ms())])
                    given.add(key)
                await channel.basic_ack(_tag(delivered))
        return len(given)

    @asynccontextmanager
    async def _temporary_channel(self) -> AsyncIterator[AbstractChannel]:
        """Open a temporary channel: unacknowledged messages are requeued when it is closed."""
        if self._connection is None:
            raise Unavailable("the message broker is unreachable")
        channel = await self._connection.channel(publisher_confirms=False)
        try:
            yield channel
        finally:
            await channel.close()

    async def _prepare_putting(self, connection: AbstractConnection) -> Sequence[AbstractChannel]:
        counting, request_channel = await connection.channel(), await connection.channel(publisher_confirms=False)
        await self._queues.declare(counting)
        await self._liveness.prepare(request_channel)
        self._connection, self._counting = connection, counting
        return counting, request_channel

    async def _prepare_taking(self, connection: AbstractConnection) -> Sequence[AbstractChannel]:
        work, again = await connection.channel(), await connection.channel()
        await self._queues.declare(work)
        for channel, queues, prefetch in ((work, self._queues.works, self._prefetch), (again, [self._queues.again], 1)):
            await channel.basic_qos(prefetch_count=prefetch)
            for queue in queues:
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
            _log.exception("unreadable job; it stays pending for workers of another version")
            delivery = Delivery(delivered.channel, _tag(delivered), delivered.body, None, now_ms(), 0, before, alone)
        else:
            delays_left = message.delays_left
            delivery = Delivery(delivered.channel, _tag(delivered), b"", job, message.at, delays_left, before, alone)
        self._in_flight.arrive(delivery)
        if self._wake is not None:
            self._wake()

    async def _cancelled(self, _frame: object) -> None:
        """Reconnect, because the queue was deleted."""
        if self._taking is not None:
            self._taking.renew()

    def _figures(self) -> WorkerFigures:
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
        raise TypeError("the message has no delivery tag")
    return tag

"""Jobs that the broker has delivered to this process and that are not acknowledged: some wait, some are in hand.

All of it ends with the connection: then the broker gives the same jobs to somebody else, or to us again.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from aiormq.abc import AbstractChannel

from shoal.core.events import AnyEvent
from shoal.graph.contract import Job

Key = tuple[int, int, AnyEvent]


class Delivery(NamedTuple):
    """One message as it was delivered, on which channel and under which tag.

    `job` is None when this version cannot read it. `at`: when it came to the broker (Unix ms). `rest`: ms that it has to wait
    yet. `before`: how often it was delivered already. `alone`: it is suspected of killing its workers.
    """

    channel: AbstractChannel
    tag: int
    body: bytes
    job: Job | None
    at: int
    rest: int
    before: int
    alone: bool


class Receipt(NamedTuple):
    """A receipt to acknowledge on a channel: this delivery, or every one up to it."""

    channel: AbstractChannel
    tag: int
    up_to: bool


class _Held:
    """A job in hand, with its delivery, and others of the same job that came meanwhile."""

    __slots__ = ("at", "deadline", "deliveries", "job")

    def __init__(self, job: Job, delivery: Delivery, deadline: float) -> None:
        self.job = job
        self.deliveries = [delivery]
        self.at = delivery.at
        self.deadline = deadline


def key_of(job: Job) -> Key:
    """Return a job's identity. The event is part of it: a new shard map may give a store's number to another store."""
    return job.store, job.seq, job.event


class InFlight:
    """Deliveries by the order in which they came, and the jobs that were given to the runner, by key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.arrived: deque[Delivery] = deque()
        # Per channel, in the order of their tags: since when each delivery's job waits.
        self._open: dict[AbstractChannel, dict[int, int]] = {}
        self._held: dict[Key, _Held] = {}
        # No lease ends before: they are looked through only then, for there are few at a time.
        self._soonest = math.inf
        self.taken = 0

    def __len__(self) -> int:
        """How many deliveries are not acknowledged."""
        return sum(len(tags) for tags in self._open.values())

    @property
    def oldest(self) -> int:
        """Since when (Unix ms) the oldest of them waits; 0 when there is none."""
        return min((at for tags in self._open.values() for at in tags.values()), default=0)

    def clear(self) -> None:
        """The connection has ended."""
        self.arrived.clear()
        self._open.clear()
        self._held.clear()

    def arrive(self, delivery: Delivery) -> None:
        """A delivery came."""
        self.taken += 1
        self._open.setdefault(delivery.channel, {})[delivery.tag] = delivery.at
        self.arrived.append(delivery)

    def arrive_again(self, deliveries: Iterable[Delivery]) -> None:
        """These are to be looked at once more, as far as the connection that brought them lasts."""
        self.arrived.extend(delivery for delivery in deliveries if delivery.channel in self._open)

    def hold(self, job: Job, delivery: Delivery, lease: float) -> bool:
        """Take the job of a delivery in hand. If it is in hand already, the two are acknowledged together: False."""
        held = self._held.get(key := key_of(job))
        if held is not None:
            held.deliveries.append(delivery)
            return False
        self._held[key] = held = _Held(job, delivery, 0.0)
        self._lend(held, lease)
        return True

    def due(self, limit: int, lease: float) -> list[Job]:
        """Jobs whose lease has ended, given again."""
        now = self._clock()
        if now < self._soonest:
            return []
        ended = [held for held in self._held.values() if held.deadline <= now][:limit]
        for held in ended:
            self._lend(held, lease)
        self._soonest = min((held.deadline for held in self._held.values()), default=math.inf)
        return [held.job for held in ended]

    def _lend(self, held: _Held, seconds: float) -> None:
        held.deadline = self._clock() + seconds
        self._soonest = min(self._soonest, held.deadline)

    def since(self, job: Job) -> int | None:
        """When a job in hand came to the broker; None when it is not in hand any more."""
        held = self._held.get(key_of(job))
        return None if held is None else held.at

    def lay_down(self, job: Job) -> list[Delivery]:
        """Forget a job that is being put back, and return its deliveries. If it comes again, it is a new job."""
        held = self._held.pop(key_of(job), None)
        return held.deliveries if held is not None else []

    def take_up(self, job: Job, deliveries: Iterable[Delivery], seconds: float) -> None:
        """It could not be put back: it is in hand as it is now, to be given again after so long."""
        for delivery in deliveries:
            if delivery.channel in self._open:
                self.hold(job, delivery, seconds)

    def release(self, jobs: Iterable[Job]) -> list[Receipt]:
        """These jobs are settled: what to acknowledge, in the fewest words."""
        held = [self._held.pop(key_of(job), None) for job in jobs]
        return self.settle([delivery for one in held if one is not None for delivery in one.deliveries])

    def settle(self, deliveries: Sequence[Delivery]) -> list[Receipt]:
        """These deliveries are settled: what to acknowledge, in the fewest words."""
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

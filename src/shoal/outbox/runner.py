"""Run jobs of an outbox: claim, run a step, checkpoint, retry, park; and report worker figures. Independent of the events.

The consequences of an event run in order. A consequence may stop after a page and resume later from its mark, the
position that it has reached, so a large fan-out does not block other jobs. A failed consequence is retried with growing
delays; after `attempts` failures its job is parked. Delivery is at least once: consequences are idempotent. Jobs run
one after the other by default, which is best for in-memory stores. `concurrency` runs that many concurrently, so that
their requests in one iteration of the event loop share a round trip.

`ExpectedWait` estimates how long a job enqueued now would wait, from the length of the queue and its pace. The age of
jobs that leave the queue is no substitute: it measures the wait of the past, so a control loop on it lags by the length
of the queue and oscillates.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from shoal.core.errors import NotYet, ShoalError, Unavailable
from shoal.graph.contract import Job, Outbox
from shoal.locks import set_within
from shoal.observability.requests import Recorder
from shoal.throttled_log import ThrottledLog

_COUNT_SECONDS = 0.1
"""Interval between two counts of the queue."""
_COUNTING_SHARE = 0.05
"""Maximum fraction of the time that counting may take: a queue of a million jobs is counted less often."""
_NEWEST_WEIGHT = 0.3
"""Weight of the newest batch in the moving average of the pace."""


class ExpectedWait:
    """Estimates how long a job that is enqueued now will wait. All times are in seconds, by one clock."""

    __slots__ = ("_began", "_each", "_next_count", "_size", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        # `_began`: start of the current batch; None if the queue has no jobs beyond this batch. `_size`: number of jobs in
        # the batch. `_each`: average seconds per job.
        self._began: float | None = None
        self._size = 0
        self._each = 0.0
        self._next_count = 0.0

    def begin(self, size: int, now: float, *, more: bool) -> bool:
        """Record that the previous batch is done and the next one begins; return whether the queue should be counted now.

        `more`: the queue may contain jobs beyond this batch.
        """
        if self._began is not None and self._size:
            each = (now - self._began) / self._size
            self._each += (each - self._each) * (_NEWEST_WEIGHT if self._each else 1.0)
        self._began, self._size = (now, size) if more else (None, 0)
        if not more:
            self.seconds = 0.0
        return more and now >= self._next_count

    def counted(self, length: int, began: float, now: float) -> None:
        self.seconds = max(0, length) * self._each
        self._next_count = now + max(_COUNT_SECONDS, (now - began) / _COUNTING_SHARE)


_SLICE_SECONDS = 0.002
"""Minimum time that jobs run before they yield to the event loop."""
_LONGEST_PAUSE_SECONDS = 0.02
"""Jobs pause while requests run. They are compensated for at most this much of a pause."""
_SLOW_SECONDS = 0.25
"""For each such delay of the jobs, they get one more share of the event loop, up to `_MOST_SHARES`. Requests have one
share."""
_MOST_SHARES = 12.0


class LoopShare:
    """Decides how long jobs may run before requests get the event loop. All times are in seconds, by one clock.

    Under load, jobs and requests each have half of the time. Jobs that are behind get more: otherwise posts could be accepted
    faster than they are delivered.
    """

    __slots__ = ("_seconds", "_since")

    def __init__(self, now: float) -> None:
        self._since, self._seconds = now, _SLICE_SECONDS

    def is_over(self, now: float) -> bool:
        return now - self._since > self._seconds

    def resume(self, paused: float, now: float, behind: float) -> None:
        """Begin the next time slice of jobs, which have been paused for requests since `paused` and are `behind` seconds late."""
        shares = min(1.0 + behind / _SLOW_SECONDS, _MOST_SHARES)
        self._since = now
        self._seconds = max(shares * min(now - paused, _LONGEST_PAUSE_SECONDS), _SLICE_SECONDS)


E = TypeVar("E")

Outcome = int | None | asyncio.Future[None]
Consequence = Callable[[E, Any, int], Awaitable[Outcome]]
"""A function of the effects (the stores and services that it may use), the event, and the mark (0 at first).

It returns None when it is done, or the mark from which it resumes, or a future. With a future, the next consequences
and other jobs continue, and the job is done when all its futures are. If a future fails, the job is run again from the
first consequence that returned a future."""

_log = logging.getLogger(__name__)

_UNAVAILABLE_SECONDS = 1.0
"""Delay in seconds of a job when a store that it needs is down."""
_POLL_SECONDS = 0.5
"""Interval of polling for jobs that were put back or whose lease expired, if nothing else wakes the runner."""
_STOP_SECONDS = 20.0
"""Seconds for running jobs to finish when the process stops: less than supervisors wait before they kill it."""
_GIVE_UP_SECONDS = 1.0
_GENERATIONS = 8
"""Maximum length of a chain of events that emit events."""
_GRAIN_SECONDS = 0.01
"""Precision of ages: outboxes report them in milliseconds."""


class Runner(Generic[E]):
    """Runs the consumers of an outbox's events in this process.

    A consequence that takes longer than `step_seconds` counts as failed. `finished` counts the jobs that are done, and `done`
    is called with each; `failed` counts failed attempts, except while a store is down, and `parked` the parked jobs. The
    `recorder` records each run of a job, with its outcome.
    """

    def __init__(
        self,
        outbox: Outbox,
        table: Mapping[type, Sequence[Consequence[E]]],
        effects: E,
        *,
        batch: int = 256,
        lease: float = 60.0,
        attempts: int = 8,
        first_delay: float = 0.1,
        concurrency: int = 1,
        step_seconds: float | None = None,
        poll_seconds: float = _POLL_SECONDS,
        done: Callable[[Job], None] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._outbox = outbox
        self._table = table
        self._effects = effects
        self._batch = batch
        self._lease = lease
        self._attempts = attempts
        self._first_delay = first_delay
        self._concurrency = concurrency
        self._step_seconds = step_seconds
        self._poll_seconds = poll_seconds
        self.done = done
        self._recorder = recorder or Recorder()
        self.finished = self.failed = self.parked = 0
        self._finished: list[Job] = []
        self._in_hand: set[asyncio.Task[None]] = set()
        # Number of jobs that are complete except for a future.
        self._waiting = 0
        self._work = asyncio.Event()
        self._at_work = False
        # Commit time of the job started last, on the `time.monotonic` clock.
        self._begun: float | None = None
        self._expected = ExpectedWait()
        self._share = LoopShare(time.monotonic())
        self._stopping = False
        self._outage = ThrottledLog(_log)
        self._task: asyncio.Task[None] | None = None
        outbox.on_event(self._work.set)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="shoal-outbox")

    async def stop(self, patience: float = _STOP_SECONDS) -> None:
        """Finish running jobs, then stop. Unclaimed jobs stay in the outbox.

        Jobs that are not done after `patience` seconds are canceled. They are delivered again when their lease expires, or by
        the next process that opens the store.
        """
        self._stopping = True
        self._work.set()
        if self._task is None or await self._ended((self._task,), patience):
            return
        left = [self._task, *self._in_hand]
        _log.warning("jobs that did not finish within %g s were canceled; they will be redelivered", patience)
        for task in left:
            task.cancel()
        # Wait only for a limited time, because a task may ignore the cancellation.
        await self._ended(left, _GIVE_UP_SECONDS)
        with suppress(ShoalError, TimeoutError):
            async with asyncio.timeout(_GIVE_UP_SECONDS):
                await self._acknowledge()

    async def _ended(self, tasks: Iterable[asyncio.Task[None]], patience: float) -> bool:
        return not (await asyncio.wait(tasks, timeout=patience))[1]

    async def drain(self, patience: float = 60.0, *, busy: bool = False) -> None:
        """Wait until no event is left. Raises `TimeoutError` after `patience` seconds.

        While members keep writing, new events keep arriving. With `busy`, the call returns when the events that exist
        now, and the events that these emit, are done. It waits in at most `_GENERATIONS` rounds; a round ends when all
        remaining events are newer than its start. This requires the outbox of a store, because it polls the age of
        events: a broker would count each poll as a delivery of the job.
        """
        async with asyncio.timeout(patience):
            for _ in range(_GENERATIONS):
                if await self._generation(busy=busy):
                    return

    async def _generation(self, *, busy: bool) -> bool:
        """Wait until no event is left, and return True. With `busy`, return False once all events are newer than this call."""
        began = time.monotonic()
        while self._at_work or await self._outbox.backlog():
            waited = time.monotonic() - began
            # Ignore an age of 0: it may mean that all remaining jobs were put back, because their age does not count.
            if busy and waited > _GRAIN_SECONDS and 0 < await self._outbox.lag() < waited - _GRAIN_SECONDS:
                return False
            if self._task is None:
                await self.run_once()
            await asyncio.sleep(0.001)
        return True

    async def waits(self) -> bool:
        """Return whether all remaining jobs wait for futures of consumers: then no further job will be added to their batches."""
        return self._waiting > 0 and not self._in_hand and await self._outbox.backlog() == self._waiting

    async def run_once(self) -> int:
        if self._concurrency > 1:
            claimed = await self._begin(self._concurrency)
            await self._finish()
            return claimed
        jobs = await self._outbox.claim(self._batch, self._lease)
        more = len(jobs) == self._batch
        if self._expected.begin(len(jobs), time.monotonic(), more=more):
            await self._count()
        try:
            await self._steps(jobs)
            if not more:
                self._begun = None
        finally:
            # Acknowledge even after an error, so that completed jobs are not run again.
            await self._acknowledge()
        return len(jobs)

    async def _count(self) -> None:
        began = time.monotonic()
        waiting = await self._outbox.backlog() - self._waiting
        self._expected.counted(waiting, began, time.monotonic())

    def behind(self) -> float:
        """Return how many seconds this runner is behind; 0 if no event is known to wait.

        The result is the larger of two times: the expected wait of a new event, and the longest possible wait of an event that has
        not started. Events start in the order of their commits. The age of jobs that were put back does not count, because they
        wait for other reasons, such as a retry.
        """
        age = 0.0 if self._begun is None else time.monotonic() - self._begun
        return max(age, self._expected.seconds)

    async def _begin(self, limit: int) -> int:
        jobs = await self._outbox.claim(limit, self._lease)
        if len(jobs) < limit:
            self._begun = None
        for job in jobs:
            self._begin_task(job, partial(self._run_to_end, job))
        return len(jobs)

    def _begin_task(self, job: Job, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(self._guarded(job, work))
        self._in_hand.add(task)
        task.add_done_callback(self._in_hand.discard)

    async def _run_to_end(self, job: Job) -> None:
        if await self._step(job):
            self._finished.append(job)

    async def _guarded(self, job: Job, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception:  # noqa: BLE001  # the outbox is unavailable: the job is redelivered when its lease expires
            self._outage.exception(
                "job %s %d stays in the outbox until it is redelivered",
                type(job.event).__name__,
                job.seq,
                name=type(job.event),
            )

    async def _settle(self) -> None:
        """Wait until a running job ends or, if there is capacity, new jobs arrive; then acknowledge all finished jobs."""
        # There may be no running job: the last one may have ended while earlier ones were acknowledged.
        if self._in_hand:
            await self._wait()
            # Jobs that end in one iteration of the event loop are acknowledged together.
            await asyncio.sleep(0)
        elif self._waiting and not self._finished:
            self._work.clear()
            await set_within(self._work, self._poll_seconds)
        await self._acknowledge()

    async def _wait(self) -> None:
        waits: list[asyncio.Future[Any]] = [*self._in_hand]
        has_capacity = len(self._in_hand) < self._concurrency and not self._stopping
        woken = asyncio.ensure_future(self._work.wait()) if has_capacity and self._task is not None else None
        if woken is not None:
            waits.append(woken)
        await asyncio.wait(waits, timeout=self._poll_seconds, return_when=asyncio.FIRST_COMPLETED)
        if woken is not None:
            woken.cancel()

    async def _finish(self) -> None:
        while self._in_hand or self._finished or self._waiting:
            await self._settle()

    async def _acknowledge(self) -> None:
        if self._finished:
            finished, self._finished = self._finished, []
            self.finished += len(finished)
            await self._outbox.ack(finished)

    async def _steps(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if await self._step(job):
                self._finished.append(job)
            if self._share.is_over(paused := time.monotonic()):
                await asyncio.sleep(0)
                self._share.resume(paused, time.monotonic(), self.behind())

    async def _run(self) -> None:
        while not self._stopping:
            self._work.clear()
            self._at_work = True
            try:
                ran = await (self.run_once() if self._concurrency == 1 else self._some())
            except Exception:  # noqa: BLE001  # the store may come back; the runner must be there then
                self._outage.exception("reading the outbox failed")
                ran = 0
            self._at_work = bool(self._in_hand or self._finished or self._waiting)
            if not ran and not self._stopping:
                await set_within(self._work, self._poll_seconds)
        await self._finish()

    async def _some(self) -> int:
        """Start as many jobs as the limits allow, and wait until one of them ends. Return 0 if there was nothing to do, else 1.

        A slow job occupies one slot, and other jobs use the other slots.
        """
        free = self._concurrency - len(self._in_hand)
        claimed = await self._begin(free) if free else 0
        if claimed < free and not (self._in_hand or self._finished):
            return 0
        await self._settle()
        return 1

    async def _step(self, job: Job) -> bool:
        """Run a job and record the outcome. Return whether the job is done: it may also fail, wait for a future, or be put back."""
        run = self._recorder.job(f"{job.store}:{job.seq}", type(job.event).__name__, job.attempt + 1, job.event.trace)
        with run as record:
            outcome = await self._run_job(job)
            if record is not None:
                record.outcome = outcome
        return outcome == "done"

    async def _run_job(self, job: Job) -> str:
        if job.attempt >= self._attempts:
            return await self._park(job, f"its worker died or hung {job.attempt} times")
        consequences = self._table.get(type(job.event), ())
        if job.at:
            self._begun = time.monotonic() - max(0.0, time.time() - job.at / 1000)
        promised: list[asyncio.Future[None]] = []
        # The job as it is run again after an error: from the first consequence that returned a future.
        again = job
        try:
            while job.step < len(consequences):
                work = consequences[job.step](self._effects, job.event, job.mark)
                mark = await (work if self._step_seconds is None else _within(self._step_seconds, work))
                if isinstance(mark, asyncio.Future):
                    promised.append(mark)
                elif mark is not None:
                    # Wait for the futures of earlier consequences: the job resumes at this consequence, so the earlier ones
                    # would not be run again if their futures failed later.
                    for promise in promised:
                        await asyncio.shield(promise)
                    await self._outbox.put_back(job._replace(mark=mark, attempt=0, at=0))
                    return "page"
                job = job._replace(step=job.step + 1, mark=0, attempt=0)
                again = again if promised else job
        except Exception as error:  # noqa: BLE001  # a broken consequence must not stop the others
            for promise in promised:
                promise.add_done_callback(_retrieve_error)
            return await self._failed(again, error)
        if promised:
            self._wait_for(promised, again)
            return "waits"
        if self.done is not None:
            self.done(job)
        return "done"

    def _wait_for(self, promised: list[asyncio.Future[None]], job: Job) -> None:
        self._waiting += 1
        # `gather` would cancel these futures, which many jobs share, if it were canceled itself. No code cancels it.
        whole: asyncio.Future[Any] = promised[0] if len(promised) == 1 else asyncio.gather(*promised)
        whole.add_done_callback(partial(self._waited, job))

    def _waited(self, job: Job, future: asyncio.Future[Any]) -> None:
        """Finish a job whose future is done, or put it back if the future failed."""
        error = ConnectionError("the write was canceled") if future.cancelled() else future.exception()
        if error is None:
            self._waiting -= 1
            self._finished.append(job)
            if self.done is not None:
                self.done(job)
        else:
            self._begin_task(job, partial(self._return_failed, job, error))
        self._work.set()

    async def _return_failed(self, job: Job, error: BaseException) -> None:
        self._waiting -= 1
        await self._failed(job, error)

    async def _failed(self, job: Job, error: BaseException) -> str:
        job = job._replace(at=0)
        if isinstance(error, NotYet):
            await self._outbox.put_back(job._replace(attempt=0), error.backoff_seconds)
            return "later"
        if isinstance(error, Unavailable):
            # A store is down, which is not the job's fault: the job is retried without counting attempts.
            self._outage.warning(
                "job %s %d is delayed: %s", type(job.event).__name__, job.seq, error, name=type(job.event)
            )
            await self._outbox.put_back(job, _UNAVAILABLE_SECONDS)
            return "later"
        self.failed += 1
        job = job._replace(attempt=job.attempt + 1)
        if job.attempt >= self._attempts:
            _log.error("job %s %d failed %d times", type(job.event).__name__, job.seq, job.attempt, exc_info=error)
            return await self._park(job, repr(error))
        _log.warning("job %s %d failed in attempt %d", type(job.event).__name__, job.seq, job.attempt, exc_info=error)
        await self._outbox.put_back(job, self._first_delay * 2.0 ** (job.attempt - 1))
        return "failed"

    async def _park(self, job: Job, error: str) -> str:
        try:
            await self._outbox.park(job, error)
            self.parked += 1
            _log.error("job %s %d parked after its last attempt: %s", type(job.event).__name__, job.seq, error)
        except ShoalError:
            _log.warning("parking job %s %d failed", type(job.event).__name__, job.seq)
            await self._outbox.put_back(job, _UNAVAILABLE_SECONDS)
            return "later"
        return "parked"


def _retrieve_error(promise: asyncio.Future[None]) -> None:
    """Retrieve a future's error, so that asyncio does not log it. The job is run again in any case."""
    if not promise.cancelled():
        promise.exception()


async def _within(seconds: float, work: Awaitable[Outcome]) -> Outcome:
    async with asyncio.timeout(seconds):
        return await work


_RATE_SECONDS = 10.0


class WorkerFigures(msgspec.Struct, array_like=True):
    """Statistics of a worker, or the sum over several workers. `silent` is the number of workers that did not answer."""

    workers: int = 0
    silent: int = 0
    in_hand: int = 0
    oldest: int = 0
    """Since when (Unix ms) the oldest claimed job has waited; 0 if there is none."""
    taken: int = 0
    rate: float = 0.0


def summed(reports: Collection[WorkerFigures], silent: int) -> WorkerFigures:
    return WorkerFigures(
        workers=sum(report.workers for report in reports),
        silent=silent,
        in_hand=sum(report.in_hand for report in reports),
        oldest=min((report.oldest for report in reports if report.oldest), default=0),
        taken=sum(report.taken for report in reports),
        rate=sum(report.rate for report in reports),
    )


class Rate:
    """An events-per-second counter over the last ten seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: deque[tuple[float, int]] = deque()

    def add(self, count: int) -> None:
        now = self._clock()
        self._counts.append((now, count))
        while self._counts[0][0] < now - _RATE_SECONDS:
            self._counts.popleft()

    @property
    def value(self) -> float:
        since = self._clock() - _RATE_SECONDS
        return sum(count for moment, count in self._counts if moment >= since) / _RATE_SECONDS

"""Works off an outbox: claim, run a step, checkpoint, retry, bury. It knows no event by name.

A job's event has consequences, run in order; one may stop after a page and be resumed from its mark, so a big fan-out never
holds up the rest. A consequence that fails is tried again with growing delays; after `attempts` failures its job is buried.
Delivery is at least once: consequences are idempotent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from shoal.core.errors import ShoalError, Unavailable
from shoal.graph.contract import Job, Outbox

E = TypeVar("E")

Consequence = Callable[[E, Any, int], Awaitable[int | None]]
"""Called with the bundle of effects, the event, and the mark (0 at first); gives the next mark, or None when done."""

_log = logging.getLogger(__name__)

_BREATH_SECONDS = 0.002
"""How long jobs run before the event loop has a turn for requests, when there are few of those."""
_LONGEST_BREATH_SECONDS = 0.02
_UNAVAILABLE_SECONDS = 1.0
"""How long a job rests when a store that it needs is down."""
_POLL_SECONDS = 0.5
"""How often jobs that were put back or whose lease ended are looked for, when nothing else wakes the runner."""


class Runner(Generic[E]):
    """Runs the consequences of one outbox in this process."""

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
        done: Callable[[Job], None] | None = None,
    ) -> None:
        self._outbox = outbox
        self._table = table
        self._effects = effects
        self._batch = batch
        self._lease = lease
        self._attempts = attempts
        self._first_delay = first_delay
        self._done = done
        self._work = asyncio.Event()
        self._at_work = False
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        outbox.on_event(self._work.set)

    def start(self) -> None:
        """Work in the background from now on."""
        self._task = asyncio.create_task(self._run(), name="shoal-outbox")

    async def stop(self) -> None:
        """Finish the jobs in hand, then rest. What is not claimed stays in the outbox."""
        self._stopping = True
        self._work.set()
        if self._task is not None:
            await self._task

    async def drain(self, patience: float = 60.0) -> None:
        """Return when no event is left undone. Raises `TimeoutError` after `patience` seconds."""
        async with asyncio.timeout(patience):
            while self._at_work or await self._outbox.backlog():
                if self._task is None:
                    await self.turn()
                await asyncio.sleep(0.001)

    async def turn(self) -> int:
        """Claim once and run what was claimed; how many jobs that was."""
        jobs = await self._outbox.claim(self._batch, self._lease)
        finished: list[Job] = []
        try:
            await self._steps(jobs, finished)
        finally:
            # Also when one of them stops the turn: what is done is not done again.
            if finished:
                await self._outbox.ack(finished)
        return len(jobs)

    async def _steps(self, jobs: Sequence[Job], finished: list[Job]) -> None:
        began, share = time.monotonic(), _BREATH_SECONDS
        for job in jobs:
            if await self._step(job):
                finished.append(job)
            if (paused := time.monotonic()) - began > share:
                await asyncio.sleep(0)
                began = time.monotonic()
                # As long as the others took: under load requests and fan-out have half of the loop each.
                share = min(max(began - paused, _BREATH_SECONDS), _LONGEST_BREATH_SECONDS)

    async def _run(self) -> None:
        while not self._stopping:
            self._work.clear()
            self._at_work = True
            try:
                ran = await self.turn()
            except Exception:  # noqa: BLE001  # the store may come back; the runner must be there then
                _log.exception("the outbox could not be read")
                ran = 0
            self._at_work = False
            if not ran and not self._stopping:
                await self._rest()

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(_POLL_SECONDS):
                await self._work.wait()
        except TimeoutError:
            pass

    async def _step(self, job: Job) -> bool:
        """Run one job as far as its first page goes; whether all its consequences are done."""
        consequences = self._table.get(type(job.event), ())
        try:
            while job.step < len(consequences):
                mark = await consequences[job.step](self._effects, job.event, job.mark)
                if mark is not None:
                    await self._outbox.put_back(job._replace(mark=mark, attempt=0))
                    return False
                job = job._replace(step=job.step + 1, mark=0, attempt=0)
        except Unavailable as error:
            # A store is down. That is not the job's fault: it waits for as long as it takes.
            _log.warning("%s %d waits: %s", type(job.event).__name__, job.seq, error)
            await self._outbox.put_back(job, _UNAVAILABLE_SECONDS)
            return False
        except Exception as error:  # noqa: BLE001  # a broken consequence must not stop the others
            await self._failed(job, error)
            return False
        if self._done is not None:
            self._done(job)
        return True

    async def _failed(self, job: Job, error: Exception) -> None:
        job = job._replace(attempt=job.attempt + 1)
        name = type(job.event).__name__
        if job.attempt >= self._attempts:
            _log.error("%s %d is buried after %d attempts", name, job.seq, job.attempt, exc_info=error)
            try:
                await self._outbox.bury(job, repr(error))
            except ShoalError:
                _log.warning("%s %d cannot be buried now", name, job.seq)
                await self._outbox.put_back(job, _UNAVAILABLE_SECONDS)
            return
        _log.warning("%s %d failed, attempt %d", name, job.seq, job.attempt, exc_info=error)
        await self._outbox.put_back(job, self._first_delay * 2.0 ** (job.attempt - 1))

"""Parts shared by the embedded stores, which one process owns: in-memory job leases, and the pre-commit hook.

Leases end with the process: after a crash every event is delivered again. The hook reports that a call is about to change the
store, so if this process is killed, a caller in another process knows whether the call can be repeated.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar

from shoal.graph.contract import Job


class Leases:
    """Jobs that are leased, and jobs that wait for another delivery."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._out: dict[int, tuple[float, Job]] = {}
        self._waiting: list[tuple[float, int, Job]] = []
        self._deadlines: list[tuple[float, int]] = []
        self._ties = itertools.count()

    def give(self, jobs: Sequence[Job], lease: float) -> None:
        deadline = self._clock() + lease
        for job in jobs:
            self._out[job.seq] = (deadline, job)
            heapq.heappush(self._deadlines, (deadline, job.seq))

    def due(self, limit: int) -> list[Job]:
        """Return and release jobs whose put-back delay or lease has expired."""
        now = self._clock()
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, seq = heapq.heappop(self._deadlines)
            out = self._out.get(seq)
            if out is not None and out[0] == deadline:
                del self._out[seq]
                heapq.heappush(self._waiting, (now, next(self._ties), out[1]))
        ready: list[Job] = []
        while self._waiting and len(ready) < limit and self._waiting[0][0] <= now:
            ready.append(heapq.heappop(self._waiting)[2])
        return ready

    def done(self, seqs: Sequence[int]) -> None:
        """Remove finished jobs, whether their lease has expired or not."""
        ended = {seq for seq in seqs if self._out.pop(seq, None) is None}
        if ended and self._waiting:
            self._waiting = [entry for entry in self._waiting if entry[2].seq not in ended]
            heapq.heapify(self._waiting)

    def put_back(self, job: Job, delay: float) -> None:
        """Deliver the job again after `delay` seconds, once, even if its lease has expired."""
        self.done([job.seq])
        heapq.heappush(self._waiting, (self._clock() + delay, next(self._ties), job))


Announce = Callable[[], Awaitable[None]]

announcing: ContextVar[Announce | None] = ContextVar("announcing", default=None)
"""Awaited before each change that this context makes. If it raises, the change is not made."""


async def announce() -> None:
    """Announce a change to the caller, if it registered a hook. Raises `Unavailable` if that fails."""
    tell = announcing.get()
    if tell is not None:
        await tell()

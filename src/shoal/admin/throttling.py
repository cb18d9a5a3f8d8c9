"""Limits for bulk work: a bounded number of concurrent tasks, and a bound on bytes per second.

Tasks that wait concurrently are committed together. The byte rate leaves disk and network bandwidth to other programs.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from shoal.core.errors import Unavailable

JobT = TypeVar("JobT")

PATIENCE_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0


async def run_bounded(
    jobs: Iterable[JobT],
    act: Callable[[JobT], Awaitable[None]],
    at_once: int,
    done: Callable[[int], None] = lambda _finished: None,
    *,
    patience: float = PATIENCE_SECONDS,
) -> None:
    """Call `act` on every job, for `at_once` jobs concurrently. The first error cancels the other jobs and is raised.

    `done` is called with the number of finished jobs. A job that raises `Unavailable` is retried for `patience`
    seconds, so `act` must be repeatable.
    """
    waiting = iter(jobs)
    finished = 0

    async def work() -> None:
        nonlocal finished
        for job in waiting:
            await _patiently(act, job, patience)
            finished += 1
            done(finished)

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(at_once):
                tasks.create_task(work())
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


async def _patiently(act: Callable[[JobT], Awaitable[None]], job: JobT, patience: float) -> None:
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + patience, _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await act(job)
        except Unavailable:
            if loop.time() + pause > deadline:
                raise
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311  # jitter
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


class Throttle:
    def __init__(self, bytes_per_second: float | None) -> None:
        self._rate = bytes_per_second
        self._free_at = 0.0

    async def spend(self, size: int) -> None:
        if self._rate is None:
            return
        now = asyncio.get_running_loop().time()
        begins = max(now, self._free_at)
        self._free_at = begins + size / self._rate
        await asyncio.sleep(begins - now)

"""Many small jobs, a bounded number of them under way at once: what is waiting together is committed together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

J = TypeVar("J")


async def in_crowd(
    jobs: Iterable[J], act: Callable[[J], Awaitable[None]], at_once: int, done: Callable[[int], None]
) -> None:
    """Act on every job, and tell how many are done. The first error stops all of them, and is raised."""
    waiting = iter(jobs)
    finished = 0

    async def work() -> None:
        nonlocal finished
        for job in waiting:
            await act(job)
            finished += 1
            done(finished)

    try:
        async with asyncio.TaskGroup() as crowd:
            for _ in range(at_once):
                crowd.create_task(work())
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None

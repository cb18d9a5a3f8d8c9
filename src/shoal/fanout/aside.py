"""Work of consequences that mostly waits, done beside the jobs that follow: many such works then travel in one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

_AT_ONCE = 256
_SECONDS = 60.0


class Aside:
    """At most `at_once` works side by side, each of which has failed after so many seconds."""

    def __init__(self, at_once: int = _AT_ONCE, seconds: float = _SECONDS) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._seconds = seconds
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self, work: Coroutine[object, object, None]) -> asyncio.Future[None]:
        """Begin the work, as soon as there is a place for it; what is returned is done when it is."""
        try:
            await self._free.acquire()
        except BaseException:
            work.close()
            raise
        task = asyncio.create_task(self._run(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, work: Coroutine[object, object, None]) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await work
        finally:
            self._free.release()

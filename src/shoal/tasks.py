"""Lifetimes of asyncio tasks: cancel them and wait, or run one for the duration of a block."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ClassVar


async def cancel(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel tasks and wait until they have ended. Their results and errors are discarded. A task may be None."""
    started = [task for task in tasks if task is not None]
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run a coroutine as a task with this name until the block ends, then cancel the task.

    If the task has failed, its error is raised.
    """
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        failed = task.done()
        await cancel(task)
        if failed and not task.cancelled():
            task.result()


class BackgroundWorker(ABC):
    """A task that runs between `start` and `stop`."""

    task_name: ClassVar[str]
    _task: asyncio.Task[None] | None = None

    @abstractmethod
    async def _run(self) -> None: ...

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self.task_name)

    async def stop(self) -> None:
        await cancel(self._task)

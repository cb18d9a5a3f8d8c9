"""Work that goes on when whoever waits for it goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class UnderWay:
    """Changes of a store, which goes on with them when a caller is cancelled: what was remembered must be forgotten afterwards."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of the work, which is done to its end even if this is cancelled."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(_answering(work, answer))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return await answer

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Whoever waited has it, or has gone.
            task.exception()

    async def close(self) -> None:
        """Wait for everything that is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _answering(work: Coroutine[Any, Any, T], answer: asyncio.Future[T]) -> None:
    """Do the work, and answer with its result or error, unless nobody waits any more.

    Where the end of a task is awaited, or shielded, the answer comes one or two turns of the loop later.
    """
    try:
        result = await work
    except asyncio.CancelledError:
        answer.cancel()
        raise
    except Exception as error:  # noqa: BLE001  # whoever waits gets it
        if not answer.done():
            answer.set_exception(error)
    else:
        if not answer.done():
            answer.set_result(result)

"""Long work on media, a few pieces at once, beside the jobs of the outbox that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final

from shoal.core.errors import NotYet, Unavailable
from shoal.media.library import MediaLibrary

_AT_ONCE: Final = 1


class Workshop:
    """The library, and who works in it. A piece of work is known by a number: while it goes on, it is not begun again."""

    def __init__(self, library: MediaLibrary, at_once: int = _AT_ONCE) -> None:
        self.library = library
        self._at_once = at_once
        self._works: dict[int, asyncio.Task[None]] = {}
        self._closed = False

    def begin(self, number: int, work: Callable[[], Coroutine[None, None, None]]) -> asyncio.Future[None]:
        """Done when the work is. `NotYet` when as much goes on as may; `Unavailable` when the workshop closes."""
        if self._closed:
            raise Unavailable("the server is stopping")
        task = self._works.get(number)
        if task is None:
            if len(self._works) >= self._at_once:
                raise NotYet("other media come first")
            task = self._works[number] = asyncio.create_task(self._guarded(number, work), name=f"shoal-media-{number}")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task.add_done_callback(lambda ended: _pass_on(ended, done))
        return done

    async def close(self) -> None:
        """Stop all work. Its jobs stay in the outbox, and are begun anew by whoever takes them."""
        self._closed = True
        works = [*self._works.values()]
        for task in works:
            task.cancel()
        if works:
            await asyncio.wait(works)

    async def _guarded(self, number: int, work: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            await work()
        finally:
            del self._works[number]


def _pass_on(ended: asyncio.Task[None], done: asyncio.Future[None]) -> None:
    if done.done():
        return
    error = Unavailable("the server is stopping") if ended.cancelled() else ended.exception()
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)

"""Long work on media, a few pieces at once, beside the jobs of the outbox that wait for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Final, NamedTuple

from shoal.core.errors import NotYet, Unavailable
from shoal.media.library import MediaLibrary

_AT_ONCE: Final = 1
_MOST_WAITING: Final = 1_000
"""Pieces of work, and members, that are remembered."""
_FORGOTTEN_SECONDS: Final = 5.0
"""Work that had to wait comes again within a second, as a rule. If it has not come for this long, it is forgotten."""


class _Wait(NamedTuple):
    member: int
    at: float
    """When it last came, by the monotonic clock."""


class Workshop:
    """The library, and the work that goes on in it. Work is known by a number: while it goes on, it is not begun again.

    Work that had to wait gets a place in turn by its member: the member who was served longest ago is next.
    """

    def __init__(self, library: MediaLibrary, at_once: int = _AT_ONCE) -> None:
        self.library = library
        self._at_once = at_once
        self._works: dict[int, asyncio.Task[None]] = {}
        self._waiting: dict[int, _Wait] = {}
        # The member who was served longest ago comes first.
        self._served: dict[int, None] = {}
        self._closed = False

    @property
    def at_work(self) -> int:
        """Pieces of work that go on."""
        return len(self._works)

    @property
    def waiting(self) -> int:
        """Pieces of work that came and had to wait, those included that have not come again for a few seconds."""
        return len(self._waiting)

    def begin(self, number: int, member: int, work: Callable[[], Coroutine[None, None, None]]) -> asyncio.Future[None]:
        """Begin or join the work; the future ends with it. Raises `NotYet` if no place is free or another comes first.

        Raises `Unavailable` when the workshop closes.
        """
        if self._closed:
            raise Unavailable("the server is stopping")
        task = self._works.get(number)
        if task is None:
            first = self._next(number, member)
            if len(self._works) >= self._at_once or first != member:
                raise NotYet("other media come first")
            self._waiting.pop(number, None)
            self._note_served(member)
            task = self._works[number] = asyncio.create_task(self._guarded(number, work), name=f"shoal-media-{number}")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task.add_done_callback(lambda ended: _pass_on(ended, done))
        return done

    def _next(self, number: int, member: int) -> int:
        """The member who is served next, now that this piece of work has come (again)."""
        now = time.monotonic()
        self._waiting.pop(number, None)
        self._waiting[number] = _Wait(member, now)
        # The one that came longest ago comes first; what does not come again was done elsewhere, or is gone.
        for old, wait in [*self._waiting.items()]:
            if wait.at > now - _FORGOTTEN_SECONDS and len(self._waiting) <= _MOST_WAITING:
                break
            del self._waiting[old]
        members = {wait.member: None for wait in self._waiting.values()}
        never = [each for each in members if each not in self._served]
        return never[0] if never else next(each for each in self._served if each in members)

    def _note_served(self, member: int) -> None:
        self._served.pop(member, None)
        self._served[member] = None
        if len(self._served) > _MOST_WAITING:
            del self._served[next(iter(self._served))]

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

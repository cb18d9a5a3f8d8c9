"""Keyed locks and concurrency limits within a process.

Several keys are locked in sorted order, so holders never deadlock. Work beyond a limit is refused with `NotYet`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple
from weakref import WeakValueDictionary

from shoal.core.errors import NotYet

Work = Callable[[], Coroutine[None, None, None]]


class TurnLimits(NamedTuple):
    """How many works are done at a time, and how many of one name; the same of those that wait or are done; the longest wait."""

    at_once: int
    of_one: int
    held: int
    held_of_one: int
    patience: float
    """In seconds."""


class Turns:
    """Does works by the names of whom they are for. Jobs whose works find no place are told `busy`, and come again."""

    def __init__(self, limits: TurnLimits, busy: str) -> None:
        self._limits = limits
        self._busy = busy
        self._works: set[asyncio.Task[None]] = set()
        self._held: Counter[Hashable] = Counter()
        self._places = asyncio.Semaphore(limits.at_once)
        self._of_one: dict[Hashable, asyncio.Semaphore] = {}

    def __len__(self) -> int:
        return len(self._works)

    def begin(self, name: Hashable, check: Callable[[], None], work: Work) -> asyncio.Future[None]:
        """Have a work done in its turn; the future ends with it.

        `check` raises what speaks against it, now and when its turn comes. Raises `NotYet` when too many wait; the future does so
        when it waited for too long.
        """
        if len(self._works) >= self._limits.held or self._held[name] >= self._limits.held_of_one:
            raise NotYet(self._busy)
        check()
        task = asyncio.create_task(self._in_turn(name, check, work), name="shoal-turn")
        self._works.add(task)
        self._held[name] += 1
        task.add_done_callback(lambda done: self._ended(done, name))
        return task

    async def _in_turn(self, name: Hashable, check: Callable[[], None], work: Work) -> None:
        async with AsyncExitStack() as places:
            try:
                async with asyncio.timeout(self._limits.patience):
                    mine = self._of_one.setdefault(name, asyncio.Semaphore(self._limits.of_one))
                    await places.enter_async_context(mine)
                    await places.enter_async_context(self._places)
            except TimeoutError as error:
                raise NotYet(self._busy) from error
            check()
            await work()

    def _ended(self, task: asyncio.Task[None], name: Hashable) -> None:
        self._works.discard(task)
        self._held[name] -= 1
        if not self._held[name]:
            del self._held[name]
            self._of_one.pop(name, None)

    async def close(self) -> None:
        """Give up what waits and what is done: it is done when the process is back."""
        for task in (works := list(self._works)):
            task.cancel()
        await asyncio.gather(*works, return_exceptions=True)


class NamedTurns:
    """One at a time for each name. A name that nobody waits for takes no memory."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, names: Iterable[str]) -> AsyncIterator[None]:
        """Hold all of these names. They are taken in one order, so that two never wait for each other."""
        async with AsyncExitStack() as stack:
            for name in sorted(set(names)):
                lock = self._locks.get(name)
                if lock is None:
                    lock = self._locks[name] = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield


async def set_within(event: asyncio.Event, seconds: float) -> bool:
    """Return True when the event is set, or False after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False

"""Keyed locks and concurrency limits within a process.

Several keys are locked in sorted order, so that tasks never deadlock. Work beyond a limit is refused with `NotYet`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple
from weakref import WeakValueDictionary

from shoal.core.errors import NotYet
from shoal.tasks import cancel

Work = Callable[[], Coroutine[None, None, None]]


class ConcurrencyLimits(NamedTuple):
    """Limits on concurrent tasks in a queue.

    `at_once` and `of_one` limit running tasks, in total and per key. `held` and `held_of_one` limit running and waiting
    tasks together. A task waits for at most `patience` seconds.
    """

    at_once: int
    of_one: int
    held: int
    held_of_one: int
    patience: float


class KeyedQueue:
    """A queue of tasks with concurrency limits, in total and per key. `busy` is the message of the error for a refused task."""

    def __init__(self, limits: ConcurrencyLimits, busy: str) -> None:
        self._limits = limits
        self._busy = busy
        self._works: set[asyncio.Task[None]] = set()
        self._unfinished: Counter[Hashable] = Counter()
        self._slots = asyncio.Semaphore(limits.at_once)
        self._slots_of: dict[Hashable, asyncio.Semaphore] = {}

    def __len__(self) -> int:
        return len(self._works)

    def begin(self, key: Hashable, check: Callable[[], None], work: Work) -> asyncio.Future[None]:
        """Queue a task. Return a future that is done when the task is.

        `check` raises an error if the task must not run. It is called now, and again when the task gets a slot. Raises
        `NotYet` if too many tasks wait. The future raises `NotYet` if the task has waited too long.
        """
        if len(self._works) >= self._limits.held or self._unfinished[key] >= self._limits.held_of_one:
            raise NotYet(self._busy)
        check()
        task = asyncio.create_task(self._run(key, check, work), name="shoal-turn")
        self._works.add(task)
        self._unfinished[key] += 1
        task.add_done_callback(lambda done: self._ended(done, key))
        return task

    async def _run(self, key: Hashable, check: Callable[[], None], work: Work) -> None:
        async with AsyncExitStack() as slots:
            try:
                async with asyncio.timeout(self._limits.patience):
                    of_key = self._slots_of.setdefault(key, asyncio.Semaphore(self._limits.of_one))
                    await slots.enter_async_context(of_key)
                    await slots.enter_async_context(self._slots)
            except TimeoutError as error:
                raise NotYet(self._busy) from error
            check()
            await work()

    def _ended(self, task: asyncio.Task[None], key: Hashable) -> None:
        self._works.discard(task)
        self._unfinished[key] -= 1
        if not self._unfinished[key]:
            del self._unfinished[key]
            self._slots_of.pop(key, None)

    async def close(self) -> None:
        """Cancel all tasks. Their jobs run again after the next start of the process."""
        await cancel(*self._works)


class KeyedLocks:
    """A lock for each name. A lock takes memory only while it is used."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, names: Iterable[str]) -> AsyncIterator[None]:
        """Hold the locks of all these names. They are acquired in sorted order, which prevents deadlocks."""
        async with AsyncExitStack() as stack:
            for name in sorted(set(names)):
                lock = self._locks.get(name)
                if lock is None:
                    lock = self._locks[name] = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield


async def set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait until the event is set, for at most `seconds`; return whether it is set."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False

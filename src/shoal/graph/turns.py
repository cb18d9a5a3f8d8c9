"""Taking turns within a process: commits that touch one thing would only overtake each other's transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary


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

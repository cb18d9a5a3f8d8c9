"""A client that receives live updates of a home timeline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shoal import Handle
from shoal.queries.streaming import Arrived, Edited, News, Removed
from tests.async_runner import eventually


class Listener:
    """A receiver of live updates. `position` is the position of the last update."""

    def __init__(self, handle: Handle, after: str | None) -> None:
        self._handle = handle
        self._after = after
        self.news: list[News] = []

    async def run(self) -> None:
        async for one in self._handle.live(self._after):
            self.news.append(one)

    @property
    def position(self) -> str:
        return self.news[-1].position

    async def heard(self) -> list[str]:
        """Return all updates in short form: `+` added, `~` edited, `-` removed (by id), `?` reload. A share begins with `>`."""
        return [_short(one) for one in self.news]

    async def hears(self, *expected: str) -> None:
        """Wait for exactly these updates since the previous call, in any order."""

        async def heard() -> list[str]:
            return sorted(await self.heard())

        await eventually(heard, sorted(expected))
        self.news.clear()


def _short(one: News) -> str:
    if isinstance(one, Arrived | Edited):
        sign = "+" if isinstance(one, Arrived) else "~"
        return f"{sign}{'> ' if one.entry.share else ''}{one.entry.post.text}"
    return f"-{one.id}" if isinstance(one, Removed) else "?"


@asynccontextmanager
async def listening(handle: Handle, after: str | None = None) -> AsyncIterator[Listener]:
    """Connect a listener before the block begins."""
    hub = handle._network.hub
    before = hub.connected
    listener = Listener(handle, after)
    task = asyncio.create_task(listener.run())

    async def connected() -> bool:
        return hub.connected > before

    try:
        await eventually(connected, True)
        yield listener
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

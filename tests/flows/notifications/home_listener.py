"""A client that receives live updates of a home timeline or of a named feed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from shoal import Handle
from shoal.core.feeds.declarations import NamedFeed
from shoal.queries.streaming import Arrived, Edited, FeedChanged, Newer, News, OfViewer, Removed
from tests.async_runner import eventually


class Listener:
    """A receiver of live updates. `position` is the position of the last update."""

    def __init__(self, updates: AsyncGenerator[News | OfViewer, None]) -> None:
        self._updates = updates
        self.news: list[News] = []
        self.over = asyncio.Event()

    async def run(self) -> None:
        async for one in self._updates:
            if isinstance(one, News):
                self.news.append(one)
        self.over.set()

    async def ended(self) -> None:
        """Wait for the end of the stream."""
        await asyncio.wait_for(self.over.wait(), 60)

    @property
    def position(self) -> str:
        return self.news[-1].position

    async def heard(self) -> list[str]:
        """Return all updates in short form: `+` added, `~` edited, `-` removed (by id), `?` reload, `*` newer, and
        `changed` or `deleted` for a feed.

        A share begins with `>`.
        """
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
    if isinstance(one, Removed):
        return f"-{one.id}"
    if isinstance(one, FeedChanged):
        return "deleted" if one.deleted else "changed"
    return "*" if isinstance(one, Newer) else "?"


@asynccontextmanager
async def listening(
    handle: Handle, after: str | None = None, *, feed: NamedFeed | str | None = None
) -> AsyncIterator[Listener]:
    """Connect a listener to the home timeline, or to a feed, before the block begins."""
    hub = handle._network.hub
    before = hub.connected
    listener = Listener(handle.live(after) if feed is None else handle.live_feed(feed, after))
    task = asyncio.create_task(listener.run())

    async def connected() -> bool:
        return hub.connected > before

    try:
        await eventually(connected, True)
        yield listener
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

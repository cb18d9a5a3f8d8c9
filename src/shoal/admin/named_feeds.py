"""Operations on the named feeds of the server."""

from __future__ import annotations

import msgspec

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.report import Progress
from shoal.commands import feeds
from shoal.core.feeds.declarations import Cost, NamedFeed, cost_of
from shoal.graph.contract import Reader
from shoal.graph.feed_lookup import contained_feeds, feeds_of, readable_feed


class FeedWithCost(msgspec.Struct):
    feed: NamedFeed
    cost: Cost
    """The most that reading a page costs."""


async def _with_cost(graph: Reader, feed: NamedFeed) -> FeedWithCost:
    return FeedWithCost(feed, cost_of(feed.declaration, await contained_feeds(graph, None, feed.declaration)))


class ListFeeds(Operation[list[FeedWithCost]]):
    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[FeedWithCost]:
        graph = network.writes.graph
        return [await _with_cost(graph, feed) for feed in await feeds_of(graph, 0)]


class ShowNamedFeed(Operation[FeedWithCost]):
    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> FeedWithCost:
        graph = network.writes.graph
        return await _with_cost(graph, await readable_feed(graph, None, self.name))


class PutFeed(Operation[FeedWithCost]):
    """Create a feed of the server, or change one. None keeps a value of the latter."""

    name: str
    declaration: str | None
    """The declaration as JSON text."""
    title: str | None = None
    new: bool = True

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> FeedWithCost:
        writes = network.writes
        if self.new:
            made = await feeds.create_for_server(writes, self.name, self.declaration, title=self.title or "")
        else:
            made = await feeds.update_for_server(writes, self.name, title=self.title, declaration=self.declaration)
        return await _with_cost(writes.graph, made)


class DeleteFeed(Operation[None]):
    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await feeds.delete_for_server(network.writes, self.name)

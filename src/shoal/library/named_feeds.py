"""Named feeds: reading them, and managing those of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from shoal.app.network import Network
from shoal.commands import feeds
from shoal.core.feeds.declarations import Cost, NamedFeed, cost_of
from shoal.graph.feed_lookup import contained_feeds, feeds_of, readable_feed
from shoal.library.acting import Seeing, part
from shoal.queries.foryou.ranking import decode_cursor
from shoal.queries.named_feeds import feed as queries
from shoal.queries.named_feeds.feed import FeedPage

AnyFeed: TypeAlias = NamedFeed | str | int
"""A feed, given as itself, by the name of a feed of the server, or by id."""


def reference_of(which: AnyFeed) -> str:
    return str(which.id) if isinstance(which, NamedFeed) else str(which)


class SeesNamedFeeds(Seeing):
    """Named feeds as a viewer sees them."""

    async def read_feed(
        self,
        which: AnyFeed,
        before: int | None = None,
        limit: int = 20,
        *,
        after: int | None = None,
        oldest_first: bool = False,
        cursor: str = "",
        parameters: Mapping[str, float | bool | str] | None = None,
    ) -> FeedPage:
        """Return a page of a named feed, each entry with the reason why it is there (`why`).

        Args:
            which: The feed.
            before: The `next` of the previous page of a feed in the order of time.
            limit: Maximum number of entries, at least 1.
            after: For a feed in the order of time: only entries newer than this id.
            oldest_first: For a feed in the order of time: the oldest entries newer than `after`, still newest first.
            cursor: The `cursor` of the previous page of a ranked feed.
            parameters: Values of the feed's parameters; defaults apply to the others.

        Raises `NotFound` for a feed that the viewer may not read, `InvalidInput` for an invalid limit, cursor or parameter, and
        `Unauthenticated` for a visitor if the feed is ranked by a recipe.
        """
        feed = await readable_feed(self._reads.graph, self._viewer, reference_of(which))
        at = decode_cursor(cursor) if cursor else None
        range_ = part(before, limit, after, oldest_first=oldest_first)
        return await queries.page(self._reads, self._viewer, feed, range_, at=at, parameters=parameters)

    async def named_feed(self, which: AnyFeed) -> NamedFeed:
        """Return a feed that the viewer may read. Raises `NotFound`."""
        return await readable_feed(self._reads.graph, self._viewer, reference_of(which))

    async def feed_cost(self, which: AnyFeed) -> Cost:
        """Return the most that a page of a feed costs. Raises `NotFound`."""
        feed = await self.named_feed(which)
        return cost_of(feed.declaration, await contained_feeds(self._reads.graph, self._viewer, feed.declaration))


class ServerFeeds:
    """The named feeds of the server, which any viewer may read. Roles are not checked."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def all(self) -> list[NamedFeed]:
        """Return all feeds of the server, oldest first."""
        return await feeds_of(self._network.reads.graph, 0)

    async def create(self, name: str, declaration: object, *, title: str = "") -> NamedFeed:
        """Create a feed of the server. Its title is the name by default.

        The declaration is a dictionary or JSON text (docs/reference/feeds.md), or that of another feed.

        Raises `InvalidInput` for an invalid value, `Taken` for a name in use, and `Unfit` if a page would be too expensive, and if
        there are 100 feeds.
        """
        return await feeds.create_for_server(self._network.writes, name, declaration, title=title)

    async def update(self, name: str, *, title: str | None = None, declaration: object = None) -> NamedFeed:
        """Change the given values of a feed. Raises `NotFound`, and the errors of `create`."""
        return await feeds.update_for_server(self._network.writes, name, title=title, declaration=declaration)

    async def delete(self, name: str) -> None:
        """Delete a feed. Feeds that contain it lose its posts. Raises `NotFound`."""
        await feeds.delete_for_server(self._network.writes, name)

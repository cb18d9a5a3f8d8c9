"""Named feeds: reading them, and managing those of a member or the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from shoal.app.network import Network
from shoal.commands import feeds, notifications
from shoal.core.feeds.declarations import Cost, NamedFeed, cost_of
from shoal.graph.feed_lookup import contained_feeds, feeds_of, followed_feeds, readable_feed, saved_values
from shoal.library.acting import AnyPost, Owned, Seeing, part, post_id
from shoal.queries.foryou.ranking import decode_cursor
from shoal.queries.named_feeds import feed as queries
from shoal.queries.named_feeds import preview
from shoal.queries.named_feeds.feed import FeedPage, Unread
from shoal.queries.named_feeds.preview import FeedDryRun

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


class OwnFeeds(Owned):
    """The named feeds of a member, and those that they follow. All of them are also lists in Mastodon clients."""

    async def all(self) -> list[NamedFeed]:
        """Return the member's feeds, oldest first."""
        return await feeds_of(self._reads.graph, self._owner)

    async def followed(self) -> list[NamedFeed]:
        """Return the feeds that the member follows and may still read, in the order of following."""
        return await followed_feeds(self._reads.graph, self._owner)

    async def create(self, title: str, declaration: object, *, shared: bool = False) -> NamedFeed:
        """Create a feed. Anyone may read a `shared` one, and other members may copy it.

        The declaration is a dictionary or JSON text (docs/reference/feeds.md), or that of another feed.

        Raises `InvalidInput` for an invalid value, for a list of another member and for a feed that the member may not read, and
        `Unfit` if a page would be too expensive, if a shared feed has a list, and if the member has 50 feeds.
        """
        return await feeds.create(self._writes, self._owner, title, declaration, shared=shared)

    async def update(
        self,
        which: AnyFeed,
        *,
        title: str | None = None,
        declaration: object = None,
        shared: bool | None = None,
    ) -> NamedFeed:
        """Change the given values of one of the member's feeds. Raises `NotFound`, and the errors of `create`."""
        return await feeds.update(
            self._writes, self._owner, reference_of(which), title=title, declaration=declaration, shared=shared
        )

    async def delete(self, which: AnyFeed) -> None:
        """Delete one of the member's feeds. Copies of it stay. Raises `NotFound`."""
        await feeds.delete(self._writes, self._owner, reference_of(which))

    async def dry_run(
        self,
        declaration: object,
        limit: int = 20,
        *,
        other: object = None,
        parameters: Mapping[str, float | bool | str] | None = None,
    ) -> FeedDryRun:
        """Return what a declaration would show now, compared with `other`, the declaration of another feed. Nothing is stored.

        `parameters` are values of the parameters of `declaration`; those of `other` have their defaults. Raises the errors of
        `create`, and `InvalidInput` for an invalid limit or parameter.
        """
        graph = self._reads.graph
        declared = await feeds.checked_for(graph, self._owner, declaration)
        compared = None if other is None else await feeds.checked_for(graph, self._owner, other)
        return await preview.dry_run(self._reads, self._owner, declared, limit, other=compared, parameters=parameters)

    async def unread(self, which: AnyFeed) -> Unread:
        """Return the number of entries of a feed in the order of time that the member has not read, at most 100.

        Raises `NotFound`, and `InvalidInput` for a ranked feed.
        """
        graph = self._reads.graph
        return await queries.unread(
            self._reads, self._owner, await readable_feed(graph, self._owner, reference_of(which))
        )

    async def mark_read(self, which: AnyFeed, post: AnyPost) -> Unread:
        """Set the read position of a feed to a post, and return the number of entries after it. Raises as `unread`."""
        feed = await readable_feed(self._reads.graph, self._owner, reference_of(which))
        read = {queries.marker_of(feed): post_id(post)}
        await notifications.set_markers(self._writes, self._owner, read)
        return await queries.unread(self._reads, self._owner, feed)

    async def parameters(self, which: AnyFeed) -> dict[str, float | bool | str]:
        """Return the values of a feed's parameters that the member saved. Raises `NotFound`."""
        feed = await readable_feed(self._reads.graph, self._owner, reference_of(which))
        return await saved_values(self._reads.graph, self._owner, feed)

    async def set_parameters(
        self, which: AnyFeed, parameters: Mapping[str, float | bool | str]
    ) -> dict[str, float | bool | str]:
        """Save values of a feed's parameters, and return them.

        They apply where the member reads the feed as a list, and in the web app. Omitted parameters have their defaults; an empty
        mapping removes the saved values.

        Raises `NotFound`, `InvalidInput` for an invalid value, and `Unfit` if the member neither owns nor follows the feed.
        """
        return await feeds.set_values(self._writes, self._owner, reference_of(which), parameters)

    async def copy(self, which: AnyFeed, *, title: str | None = None) -> NamedFeed:
        """Create a copy of a feed that the member may read, given also by its link. The copy has the `origin_id` of the feed.

        Raises `NotFound`, and the errors of `create`.
        """
        return await feeds.copy(self._writes, self._owner, reference_of(which), title=title)

    async def follow(self, which: AnyFeed) -> NamedFeed:
        """Add a feed of the server or a shared feed to the member's lists. Idempotent.

        Raises `NotFound`, and `Unfit` for an own feed, and if the member follows 50 feeds.
        """
        return await feeds.follow(self._writes, self._owner, reference_of(which))

    async def unfollow(self, which: AnyFeed) -> None:
        """Remove a feed from the member's lists. Idempotent. Raises `NotFound` for an unknown feed."""
        await feeds.unfollow(self._writes, self._owner, reference_of(which))


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

"""Named feeds in lists of feeds: what each shows, in words."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shoal.core.feeds.declarations import FeedDeclaration, NamedFeed, OfFeed, OnList
from shoal.core.model import Member, MemberList
from shoal.graph.access import members_by_id, objects_of
from shoal.graph.feed_lookup import affordable_feeds, readable_called
from shoal.web.feed_words import FeedWords, words_of
from shoal.web.request_context import PageContext
from shoal.web.view_models import Face, face_of


class FeedView(NamedTuple):
    path: str
    title: str
    owner: Face | None
    """None for a feed of the server."""
    own: bool
    shared: bool
    words: FeedWords


class Contents(NamedTuple):
    """The feeds that a feed contains and the viewer may read, and the titles of lists and feeds, by their references."""

    feeds: Mapping[str, FeedDeclaration]
    titles: Mapping[str, str]


async def feed_views(ctx: PageContext, feeds: Sequence[NamedFeed]) -> list[FeedView]:
    """Return feeds that the viewer may read for a list. Feeds of other members name their owner."""
    owners = {feed.owner_id for feed in feeds} - {0, ctx.viewer_id}
    members, contents = await asyncio.gather(
        _members(ctx, list(owners)), contents_of(ctx, [feed.declaration for feed in feeds])
    )
    return [feed_view(ctx, feed, members, each) for feed, each in zip(feeds, contents, strict=True)]


async def _members(ctx: PageContext, ids: Sequence[int]) -> dict[int, Member]:
    return await members_by_id(ctx.graph, ids) if ids else {}


def feed_view(ctx: PageContext, feed: NamedFeed, owners: Mapping[int, Member], contents: Contents) -> FeedView:
    owner = owners.get(feed.owner_id)
    return FeedView(
        feed_path(ctx, feed),
        feed.title,
        face_of(ctx, owner) if owner is not None else None,
        bool(feed.owner_id) and feed.owner_id == ctx.viewer_id,
        feed.readable,
        words_of(ctx.words, feed.declaration, contents.titles),
    )


def feed_path(ctx: PageContext, feed: NamedFeed) -> str:
    return ctx.url(f"/feeds/{feed.name or feed.id}")


async def contents_of(ctx: PageContext, declarations: Sequence[FeedDeclaration]) -> list[Contents]:
    """Return the contents of each feed. Costs at most five reads for any number of feeds."""
    sources = [source for declared in declarations for source in declared.sources]
    lists, feeds = await asyncio.gather(
        objects_of(ctx.graph, MemberList, list({int(each.list) for each in sources if isinstance(each, OnList)})),
        readable_called(ctx.graph, ctx.viewer_id, {each.feed for each in sources if isinstance(each, OfFeed)}),
    )
    titles = {str(list_.id): list_.title for list_ in lists if list_.owner_id == ctx.viewer_id}
    found: list[Contents] = []
    for declared in declarations:
        contained = affordable_feeds(declared, feeds)
        found.append(Contents(contained, titles | {reference: feeds[reference].title for reference in contained}))
    return found

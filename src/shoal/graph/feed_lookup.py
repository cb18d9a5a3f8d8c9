"""Named feeds: look-ups by name or id, access, and the feeds that a feed contains."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shoal.core.errors import NotFound
from shoal.core.feeds.declarations import (
    MAX_FEEDS_OF_MEMBER,
    MAX_FEEDS_OF_SERVER,
    FeedDeclaration,
    Filters,
    NamedFeed,
    OfKind,
    affordable,
)
from shoal.core.ids import MAX_ID
from shoal.core.kind_index import Filter
from shoal.core.kinds import PostKind
from shoal.graph.access import members_by_id, objects_of, relations
from shoal.graph.contract import Cursor, Reader, find_object
from shoal.graph.kinds import find_kind
from shoal.graph.schema import EVERYBODY, FOLLOWS_FEED, OWNS_FEED, feed_key


async def feed_called(graph: Reader, reference: str) -> NamedFeed:
    """Return the feed of the server with this name, or any feed by its id. Raises `NotFound`. Access is not checked."""
    if reference.isdecimal() and reference.isascii():
        id_ = int(reference[:20])
    else:
        key = feed_key(reference[:60])
        id_ = (await graph.key_get((key,))).get(key, 0)
    feed = await find_object(graph, NamedFeed, id_) if 0 < id_ <= MAX_ID else None
    if feed is None:
        raise NotFound(f"there is no feed {reference[:60]!r}")
    return feed


async def _called_or_none(graph: Reader, reference: str) -> NamedFeed | None:
    try:
        return await feed_called(graph, reference)
    except NotFound:
        return None


async def readable_feed(graph: Reader, viewer: int | None, reference: str) -> NamedFeed:
    """Return a feed that the viewer may read: one of the server, their own, or a shared one. Raises `NotFound` for any other."""
    feed = await feed_called(graph, reference)
    if await _readable(graph, viewer, (feed,)):
        return feed
    raise NotFound(f"there is no feed {reference[:60]!r}")


async def _readable(graph: Reader, viewer: int | None, feeds: Sequence[NamedFeed]) -> list[NamedFeed]:
    """Return the feeds that the viewer may read; two reads if other members own some of them."""
    owners = {feed.owner_id for feed in feeds if feed.shared} - {0, viewer}
    members = await members_by_id(graph, list(owners)) if owners else {}
    related = await relations(graph, viewer, owners) if owners else {}

    def may_read(feed: NamedFeed) -> bool:
        if not feed.owner_id or feed.owner_id == viewer:
            return True
        owner = members.get(feed.owner_id)
        if viewer is None or not feed.shared or owner is None:
            return False
        return not owner.suspended and not related[feed.owner_id].severed

    return [feed for feed in feeds if may_read(feed)]


async def contained_feeds(
    graph: Reader, viewer: int | None, declared: FeedDeclaration
) -> Mapping[str, FeedDeclaration]:
    """Return the declarations of the feeds in a feed, by their references.

    Feeds that the viewer may not read are left out, and those that have become too expensive since they were included.
    """
    called = await asyncio.gather(*[_called_or_none(graph, reference) for reference in declared.feeds])
    feeds = {reference: feed for reference, feed in zip(declared.feeds, called, strict=True) if feed is not None}
    readable = {feed.id for feed in await _readable(graph, viewer, list(feeds.values()))}
    found = {reference: feed.declaration for reference, feed in feeds.items() if feed.id in readable}
    return affordable(declared, found)


class KindSelection(NamedTuple):
    """The posts of a kind that a source selects."""

    lists: list[str]
    """Names of the lists that contain them."""
    filters: tuple[Filter, ...]


async def kind_selection(graph: Reader, source: OfKind) -> KindSelection:
    """Return what a source selects. Raises `NotFound` for an unknown kind, and the errors of `PostKind.lists`."""
    kind = await _kind(graph, source.kind)
    filters = kind.filters(_given(source.where))
    return KindSelection(kind.lists(filters), filters)


async def field_filters(graph: Reader, filters: Filters) -> tuple[Filter, ...]:
    """Return the filters by fields. Raises `NotFound` for an unknown kind, and `InvalidInput` for a path without an index."""
    kinds = [await _kind(graph, name) for name in filters.kinds]
    return kinds[0].filters(_given(filters.fields)) if filters.fields else ()


async def check_kinds(graph: Reader, declared: FeedDeclaration) -> None:
    """Raise the errors of `kind_selection` and `field_filters` for a declaration."""
    for source in declared.sources:
        if isinstance(source, OfKind):
            await kind_selection(graph, source)
    await field_filters(graph, declared.filters)


async def _kind(graph: Reader, name: str) -> PostKind:
    kind = await find_kind(graph, name)
    if kind is None:
        raise NotFound(f"there is no kind {name!r}")
    return kind


def _given(fields: Mapping[str, object]) -> dict[str, object]:
    """Return several values as a list, because `PostKind.filters` takes a tuple for a range."""
    return {path: list(value) if isinstance(value, tuple) else value for path, value in fields.items()}


async def feeds_of(graph: Reader, owner_id: int) -> list[NamedFeed]:
    """Return the feeds of a member (0: of the server), oldest first."""
    cursor = Cursor(limit=2 * MAX_FEEDS_OF_SERVER, oldest_first=True)
    listed = await graph.assoc_range(owner_id or EVERYBODY, OWNS_FEED, cursor)
    return await objects_of(graph, NamedFeed, [assoc.id2 for assoc in listed])


async def followed_feeds(graph: Reader, member_id: int) -> list[NamedFeed]:
    """Return the feeds that a member follows and may still read, in the order of following."""
    cursor = Cursor(limit=2 * MAX_FEEDS_OF_MEMBER, oldest_first=True)
    listed = await graph.assoc_range(member_id, FOLLOWS_FEED, cursor)
    return await _readable(graph, member_id, await objects_of(graph, NamedFeed, [assoc.id2 for assoc in listed]))

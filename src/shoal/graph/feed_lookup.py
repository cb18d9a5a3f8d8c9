"""Named feeds: look-ups by name or id, access, and the feeds that a feed contains."""

from __future__ import annotations

from collections.abc import Mapping

from shoal.core.errors import NotFound
from shoal.core.feeds.declarations import MAX_FEEDS_OF_MEMBER, MAX_FEEDS_OF_SERVER, FeedDeclaration, NamedFeed
from shoal.core.ids import MAX_ID
from shoal.core.model import Member
from shoal.graph.access import objects_of, relations
from shoal.graph.contract import Cursor, Reader, find_object
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


async def readable_feed(graph: Reader, viewer: int | None, reference: str) -> NamedFeed:
    """Return a feed that the viewer may read: one of the server, their own, or a shared one. Raises `NotFound` for any other."""
    feed = await feed_called(graph, reference)
    if await _may_read(graph, viewer, feed):
        return feed
    raise NotFound(f"there is no feed {reference[:60]!r}")


async def _may_read(graph: Reader, viewer: int | None, feed: NamedFeed) -> bool:
    if not feed.owner_id or feed.owner_id == viewer:
        return True
    if viewer is None or not feed.shared:
        return False
    owner = await find_object(graph, Member, feed.owner_id)
    relation = (await relations(graph, viewer, (feed.owner_id,)))[feed.owner_id]
    return owner is not None and not owner.suspended and not relation.severed


async def contained_feeds(
    graph: Reader, viewer: int | None, declared: FeedDeclaration
) -> Mapping[str, FeedDeclaration]:
    """Return the declarations of the feeds in a feed, by their references, without feeds that the viewer may not read."""
    found: dict[str, FeedDeclaration] = {}
    for reference in declared.feeds:
        try:
            found[reference] = (await readable_feed(graph, viewer, reference)).declaration
        except NotFound:
            continue
    return found


async def feeds_of(graph: Reader, owner_id: int) -> list[NamedFeed]:
    """Return the feeds of a member (0: of the server), oldest first."""
    cursor = Cursor(limit=2 * MAX_FEEDS_OF_SERVER, oldest_first=True)
    listed = await graph.assoc_range(owner_id or EVERYBODY, OWNS_FEED, cursor)
    return await objects_of(graph, NamedFeed, [assoc.id2 for assoc in listed])


async def followed_feeds(graph: Reader, member_id: int) -> list[NamedFeed]:
    """Return the feeds that a member follows and may still read, in the order of following."""
    cursor = Cursor(limit=2 * MAX_FEEDS_OF_MEMBER, oldest_first=True)
    listed = await graph.assoc_range(member_id, FOLLOWS_FEED, cursor)
    found = await objects_of(graph, NamedFeed, [assoc.id2 for assoc in listed])
    return [feed for feed in found if await _may_read(graph, member_id, feed)]

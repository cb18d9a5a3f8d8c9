"""Named feeds: look-ups by name or id, access, and the feeds that a feed contains."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

import msgspec

from shoal.core.errors import InvalidInput, NotFound
from shoal.core.feeds.declarations import (
    MAX_FEEDS_OF_MEMBER,
    MAX_FEEDS_OF_SERVER,
    FeedDeclaration,
    Filters,
    NamedFeed,
    OfKind,
    affordable,
    values_of,
)
from shoal.core.feeds.expressions import Value
from shoal.core.ids import MAX_ID
from shoal.core.kind_index import Filter
from shoal.core.kinds import PostKind
from shoal.core.model import Member
from shoal.core.visibility import Relation
from shoal.graph.access import association, declared_reactions, members_by_id, objects_of, relations
from shoal.graph.contract import Cursor, Reader
from shoal.graph.kinds import find_kind
from shoal.graph.schema import EVERYBODY, FOLLOWS_FEED, OWNS_FEED, SETS_FEED, feed_key


async def feed_called(graph: Reader, reference: str) -> NamedFeed:
    """Return the feed of the server with this name, or any feed by its id. Raises `NotFound`. Access is not checked."""
    feed = (await _feeds_called(graph, (reference,))).get(reference)
    if feed is None:
        raise NotFound(f"there is no feed {reference[:60]!r}")
    return feed


async def _feeds_called(graph: Reader, references: Collection[str]) -> dict[str, NamedFeed]:
    """Return those of the feeds that exist, by reference, in at most two reads. Access is not checked."""
    ids = {reference: id_in(reference) for reference in references}
    keys = {reference: feed_key(reference[:60]) for reference, id_ in ids.items() if id_ is None}
    named = await graph.key_get(tuple(set(keys.values()))) if keys else {}
    ids |= {reference: named.get(key, 0) for reference, key in keys.items()}
    feeds = await objects_of(graph, NamedFeed, list({id_ for id_ in ids.values() if id_}))
    found = {feed.id: feed for feed in feeds}
    return {reference: found[id_] for reference, id_ in ids.items() if id_ in found}


def id_in(reference: str) -> int | None:
    """Return the id in a reference to a feed, 0 for an impossible one, and None for a name."""
    if not (reference.isdecimal() and reference.isascii()):
        return None
    id_ = int(reference[:20])
    return id_ if id_ <= MAX_ID else 0


async def readable_feed(graph: Reader, viewer: int | None, reference: str) -> NamedFeed:
    """Return a feed that the viewer may read: one of the server, their own, or a shared one. Raises `NotFound` for any other.

    Visitors may read shared feeds too.
    """
    feed = await feed_called(graph, reference)
    await check_readable(graph, viewer, feed, reference)
    return feed


async def check_readable(graph: Reader, viewer: int | None, feed: NamedFeed, reference: str = "") -> None:
    """Raise `NotFound` if the viewer may not read a feed. The message has `reference`, or else the id of the feed."""
    if not await may_read(graph, viewer, feed):
        raise NotFound(f"there is no feed {reference[:60] or str(feed.id)!r}")


async def may_read(graph: Reader, viewer: int | None, feed: NamedFeed) -> bool:
    """Return whether a feed is of the server, the viewer's own, or shared by a member whom they may see."""
    return bool(await readable_among(graph, viewer, (feed,)))


async def readable_among(graph: Reader, viewer: int | None, feeds: Sequence[NamedFeed]) -> list[NamedFeed]:
    """Return the feeds that the viewer may read; two concurrent reads if other members own some of them."""
    owners = {feed.owner_id for feed in feeds if feed.shared} - {0, viewer}
    members: Mapping[int, Member] = {}
    related: Mapping[int, Relation] = {}
    if owners:
        members, related = await asyncio.gather(members_by_id(graph, list(owners)), relations(graph, viewer, owners))

    def may_read(feed: NamedFeed) -> bool:
        if not feed.owner_id or feed.owner_id == viewer:
            return True
        owner = members.get(feed.owner_id)
        if not feed.shared or owner is None:
            return False
        return not owner.suspended and not related[feed.owner_id].severed

    return [feed for feed in feeds if may_read(feed)]


async def contained_feeds(
    graph: Reader, viewer: int | None, declared: FeedDeclaration
) -> Mapping[str, FeedDeclaration]:
    """Return the declarations of the feeds in a feed, by their references.

    Feeds that the viewer may not read are left out, and those that have become too expensive since they were included.
    """
    return affordable_feeds(declared, await readable_called(graph, viewer, declared.feeds))


async def contained_in_each(
    graph: Reader, viewer: int | None, declarations: Sequence[FeedDeclaration]
) -> list[Mapping[str, FeedDeclaration]]:
    """Return the `contained_feeds` of each feed, in at most four reads."""
    readable = await readable_called(graph, viewer, {each for declared in declarations for each in declared.feeds})
    return [affordable_feeds(declared, readable) for declared in declarations]


async def contained_among(
    graph: Reader, viewer: int | None, declared: FeedDeclaration, feeds: Mapping[str, NamedFeed]
) -> Mapping[str, FeedDeclaration]:
    """Return the declarations of these `called_feeds` of a feed, as `contained_feeds`."""
    return affordable_feeds(declared, await _readable_by_reference(graph, viewer, feeds))


def affordable_feeds(declared: FeedDeclaration, readable: Mapping[str, NamedFeed]) -> Mapping[str, FeedDeclaration]:
    """Return the declarations of those of the feeds that a feed contains, as `contained_feeds`."""
    return affordable(
        declared, {reference: readable[reference].declaration for reference in declared.feeds if reference in readable}
    )


async def readable_called(graph: Reader, viewer: int | None, references: Collection[str]) -> dict[str, NamedFeed]:
    """Return those of the feeds that the viewer may read, by reference, in at most four reads."""
    return await _readable_by_reference(graph, viewer, await _feeds_called(graph, references))


async def _readable_by_reference(
    graph: Reader, viewer: int | None, feeds: Mapping[str, NamedFeed]
) -> dict[str, NamedFeed]:
    readable = {feed.id for feed in await readable_among(graph, viewer, list(feeds.values()))}
    return {reference: feed for reference, feed in feeds.items() if feed.id in readable}


async def called_feeds(graph: Reader, declared: FeedDeclaration) -> dict[str, NamedFeed]:
    """Return the feeds that a feed names as its sources and that exist, by their references. Access is not checked."""
    return await _feeds_called(graph, declared.feeds)


class FeedReading(NamedTuple):
    """A feed, and the feeds that it names as its sources and that exist, by their references. Access is not checked."""

    feed: NamedFeed
    called: Mapping[str, NamedFeed]


async def read_feed(graph: Reader, feed_id: int) -> FeedReading:
    """Return a feed with the feeds that it names. Raises `NotFound`. Access is not checked."""
    feed = await feed_called(graph, str(feed_id))
    return FeedReading(feed, await called_feeds(graph, feed.declaration))


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


async def check_names(graph: Reader, declared: FeedDeclaration) -> None:
    """Raise `InvalidInput`, which names the place, for an unknown kind or reaction, and for fields that have no index.

    Raises `Unfit` while an index is being built.
    """
    for at, source in enumerate(declared.sources):
        if isinstance(source, OfKind):
            with _placed("sources", f"sources[{at}].kind", f"sources[{at}].where"):
                await kind_selection(graph, source)
    for at, name in enumerate(declared.filters.kinds):
        with _placed("filters", f"filters.kinds[{at}]", ""):
            await _kind(graph, name)
    with _placed("filters", "filters.kinds", "filters.fields"):
        await field_filters(graph, declared.filters)
    expression = declared.expression()
    if expression is not None and expression.reactions:
        stored = await declared_reactions(graph)
        for name in sorted(expression.reactions):
            with _placed("order.expression", "order.expression", ""):
                stored.get(name)


@contextmanager
def _placed(field: str, name_path: str, values_path: str) -> Iterator[None]:
    """Add its place to the error about an unknown name, or about the values of indexed paths."""
    try:
        yield
    except NotFound as error:
        raise InvalidInput(f"{name_path}: {error}", field=field) from None
    except InvalidInput as error:
        raise type(error)(f"{values_path}: {str(error).removeprefix('filter: ')}", field=field) from None


async def _kind(graph: Reader, name: str) -> PostKind:
    kind = await find_kind(graph, name)
    if kind is None:
        raise NotFound(f"there is no kind {name!r}")
    return kind


def _given(fields: Mapping[str, object]) -> dict[str, object]:
    """Return several values as a list, because `PostKind.filters` takes a tuple for a range."""
    return {path: list(value) if isinstance(value, tuple) else value for path, value in fields.items()}


async def saved_values(graph: Reader, member_id: int, feed: NamedFeed) -> dict[str, Value]:
    """Return the values of a feed's parameters that a member has saved and that the feed still allows.

    Costs one read, or none for a feed without parameters.
    """
    declared = feed.declaration
    if not declared.parameters:
        return {}
    saved = await association(graph, member_id, SETS_FEED, feed.id)
    values = msgspec.json.decode(saved.data, type=dict[str, Value]) if saved is not None else {}
    found: dict[str, Value] = {}
    for name, value in values.items():
        with suppress(InvalidInput):
            found[name] = values_of(declared, {name: value})[name]
    return found


async def feeds_of(graph: Reader, owner_id: int) -> list[NamedFeed]:
    """Return the feeds of a member (0: of the server), oldest first."""
    cursor = Cursor(limit=2 * MAX_FEEDS_OF_SERVER, oldest_first=True)
    listed = await graph.assoc_range(owner_id or EVERYBODY, OWNS_FEED, cursor)
    return await objects_of(graph, NamedFeed, [assoc.id2 for assoc in listed])


async def followed_feeds(graph: Reader, member_id: int) -> list[NamedFeed]:
    """Return the feeds that a member follows and may still read, in the order of following."""
    return (await all_followed_feeds(graph, member_id)).readable


class FollowedFeeds(NamedTuple):
    """The feeds that a member follows, in the order of following."""

    readable: list[NamedFeed]
    unavailable: list[int]
    """Ids of feeds that were deleted, or that the member may not read any more."""


async def all_followed_feeds(graph: Reader, member_id: int) -> FollowedFeeds:
    ids = await _followed_ids(graph, member_id)
    readable = await readable_among(graph, member_id, await objects_of(graph, NamedFeed, ids))
    return _followed(readable, ids)


async def _followed_ids(graph: Reader, member_id: int | None) -> list[int]:
    if member_id is None:
        return []
    cursor = Cursor(limit=2 * MAX_FEEDS_OF_MEMBER, oldest_first=True)
    return [assoc.id2 for assoc in await graph.assoc_range(member_id, FOLLOWS_FEED, cursor)]


def _followed(readable: Sequence[NamedFeed], ids: Sequence[int]) -> FollowedFeeds:
    found = {feed.id: feed for feed in readable}
    return FollowedFeeds([found[id_] for id_ in ids if id_ in found], [id_ for id_ in ids if id_ not in found])


class ListedFeeds(NamedTuple):
    """The feeds among which a viewer chooses."""

    own: list[NamedFeed]
    followed: FollowedFeeds
    of_server: list[NamedFeed]


async def listed_feeds(graph: Reader, viewer: int | None) -> ListedFeeds:
    """Return the viewer's own and followed feeds, and those of the server.

    Costs two concurrent reads (one for visitors), a third one if there are feeds, and two more for followed feeds of members.
    """
    owners = (EVERYBODY,) if viewer is None else (EVERYBODY, viewer)
    cursor = Cursor(limit=2 * MAX_FEEDS_OF_SERVER, oldest_first=True)
    owned, followed = await asyncio.gather(graph.assoc_ranges(owners, OWNS_FEED, cursor), _followed_ids(graph, viewer))
    ids = {owner: [assoc.id2 for assoc in owned.get(owner, ())] for owner in owners}
    all_ids = list({*followed, *(id_ for each in ids.values() for id_ in each)})
    feeds = {feed.id: feed for feed in await objects_of(graph, NamedFeed, all_ids)}
    readable = await readable_among(graph, viewer, [feeds[id_] for id_ in followed if id_ in feeds])
    own = [] if viewer is None else [feeds[id_] for id_ in ids[viewer] if id_ in feeds]
    of_server = [feeds[id_] for id_ in ids[EVERYBODY] if id_ in feeds]
    return ListedFeeds(own, _followed(readable, followed), of_server)

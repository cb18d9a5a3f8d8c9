"""Subscriptions of connected viewers: the sources each one follows, and the updates that name the viewer.

The followed sources and the members of a list are read from the graph in their current state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import msgspec
from msgspec.structs import replace

from shoal.core.errors import NotFound
from shoal.core.feeds.declarations import (
    ByAuthor,
    Followees,
    FromEverybody,
    Nearby,
    OfKind,
    OnList,
    Source,
    WithTag,
)
from shoal.core.ids import floor_at, milliseconds_of, named
from shoal.core.kind_index import kind_name
from shoal.core.model import MemberList
from shoal.core.places import cover, disk
from shoal.graph.access import own_object
from shoal.graph.contract import MAX_TIME, Assoc, Cursor, Reader
from shoal.graph.feed_lookup import FeedReading, check_readable, contained_among
from shoal.graph.schema import (
    EVERYBODY,
    FOLLOWS,
    FOLLOWS_TAG,
    LISTS,
    AssocType,
    cell_id,
    feed_access_id,
    feed_name_id,
    feeds_of_id,
    index_id,
    tag_id,
    user_name_id,
    user_name_key,
)
from shoal.streaming.updates import (
    ConversationChanged,
    FollowChanged,
    ListChanged,
    NamedFeedChanged,
    NotificationMade,
    SubscriptionChange,
    ViewerUpdate,
)

_PAGE = 20_000
_CLOCKS_MS = 2_000
"""Maximum difference between the clocks of two machines."""


async def _members_of(
    graph: Reader, id1: int, atype: AssocType, among: Collection[int] | None = None
) -> dict[int, int]:
    """Return the sources in an association list, each with the id below which posts are older than the association.

    If `among` is given, return only these.
    """
    if among is not None:
        listed = (await graph.assoc_get(id1, (atype,), list(among)))[atype]
        return {source: _since(assoc) for source, assoc in listed.items()}
    found: dict[int, int] = {}
    before = MAX_TIME
    while True:
        page = await graph.assoc_range(id1, atype, Cursor(before=before, limit=_PAGE))
        found.update((assoc.id2, _since(assoc)) for assoc in page)
        if len(page) < _PAGE:
            return found
        before = page[-1].time


def _since(follow: Assoc) -> int:
    return after_change(follow.time)


def after_change(time: int) -> int:
    """Return the id below which posts are older than a change; `MAX_TIME` for the time 0.

    A source that belongs to a viewer's subscription from the change on has the posts above this id.
    """
    return floor_at(milliseconds_of(time) - _CLOCKS_MS) if time else MAX_TIME


_ALL: frozenset[int] = frozenset()


class Interest(msgspec.Struct, frozen=True):
    """The kind of updates that a connected viewer receives. This base class selects no updates."""

    def matches(self, update: ViewerUpdate) -> bool:  # noqa: ARG002  # subclasses use it
        """Return whether a viewer gets an update that names them, even if they follow none of its sources."""
        return False

    async def sources(self, graph: Reader, viewer: int) -> dict[int, int]:  # noqa: ARG002  # the same
        """Return the sources that the viewer follows, each with the id below which posts are older than the follow.

        The id is 0 for a source that a subscription always has, or has since its last change.
        """
        return {}

    async def which_of(self, graph: Reader, viewer: int, sources: Collection[int]) -> dict[int, int]:
        """Return those among `sources` that the viewer follows, as the method `sources` does."""
        found = await self.sources(graph, viewer)
        return {source: since for source, since in found.items() if source in sources}

    def outdated_by(
        self,
        change: SubscriptionChange,  # noqa: ARG002  # the same
        known: Collection[int] | None,  # noqa: ARG002
    ) -> Collection[int] | None:
        """Return the sources to read again after a change that concerns the viewer.

        An empty collection means all sources, and None means no source. `known` are the sources so far; None while they are read.
        """
        return None


class Home(Interest, frozen=True):
    """Updates of the viewer's home timeline, and updates that name the viewer."""

    def matches(self, update: ViewerUpdate) -> bool:
        return not isinstance(update, ConversationChanged)

    async def sources(self, graph: Reader, viewer: int) -> dict[int, int]:
        found = {viewer: 0}
        for atype in (FOLLOWS, FOLLOWS_TAG):
            found |= await _members_of(graph, viewer, atype)
        return found

    async def which_of(self, graph: Reader, viewer: int, sources: Collection[int]) -> dict[int, int]:
        found = await graph.assoc_get(viewer, (FOLLOWS, FOLLOWS_TAG), list(sources))
        return {source: _since(assoc) for assocs in found.values() for source, assoc in assocs.items()}

    def outdated_by(self, change: SubscriptionChange, known: Collection[int] | None) -> Collection[int] | None:  # noqa: ARG002  # any follow matters
        return (change.source_id,) if isinstance(change, FollowChanged) else None


class NotificationInterest(Interest, frozen=True):
    def matches(self, update: ViewerUpdate) -> bool:
        return isinstance(update, NotificationMade)


class ThreadInterest(Interest, frozen=True):
    """Updates of the viewer's conversations."""

    def matches(self, update: ViewerUpdate) -> bool:
        return isinstance(update, ConversationChanged)


class Everybody(Interest, frozen=True):
    """Updates of the public timeline, or only of posts with media."""

    only_media: bool = False

    async def sources(self, graph: Reader, viewer: int) -> dict[int, int]:  # noqa: ARG002  # nothing is to be read
        return {EVERYBODY: 0}


class TagInterest(Interest, frozen=True):
    """Updates of public posts with a tag."""

    tag_id: int

    async def sources(self, graph: Reader, viewer: int) -> dict[int, int]:  # noqa: ARG002  # nothing is to be read
        return {self.tag_id: 0}


class FeedInterest(Interest, frozen=True):
    """Updates of the posts that the sources of a named feed may have, except `popular`, and changes of the feed.

    The lists of a source select updates; whether a post belongs to the feed is decided when the update is delivered. Further
    sources have no posts, but outdate the others when they change: the feed, the feeds that it contains, the names of feeds and
    authors, the access to the feeds of other members, the lists of the viewer, and `_FOLLOWEES` if it has the source `followees`.
    """

    feed_id: int

    async def of_feed(
        self,
        graph: Reader,
        viewer: int,
        known: Collection[int],
        read: Callable[[Reader], Awaitable[FeedReading]],
        among: Collection[int] | None = None,
    ) -> dict[int, int]:
        """Return the sources, or those in `among`, as `Interest.sources`. `read` returns the feed, which streams share.

        `known` are the sources so far; it is empty for a new connection. Raises the errors of `read`, and `NotFound` if the viewer
        of a new connection may not read the feed.
        """
        if among is None:
            return await self._read(graph, viewer, known, read, None)
        followed: dict[int, int] = {}
        if _FOLLOWEES in known:
            followed = await _members_of(graph, viewer, FOLLOWS, among)
        # The author may belong to another source.
        others = set(among) - followed.keys()
        found = await self._read(graph, viewer, known, read, others) if others else {}
        return followed | {source: since for source, since in found.items() if source in others}

    async def _read(
        self,
        graph: Reader,
        viewer: int,
        known: Collection[int],
        read: Callable[[Reader], Awaitable[FeedReading]],
        among: Collection[int] | None,
    ) -> dict[int, int]:
        """Return the sources; if `among` is given, only these among the followees and the members of lists."""
        found = {self.feed_id: 0}
        try:
            feed, called = await read(graph)
            await check_readable(graph, viewer, feed)
        except NotFound:
            if not known:
                raise
            return found
        for each in (feed, *called.values()):
            found[each.id] = 0
            if each.owner_id not in (0, viewer):
                found[feeds_of_id(each.owner_id)] = found[feed_access_id(each.owner_id, viewer)] = 0
        found |= dict.fromkeys(map(feed_name_id, feed.declaration.feeds), 0)
        contained = await contained_among(graph, viewer, feed.declaration, called)
        declared = [source for each in (feed.declaration, *contained.values()) for source in each.sources]
        # Several feeds may have the same source.
        distinct = {msgspec.json.encode(replace(source, most=1)): source for source in declared}
        for source in distinct.values():
            found |= await _lists_of(graph, viewer, source, known, among)
        return found

    def outdated_by(self, change: SubscriptionChange, known: Collection[int] | None) -> Collection[int] | None:
        if isinstance(change, FollowChanged):
            return (change.source_id,) if known is None or _FOLLOWEES in known else None
        if isinstance(change, ListChanged):
            return _ALL if known is None or change.list_id in known else None
        return _ALL if isinstance(change, NamedFeedChanged) else None


_FOLLOWEES = named("source", "followees")


async def _lists_of(
    graph: Reader, viewer: int, source: Source, known: Collection[int], among: Collection[int] | None
) -> dict[int, int]:
    """Return the lists whose posts a source of a feed may have, as `FeedInterest._read`.

    The followees or the members of a list that the connection did not have so far count from the change of the feed on.
    """
    match source:
        case Followees():
            members = await _members_of(graph, viewer, FOLLOWS, among)
            return {_FOLLOWEES: 0} | (members if _FOLLOWEES in known else dict.fromkeys(members, 0))
        case OnList(list=text):
            list_id = int(text)
            try:
                await own_object(graph, MemberList, viewer, list_id)
            except NotFound:
                return {list_id: 0}
            members = await _members_of(graph, list_id, LISTS, among)
            return {list_id: 0} | (members if list_id in known else dict.fromkeys(members, 0))
        case WithTag(tag=tag):
            return {tag_id(tag): 0}
        case ByAuthor(author=name):
            key = user_name_key(name)
            return {user_name_id(name): 0} | dict.fromkeys((await graph.key_get((key,))).values(), 0)
        case Nearby():
            cells = cover(disk(source.latitude, source.longitude, source.radius_km))
            return dict.fromkeys(map(cell_id, cells), 0)
        case OfKind(kind=kind):
            return {index_id(kind_name(kind)): 0}
        case FromEverybody():
            return {EVERYBODY: 0}
        case _:
            return {}


class Listed(Interest, frozen=True):
    """Updates from the members of a list of the viewer."""

    list_id: int

    async def sources(self, graph: Reader, viewer: int) -> dict[int, int]:  # noqa: ARG002  # lists have one owner
        return await _members_of(graph, self.list_id, LISTS)

    def outdated_by(self, change: SubscriptionChange, known: Collection[int] | None) -> Collection[int] | None:  # noqa: ARG002  # it has one list
        return _ALL if isinstance(change, ListChanged) and change.list_id == self.list_id else None


PRESENCE = Interest()
HOME = Home()
NOTIFICATIONS = NotificationInterest()
CONVERSATIONS = ThreadInterest()

"""Subscriptions of connected viewers: the sources each one follows, and the updates that name the viewer.

The followed sources and the members of a list are read from the graph in their current state.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from shoal.core.ids import floor_at, milliseconds_of
from shoal.graph.contract import MAX_TIME, Assoc, Cursor, Reader
from shoal.graph.schema import EVERYBODY, FOLLOWS, FOLLOWS_TAG, LISTS, AssocType
from shoal.streaming.updates import (
    ConversationChanged,
    FollowChanged,
    ListChanged,
    NotificationMade,
    SubscriptionChange,
    ViewerUpdate,
)

_PAGE = 20_000
_CLOCKS_MS = 2_000
"""Maximum difference between the clocks of two machines."""


async def _members_of(graph: Reader, id1: int, atype: AssocType) -> dict[int, int]:
    """Return the sources in an association list, each with the id below which posts are older than the association."""
    found: dict[int, int] = {}
    before = MAX_TIME
    while True:
        page = await graph.assoc_range(id1, atype, Cursor(before=before, limit=_PAGE))
        found.update((assoc.id2, _since(assoc)) for assoc in page)
        if len(page) < _PAGE:
            return found
        before = page[-1].time


def _since(follow: Assoc) -> int:
    return floor_at(milliseconds_of(follow.time) - _CLOCKS_MS)


_ALL: frozenset[int] = frozenset()


class Interest(msgspec.Struct, frozen=True):
    """The kind of updates that a connected viewer receives. This base class selects no updates."""

    def matches(self, update: ViewerUpdate) -> bool:  # noqa: ARG002  # subclasses use it
        """Return whether a viewer gets an update that names them, even if they follow none of its sources."""
        return False

    async def sources(self, graph: Reader, viewer: int) -> dict[int, int]:  # noqa: ARG002  # the same
        """Return the sources that the viewer follows, each with the id below which posts are older than the follow."""
        return {}

    async def which_of(self, graph: Reader, viewer: int, sources: Collection[int]) -> dict[int, int]:
        found = await self.sources(graph, viewer)
        return {source: since for source, since in found.items() if source in sources}

    def outdated_by(self, change: SubscriptionChange) -> Collection[int] | None:  # noqa: ARG002  # the same
        """Return the sources to read again after a change that concerns the viewer.

        An empty collection means all sources, and None means no source.
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

    def outdated_by(self, change: SubscriptionChange) -> Collection[int] | None:
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


class Listed(Interest, frozen=True):
    """Updates from the members of a list of the viewer."""

    list_id: int

    async def sources(self, graph: Reader, viewer: int) -> dict[int, int]:  # noqa: ARG002  # lists have one owner
        return await _members_of(graph, self.list_id, LISTS)

    def outdated_by(self, change: SubscriptionChange) -> Collection[int] | None:
        return _ALL if isinstance(change, ListChanged) and change.list_id == self.list_id else None


PRESENCE = Interest()
HOME = Home()
NOTIFICATIONS = NotificationInterest()
CONVERSATIONS = ThreadInterest()

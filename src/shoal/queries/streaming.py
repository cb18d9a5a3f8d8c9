"""Live timelines: entries that arrive, change or leave in a viewer's timeline, as the viewer may see them at that moment.

A stream starts now or after a given position. A viewer who may have missed updates reads the timeline again. An edit is sent to
viewers who follow the author or a tag of the post; a viewer who received it as a share sees the edit on the next read. Entries
are read and checked against the viewer's subscription when an update is delivered.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

import msgspec

from shoal.core.errors import NotFound
from shoal.core.model import Visibility
from shoal.core.visibility import Relation, may_list_publicly
from shoal.graph.access import relations
from shoal.graph.cache.coherence import another_request
from shoal.graph.schema import tag_id
from shoal.queries import home, lists
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, hydrate
from shoal.streaming.contract import Position
from shoal.streaming.hub import Connection, Hub, Missed, PlacedUpdate
from shoal.streaming.subscriptions import HOME, Everybody, Home, Interest, Listed, TagInterest
from shoal.streaming.updates import (
    ConversationChanged,
    NotificationMade,
    OfEntry,
    OfMember,
    PostDeleted,
    PostEdited,
    PostHidden,
    PostNarrowed,
    ShareDeleted,
)


async def among(reads: Reads, viewer: int, interest: Interest, ids: Sequence[int]) -> list[Entry]:
    """Return the entries among `ids` that the viewer may see and that are now in the timeline described by `interest`."""
    if not ids:
        return []
    if isinstance(interest, Home):
        return await home.among(reads, viewer, ids)
    if isinstance(interest, Listed):
        return await _of_list(reads, viewer, interest.list_id, ids)
    return [entry for entry in await hydrate(reads.graph, viewer, ids) if _public(viewer, entry, interest)]


async def _of_list(reads: Reads, viewer: int, list_id: int, ids: Sequence[int]) -> list[Entry]:
    try:
        return await lists.among(reads, viewer, list_id, ids)
    except NotFound:
        # The list was deleted.
        return []


def _public(viewer: int, entry: Entry, interest: Interest) -> bool:
    post = entry.post
    if entry.share is not None or post.visibility is not Visibility.PUBLIC:
        return False
    if not may_list_publicly(viewer, post, entry.author.member, entry.relation):
        return False
    if isinstance(interest, TagInterest):
        return interest.tag_id in map(tag_id, post.tags)
    return isinstance(interest, Everybody) and post.published and bool(entry.media or not interest.only_media)


_GOING = (PostDeleted, PostHidden, ShareDeleted)


class _News(msgspec.Struct, frozen=True):
    """Base class of updates in a live stream. A stream that resumes after `position` continues with the next update."""

    position: str


class Arrived(_News, frozen=True):
    """An entry was added to the viewer's timeline."""

    entry: Entry


class Edited(_News, frozen=True):
    """A post in the viewer's timeline was edited, or its audience was narrowed and still includes the viewer."""

    entry: Entry


class Removed(_News, frozen=True):
    """The entry with this id is no longer in the viewer's timeline, or never was."""

    id: int


class Refresh(_News, frozen=True):
    """Updates may have been missed: the client must read the timeline again."""


class Notified(_News, frozen=True):
    """The viewer has a new notification; `time` identifies it."""

    time: int


class Conversed(_News, frozen=True):
    """A conversation of the viewer changed."""

    root_id: int


class Refiltered(_News, frozen=True):
    """The viewer's filters changed."""


News = Arrived | Edited | Removed | Refresh
OfViewer = Notified | Conversed | Refiltered


async def news(reads: Reads, hub: Hub, viewer: int, after: str | None = None) -> AsyncGenerator[News, None]:
    """Yield the updates of the viewer's home timeline, from now on or since `after`, the `position` of an earlier update.

    Ends when the hub closes, or the viewer is suspended. Updates may be repeated, and may be reordered after quick successive
    actions: each reflects the state when it is read. Raises `Unavailable`.
    """
    async with aclosing(everything(reads, hub, viewer, HOME, after)) as stream:
        async for update in stream:
            if isinstance(update, News):
                yield update


async def everything(
    reads: Reads, hub: Hub, viewer: int, to: Interest, after: str | None = None
) -> AsyncGenerator[News | OfViewer, None]:
    """Yield the updates of the timeline described by `to`, and of the viewer's notifications, conversations and filters.

    Updates may be repeated or reordered. Ends when the hub closes, or the viewer is suspended. Raises `Unavailable`.
    """
    async with hub.connect(viewer, None if after is None else Position(after), to=to) as connection:
        while received := await connection.take():
            for update in await updates_for_viewer(reads, connection, received):
                yield update


async def updates_for_viewer(
    reads: Reads, connection: Connection, received: Sequence[PlacedUpdate | Missed]
) -> list[News | OfViewer]:
    """Convert the updates in `received` to the updates for the viewer. All of them together take as many reads as one."""
    viewer, interest = connection.viewer, connection.interest
    updates = [
        event.update for event in received if isinstance(event, PlacedUpdate) and isinstance(event.update, OfEntry)
    ]
    shown = [update.entry_id for update in updates if not isinstance(update, PostDeleted | ShareDeleted)]
    with another_request():
        found = await among(reads, viewer, interest, list(dict.fromkeys(shown)))
        entries = {entry.id: entry for entry in found}
        gone = {update.author_id for update in updates if update.entry_id not in entries}
        relationships = await relations(reads.graph, viewer, gone)
    made: list[News | OfViewer | None] = []
    for event in received:
        if isinstance(event, Missed):
            made.append(Refresh(event.position))
        elif isinstance(event.update, OfMember):
            made.append(_of_viewer(event.position, event.update))
        else:
            made.append(_one(event.position, event.update, entries, relationships, interest))
    return [event for event in made if event is not None]


def _of_viewer(position: Position, update: OfMember) -> OfViewer:
    if isinstance(update, NotificationMade):
        return Notified(position, update.time)
    return Conversed(position, update.root_id) if isinstance(update, ConversationChanged) else Refiltered(position)


def _one(
    position: Position,
    update: OfEntry,
    entries: Mapping[int, Entry],
    relationships: Mapping[int, Relation],
    interest: Interest,
) -> News | None:
    entry = entries.get(update.entry_id)
    if entry is None:
        relation = relationships[update.author_id]
        # Send nothing about authors hidden from the viewer, not even removals.
        hidden = relation.severed or relation.muting
        return Removed(position, update.entry_id) if _leaves(update, interest) and not hidden else None
    if isinstance(update, _GOING):
        # Send nothing: the post was hidden and this viewer may still see it, or it is visible again.
        return None
    return Edited(position, entry) if isinstance(update, PostEdited | PostNarrowed) else Arrived(position, entry)


def _leaves(update: OfEntry, interest: Interest) -> bool:
    """Return whether an update may remove an entry that the viewer had in the timeline."""
    if isinstance(update, (*_GOING, PostNarrowed)):
        return True
    if not isinstance(update, PostEdited):
        return False
    if isinstance(interest, TagInterest):
        return interest.tag_id in update.left
    return isinstance(interest, Home) and bool(update.left)

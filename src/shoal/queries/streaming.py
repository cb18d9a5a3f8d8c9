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
from shoal.core.feeds.declarations import NamedFeed
from shoal.core.model import OPEN, Visibility
from shoal.core.visibility import Relation, may_list_publicly
from shoal.graph.access import relations
from shoal.graph.cache.coherence import another_request
from shoal.graph.feed_lookup import FeedReading, may_read
from shoal.graph.schema import tag_id
from shoal.queries import home, lists
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, hydrate
from shoal.queries.named_feeds import feed as named_feeds
from shoal.streaming.connections import Connection, Missed
from shoal.streaming.contract import Position
from shoal.streaming.history import PlacedUpdate
from shoal.streaming.hub import Hub
from shoal.streaming.subscriptions import HOME, Everybody, FeedInterest, Home, Interest, Listed, TagInterest
from shoal.streaming.updates import (
    ConversationChanged,
    NamedFeedChanged,
    NotificationMade,
    OfEntry,
    OfMember,
    PostCreated,
    PostDeleted,
    PostEdited,
    PostHidden,
    PostNarrowed,
    ShareCreated,
    ShareDeleted,
)


async def among(
    reads: Reads, viewer: int, interest: Interest, ids: Sequence[int], reading: FeedReading | None = None
) -> list[Entry]:
    """Return the entries among `ids` that the viewer may see and that are now in the timeline described by `interest`.

    `reading` is the named feed of a `FeedInterest`; None if the viewer may not read it.
    """
    if not ids:
        return []
    if isinstance(interest, FeedInterest):
        return await named_feeds.among(reads, viewer, reading, ids) if reading is not None else []
    if isinstance(interest, Home):
        return await home.among(reads, viewer, ids)
    if isinstance(interest, Listed):
        return await _of_list(reads, viewer, interest.list_id, ids)
    return [entry for entry in await hydrate(reads.graph, viewer, ids) if _public(viewer, entry, interest)]


async def _reading_of(reads: Reads, connection: Connection) -> FeedReading | None:
    """Return the named feed of a connection; None if the viewer may not read it."""
    if connection.shared_feed is None:
        return None
    try:
        reading = await connection.shared_feed.read(reads.graph)
    except NotFound:
        return None
    return reading if await may_read(reads.graph, connection.viewer, reading.feed) else None


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


class Newer(_News, frozen=True):
    """A ranked feed has newer entries, or may have missed updates: the client must read it again to see them."""


class FeedChanged(_News, frozen=True):
    """The named feed was changed, or may show other posts for another reason: the client must read it again.

    If `deleted` is set, the feed was deleted, or the viewer may no longer read it. The stream ends.
    """

    feed_id: int
    deleted: bool = False


class Notified(_News, frozen=True):
    """The viewer has a new notification; `time` identifies it."""

    time: int


class Conversed(_News, frozen=True):
    """A conversation of the viewer changed."""

    root_id: int


class Refiltered(_News, frozen=True):
    """The viewer's filters changed."""


News = Arrived | Edited | Removed | Refresh | Newer | FeedChanged
OfViewer = Notified | Conversed | Refiltered


async def news(reads: Reads, hub: Hub, viewer: int, after: str | None = None) -> AsyncGenerator[News, None]:
    """Yield the updates of the viewer's home timeline, as `everything`."""
    async with aclosing(everything(reads, hub, viewer, HOME, after)) as stream:
        async for update in stream:
            if isinstance(update, News):
                yield update


async def everything(
    reads: Reads, hub: Hub, viewer: int, to: Interest, after: str | None = None
) -> AsyncGenerator[News | OfViewer, None]:
    """Yield the updates of the timeline described by `to`, and of the viewer's notifications, conversations and filters.

    The updates begin now or after `after`, the `position` of an earlier update. No update is lost, except before a `Refresh` (a
    `Newer` in a ranked feed), and except edits and deletions of older posts of sources that a change of a named feed added, until
    the hub has read the changed feed. Each reflects the state when it is read. After quick successive actions, updates may be
    reordered.

    A named feed yields each new post once, even if the feed, a list or a follow changes. The home timeline and lists may repeat
    recent posts after a follow or a change of the list. Any update may be repeated after the failure of a process.

    Ends when the hub closes, the viewer is suspended, or a named feed is no longer readable. Raises `Unavailable`, `NotFound` if it
    was not readable, and `TooManyStreams`.
    """
    async with hub.connect(viewer, None if after is None else Position(after), to=to) as connection:
        while received := await connection.take():
            for update in await updates_for_viewer(reads, connection, received):
                yield update


async def updates_for_viewer(
    reads: Reads, connection: Connection, received: Sequence[PlacedUpdate | Missed]
) -> list[News | OfViewer]:
    """Convert the updates in `received` to the updates for the viewer. All of them together take as many reads as one.

    After a `Newer`, the connection delivers no updates for the time of its `spacing`. It ends if the viewer may no longer read its
    named feed.
    """
    viewer, interest = connection.viewer, connection.interest
    last = received[-1].position
    with another_request():
        reading = await _reading_of(reads, connection)
        feed = None if reading is None else reading.feed
        if isinstance(interest, FeedInterest):
            if feed is None:
                connection.dismiss()
                return [FeedChanged(last, interest.feed_id, deleted=True)]
            received = [event for event in received if not _lacks_tag(feed, event)]
            if not received:
                return []
        updates = [
            event.update for event in received if isinstance(event, PlacedUpdate) and isinstance(event.update, OfEntry)
        ]
        shown = [update.entry_id for update in updates if not isinstance(update, PostDeleted | ShareDeleted)]
        found = await among(reads, viewer, interest, list(dict.fromkeys(shown)), reading)
        entries = {entry.id: entry for entry in found}
        # A new entry removes nothing.
        gone = {
            update.author_id
            for update in updates
            if update.entry_id not in entries and not isinstance(update, PostCreated | ShareCreated)
        }
        relationships = await relations(reads.graph, viewer, gone)
    made: list[News | OfViewer | None] = []
    for event in received:
        if isinstance(event, Missed):
            made.append(Refresh(event.position))
        elif isinstance(event.update, OfMember):
            made.append(_of_viewer(event.position, event.update))
        elif isinstance(event.update, NamedFeedChanged):
            made.append(None if feed is None else FeedChanged(event.position, feed.id))
        else:
            made.append(_one(event.position, event.update, entries, relationships, connection))
    if feed is not None and feed.declaration.ranked:
        made = [*_with_newer(connection, received, made)]
    connection.delivered = last
    return [event for event in made if event is not None]


def _lacks_tag(feed: NamedFeed, event: PlacedUpdate | Missed) -> bool:
    """Return whether an update is on a new post that lacks the tags of the feed's filter. No read is needed for such a post.

    A tag that an edit added since has another update.
    """
    if isinstance(event, Missed) or not isinstance(event.update, PostCreated):
        return False
    filters, lists = feed.declaration.filters, event.update.list_ids
    any_of, all_of = map(tag_id, filters.tags_any), map(tag_id, filters.tags_all)
    return (bool(filters.tags_any) and not any(tag in lists for tag in any_of)) or any(
        tag not in lists for tag in all_of
    )


def _with_newer(
    connection: Connection, received: Sequence[PlacedUpdate | Missed], made: Sequence[News | OfViewer | None]
) -> list[News | OfViewer]:
    """Return the events of a ranked feed, with one `Newer` instead of new entries.

    Its position is before all other new entries, so that a stream that resumes after any of the events reports them. An edit may
    have made a post a new entry: the `Newer` before it has the position of the previous update.
    """
    events: list[News | OfViewer] = []
    reported, previous = False, connection.delivered
    for source, event in zip(received, made, strict=True):
        edited = isinstance(source, PlacedUpdate) and isinstance(source.update, PostEdited) and source.update.content
        new = isinstance(event, Arrived | Refresh)
        if not reported and (new or (edited and isinstance(event, Edited))):
            reported = True
            events.append(Newer(source.position if new else previous))
        if event is not None and not new:
            events.append(event)
        previous = source.position
    if reported:
        connection.throttle()
    return events


def _of_viewer(position: Position, update: OfMember) -> OfViewer:
    if isinstance(update, NotificationMade):
        return Notified(position, update.time)
    return Conversed(position, update.root_id) if isinstance(update, ConversationChanged) else Refiltered(position)


def _one(
    position: Position,
    update: OfEntry,
    entries: Mapping[int, Entry],
    relationships: Mapping[int, Relation],
    connection: Connection,
) -> News | None:
    interest = connection.interest
    entry = entries.get(update.entry_id)
    if entry is None:
        relation = relationships.get(update.author_id)
        if relation is None:
            return None
        # Send nothing about authors hidden from the viewer, not even removals.
        hidden = relation.severed or relation.muting
        if isinstance(interest, FeedInterest):
            mentioned = not isinstance(update, ShareCreated | ShareDeleted) and connection.viewer in update.mention_ids
            had = relation.following or mentioned or update.author_id == connection.viewer
            return Removed(position, update.entry_id) if _leaves_feed(update, had=had) and not hidden else None
        return Removed(position, update.entry_id) if _leaves(update, interest) and not hidden else None
    if isinstance(update, _GOING):
        # Send nothing: the post was hidden and this viewer may still see it, or it is visible again.
        return None
    return Edited(position, entry) if isinstance(update, PostEdited | PostNarrowed) else Arrived(position, entry)


def _leaves_feed(update: OfEntry, *, had: bool) -> bool:
    """Return whether an update may remove an entry that the viewer had in a named feed.

    `had` is whether the viewer could see a post with a restricted audience, as its author, as a follower or because it mentions
    the viewer. Others must not learn that there is one.
    """
    if isinstance(update, ShareCreated | ShareDeleted) or not (had or update.visibility in OPEN):
        return False
    # An edit may have changed any value of a filter.
    return update.content if isinstance(update, PostEdited) else not isinstance(update, PostCreated)


def _leaves(update: OfEntry, interest: Interest) -> bool:
    """Return whether an update may remove an entry that the viewer had in the timeline."""
    if isinstance(update, (*_GOING, PostNarrowed)):
        return True
    if not isinstance(update, PostEdited):
        return False
    if isinstance(interest, TagInterest):
        return interest.tag_id in update.left
    return isinstance(interest, Home) and bool(update.left)

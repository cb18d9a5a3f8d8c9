"""Events: the entries of the event log as CloudEvents 1.0, with the current state of the objects that they name.

An event shows what its reader may see when it is read. Without further rights, that is what an anonymous visitor may see, and the
ids in likes, reactions, shares and follows. The update by which an object leaves the reader's audience becomes an event of its
deletion, so that a consumer removes its copy. A post that was never public has no events for a reader of public data.

Objects are read from the stores, without the cache, so they are at least as new as the entry.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import structs

from shoal.core.credentials import Login
from shoal.core.errors import InvalidInput, NotAllowed
from shoal.core.model import HIDDEN_BY_MODERATION, OPEN, Media, Member, Node, Poll, Post, Report, Share
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.contract import Cursor, LogCursor, LogEntry, Reader, Store
from shoal.graph.event_log import EventLog, LogKind, former_visibility
from shoal.graph.payloads.members import decode_entry
from shoal.graph.payloads.posts import chosen_of
from shoal.graph.schema import ATTACHED, AUDITED, REACTS
from shoal.queries.event_data import (
    AuditData,
    EventData,
    FollowData,
    LikeData,
    MediaData,
    MemberData,
    PostData,
    ReactionData,
    RemovedData,
    ReportData,
    ShareData,
    audit_data,
    media_data,
    member_data,
    moment,
    post_data,
    removed_data,
    report_data,
    share_data,
)

MAX_EVENTS = 200
"""Maximum events of a page."""
_USUAL_EVENTS = 100
POLL_SECONDS = 1.0
_MOST_READS = 20
"""Maximum reads of the log for a page that a filter leaves empty."""
_MOST_POSTS = 20
"""Number of posts with a file among which a visible one is looked for, newest first."""
START, END = "start", "end"


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The attributes of an event in CloudEvents 1.0. `version` is an extension."""

    specversion: str
    """`1.0`, the version of CloudEvents."""
    id: str
    """Equal in every delivery of this event, and unique in its `source`."""
    source: str
    """The root URL of the network."""
    type: str
    """Such as `post.created`."""
    subject: str
    """What the event is about, such as `post/123`, or `like/1/2` for an association of two objects."""
    time: str
    """When the change was committed."""
    datacontenttype: str
    dataschema: str
    """The URL of the JSON Schema of `data`."""
    version: str
    """An integer that grows with each change of the subject. Ignore an event with a lower one than an earlier event about it."""


class Event(CloudEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A change, as an event."""

    data: EventData
    """The current state of the subject; its id if it was deleted."""
    position: str = ""
    """The cursor from which to continue; only in the library and on the command line."""


class Access(NamedTuple):
    """What a reader may see in addition to public data."""

    private: bool = False
    """Posts and shares of every visibility, uploads before their post, and the follows of members who hide them."""
    accounts: bool = False
    """E-mail addresses, and suspended and pending members."""
    reports: bool = False
    audit: bool = False


PUBLIC: Final = Access()
FULL: Final = Access(private=True, accounts=True, reports=True, audit=True)


class EventType(NamedTuple):
    data: type[msgspec.Struct]
    needs: str = ""
    """The scope that a server key needs in addition; empty for none."""


_DATA: Final[Mapping[str, type[msgspec.Struct]]] = {
    "member": MemberData,
    "post": PostData,
    "share": ShareData,
    "media": MediaData,
    "report": ReportData,
    "follow": FollowData,
    "like": LikeData,
    "reaction": ReactionData,
    "audit": AuditData,
}
"""The data of events by noun, the part of a type before the dot."""
_OBJECTS: Final = ("member", "post", "share", "media", "report")
"""Nouns of objects, which have one id. Their deletion has `RemovedData`."""
_NEEDS: Final = {"report": "admin:read:reports", "audit": "admin:read"}


def _type_of(label: str) -> EventType:
    noun, change = label.split(".")
    return EventType(RemovedData if change == "deleted" and noun in _OBJECTS else _DATA[noun], _NEEDS.get(noun, ""))


TYPES: Final[Mapping[str, EventType]] = {
    kind.label: _type_of(kind.label) for kind in LogKind if kind is not LogKind.MOVED
}
"""All types of events by name."""


def types_of(text: str, access: Access) -> frozenset[str]:
    """Return the types in a list separated by commas, where `post` means all types of posts. An empty list is all types.

    Raises `InvalidInput` for an unknown type, and `NotAllowed` for a type that the reader may not see.
    """
    chosen: set[str] = set()
    for part in filter(None, map(str.strip, text.split(","))):
        noun = part.partition(".")[0]
        found = [name for name in TYPES if part in (name, name.partition(".")[0])]
        if not found:
            raise InvalidInput(f"types: {part[:80]!r} is not one of {', '.join(TYPES)}", field="types")
        if (noun == "report" and not access.reports) or (noun == "audit" and not access.audit):
            raise NotAllowed(f"types: {part} needs the scope {_NEEDS[noun]}")
        chosen.update(found)
    return frozenset(chosen or TYPES)


class EventPage(NamedTuple):
    """Events in the order of delivery. Continue at `position`: at once if there are `more`, otherwise after a while."""

    events: Sequence[Event]
    start: str
    """The position before the events."""
    position: str
    more: bool

    def positioned(self) -> list[Event]:
        """Return the events, each with the position from which a reader continues without missing one."""
        before = [structs.replace(event, position=self.start) for event in self.events[:-1]]
        return before + [structs.replace(event, position=self.position) for event in self.events[-1:]]


class EventReader:
    """Reads the events of a network, whose root URL is `source`.

    `types` are those of `types_of`. `after` is a position, `START` for the oldest stored entry, or `END` for now.
    """

    def __init__(self, store: Store, source: str) -> None:
        self._log = EventLog(store)
        self._graph: Reader = store.uncached() if isinstance(store, CachedGraph) else store
        self._source = source

    async def read(self, after: str, types: str = "", access: Access = PUBLIC, limit: int = _USUAL_EVENTS) -> EventPage:
        """Return a page of events. It may be empty although there are `more`.

        Raises:
            CursorTooOld: Entries after the position are missing.
            InvalidInput: The network keeps no event log, or a parameter is invalid.
            NotAllowed: The reader may not see one of the types.
        """
        if not 1 <= limit <= MAX_EVENTS:
            raise InvalidInput(f"limit: 1 to {MAX_EVENTS} events (got {limit})", field="limit")
        chosen = types_of(types, access)
        cursor: LogCursor | None = None
        if after == END:
            cursor = await self._log.end()
        elif after != START:
            cursor = LogCursor.decode(after)
        start = START if cursor is None else cursor.encode()
        reads = 0
        while True:
            page = await self._log.read(cursor, limit)
            cursor = page.cursor
            entries = [entry for entry in page.entries if _may_become(entry, chosen)]
            events = await self._events(entries, chosen, access) if entries else []
            reads += 1
            if events or not page.more or reads == _MOST_READS:
                return EventPage(events, start, cursor.encode(), page.more)

    async def pages(
        self, after: str, types: str, access: Access, limit: int, pause: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[EventPage, None]:
        """Yield pages, some of them empty. At the end of the log, await `pause`, and stop if it returns False."""
        while True:
            page = await self.read(after, types, access, limit)
            yield page
            after = page.position
            if not page.more and not await pause():
                return

    async def _events(self, entries: Sequence[LogEntry], chosen: frozenset[str], access: Access) -> list[Event]:
        state = await _read_state(self._graph, entries, access)
        found = [self._event(entry, state) for entry in entries]
        return [event for event in found if event is not None and event.type in chosen]

    def _event(self, entry: LogEntry, state: _State) -> Event | None:
        noun, change = LogKind(entry.kind).label.split(".")
        shown = state.show(self._source, entry, noun, change)
        if shown is None:
            return None
        data, version = shown
        label = f"{noun}.{'deleted' if isinstance(data, RemovedData) else change}"
        ids = (entry.object,) if noun in _OBJECTS or noun == "audit" else (entry.subject, entry.object)
        return Event(
            specversion="1.0",
            id=entry.id,
            source=self._source,
            type=label,
            subject="/".join((noun, *map(str, ids))),
            time=moment(entry.at),
            datacontenttype="application/json",
            dataschema=f"{self._source}{SCHEMAS}/{label}",
            version=str(version),
            data=data,
        )


SCHEMAS: Final = "/api/shoal/v1/events/schemas"


def _may_become(entry: LogEntry, chosen: frozenset[str]) -> bool:
    """Return whether the event of an entry may be of a chosen type. An update becomes a deletion if the object is withdrawn."""
    try:
        label = LogKind(entry.kind).label
    except ValueError:
        # A newer Shoal wrote this entry.
        return False
    return label in chosen or (label.endswith(".updated") and label.replace("updated", "deleted") in chosen)


def _was_shown(node: Node) -> bool:
    """Return whether an earlier version of an object that is hidden now may have been visible."""
    return isinstance(node, Post | Share) or (isinstance(node, Member) and not node.pending)


class _State(NamedTuple):
    """The current state of everything that some entries name."""

    access: Access
    nodes: Mapping[int, Node]
    attached: Mapping[int, Sequence[int]]
    """Ids of the posts with a file, by the file."""
    emoji: Mapping[tuple[int, int], list[str]]
    """Emoji by member and post."""
    audit: Mapping[int, AuditData]

    def show(self, source: str, entry: LogEntry, noun: str, change: str) -> tuple[EventData, int] | None:
        """Return the data and version of the event of an entry; None if the reader may not see it, or its object is gone.

        A reader without private access is told once that a post or share left its audience: by the update that narrowed it.
        """
        if noun not in _OBJECTS:
            data = self.audit.get(entry.object) if noun == "audit" else self._association(entry, noun, change)
            return None if data is None else (data, entry.version)
        former = former_visibility(entry)
        if not self.access.private and former is not None and former not in OPEN:
            return None
        if change == "deleted":
            allowed = {"media": self.access.private, "report": self.access.reports}.get(noun, True)
            return (removed_data(entry.object, withdrawn=False), entry.version) if allowed else None
        node = self.nodes.get(entry.object)
        if node is None:
            # If it was narrowed before it was deleted, the event of the deletion is for the narrower audience only.
            is_known = former is not None and not self.access.private
            return (removed_data(entry.object, withdrawn=False), entry.version) if is_known else None
        shown = self._object(source, node)
        if shown is None and change == "updated" and _was_shown(node):
            shown = removed_data(node.id, withdrawn=True)
        return None if shown is None else (shown, max(node.version, entry.version))

    def _object(self, source: str, node: Node) -> EventData | None:
        if isinstance(node, Member):
            return self._member(source, node)
        if isinstance(node, Post):
            return self._post(source, node)
        if isinstance(node, Share):
            return self._share(node)
        if isinstance(node, Media):
            return media_data(source, node) if self._shows_media(node) else None
        return report_data(node) if isinstance(node, Report) and self.access.reports else None

    def _association(self, entry: LogEntry, noun: str, change: str) -> EventData | None:
        subject, target = str(entry.subject), str(entry.object)
        if noun == "follow":
            ends = (self.nodes.get(entry.subject), self.nodes.get(entry.object))
            is_hidden = any(not isinstance(end, Member) or end.hides_connections for end in ends)
            is_allowed = self.access.private or not is_hidden
            return FollowData(follower_id=subject, followee_id=target) if is_allowed else None
        post = self.nodes.get(entry.object)
        if not isinstance(post, Post) or not self._may_know(post):
            return None
        if noun == "like":
            return LikeData(member_id=subject, post_id=target)
        emoji = [] if change == "deleted" else self.emoji.get((entry.subject, entry.object), [])
        return ReactionData(member_id=subject, post_id=target, emoji=emoji) if emoji or change == "deleted" else None

    def _may_know(self, node: Post | Share) -> bool:
        """Return whether the reader is in the audience. Moderation may hide the content nevertheless."""
        return self.access.private or node.visibility in OPEN

    def _shows(self, post: Post) -> bool:
        author = self.nodes.get(post.author_id)
        moderated = bool(post.hidden & HIDDEN_BY_MODERATION) or not isinstance(author, Member) or author.suspended
        return self._may_know(post) and not moderated

    def _shows_media(self, media: Media) -> bool:
        if self.access.private:
            return True
        posts = (self.nodes.get(id_) for id_ in self.attached.get(media.id, ()))
        return any(isinstance(post, Post) and media.id in post.media and self._shows(post) for post in posts)

    def _member(self, source: str, member: Member) -> MemberData | None:
        extras: dict[str, Any] = {}
        if self.access.accounts:
            login = self.nodes.get(member.login_id)
            email = login.email if isinstance(login, Login) else ""
            extras = {"email": email, "suspended": member.suspended, "pending": member.pending}
        elif member.suspended:
            return None
        return member_data(source, member, **extras)

    def _post(self, source: str, post: Post) -> PostData | None:
        author = self.nodes.get(post.author_id)
        if not self._shows(post) or not isinstance(author, Member):
            return None
        files = [file for file in map(self.nodes.get, post.media) if isinstance(file, Media)]
        poll = self.nodes.get(post.poll_id)
        return post_data(source, post, author, files, poll if isinstance(poll, Poll) else None)

    def _share(self, share: Share) -> ShareData | None:
        post = self.nodes.get(share.post_id)
        if not (isinstance(post, Post) and self._may_know(post) and self._may_know(share)):
            return None
        return share_data(share)


async def _read_state(graph: Reader, entries: Iterable[LogEntry], access: Access) -> _State:
    """Read what the entries name: first the objects and associations, then what these objects name."""
    ids: set[int] = set()
    media: set[int] = set()
    reactions: defaultdict[int, set[int]] = defaultdict(set)
    audits: defaultdict[int, set[int]] = defaultdict(set)
    for entry in entries:
        noun, change = LogKind(entry.kind).label.split(".")
        if noun == "audit":
            audits[entry.subject].add(entry.object)
        elif noun not in _OBJECTS or change != "deleted":
            ids.update((entry.subject, entry.object))
            if noun == "media":
                media.add(entry.object)
            elif noun == "reaction":
                reactions[entry.subject].add(entry.object)
    nodes: dict[int, Node]
    nodes, posts_by_media, emoji, audit = await asyncio.gather(
        _objects(graph, ids),
        _posts_by_media(graph, media if not access.private else ()),
        _emoji(graph, reactions),
        _audit(graph, audits if access.audit else {}),
    )
    more: set[int] = {id_ for posts in posts_by_media.values() for id_ in posts}
    for node in nodes.values():
        if isinstance(node, Post):
            more.update((*node.media, node.poll_id))
        elif isinstance(node, Share):
            more.add(node.post_id)
        elif isinstance(node, Member) and access.accounts:
            more.add(node.login_id)
    nodes |= await _objects(graph, more - nodes.keys() - {0})
    return _State(access, nodes, posts_by_media, emoji, audit)


async def _objects(graph: Reader, ids: Iterable[int]) -> dict[int, Node]:
    needed = tuple(ids)
    return dict(await graph.obj_get(needed)) if needed else {}


async def _posts_by_media(graph: Reader, media: Iterable[int]) -> dict[int, list[int]]:
    needed = tuple(media)
    found = await graph.assoc_ranges(needed, ATTACHED, Cursor(limit=_MOST_POSTS)) if needed else {}
    return {id_: [assoc.id2 for assoc in listed] for id_, listed in found.items()}


async def _emoji(graph: Reader, posts: Mapping[int, set[int]]) -> dict[tuple[int, int], list[str]]:
    members = list(posts)
    found = await asyncio.gather(*(graph.assoc_get(member, (REACTS,), list(posts[member])) for member in members))
    return {
        (member, post): [position.emoji for position in chosen_of(assoc)]
        for member, answer in zip(members, found, strict=True)
        for post, assoc in answer[REACTS].items()
    }


async def _audit(graph: Reader, ids: Mapping[int, set[int]]) -> dict[int, AuditData]:
    found = await asyncio.gather(*(graph.assoc_get(list_, (AUDITED,), list(of)) for list_, of in ids.items()))
    listed = (item for answer in found for item in answer[AUDITED].items())
    return {id_: audit_data(id_, decode_entry(assoc)) for id_, assoc in listed}

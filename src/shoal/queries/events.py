"""Events: the entries of the event log as CloudEvents 1.0, with the current state of the objects that they name.

An event shows what its reader may see when it is read. Without further rights, that is what an anonymous visitor may see, and the
ids in likes, reactions, shares and follows. The update by which an object leaves the reader's audience becomes an event of its
deletion, so that a consumer removes its copy. A post that was never public has no events for a reader of public data.

Objects are read from the stores, without the cache, so they are at least as new as the entry.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import structs

from shoal.core.credentials import Login
from shoal.core.errors import InvalidInput, NotAllowed, Unavailable
from shoal.core.ids import milliseconds_of, now_ms
from shoal.core.model import HIDDEN_BY_MODERATION, OPEN, Media, Member, Node, Poll, Post, Report, Share
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.contract import Assoc, Cursor, LogCursor, LogEntry, Reader, Store
from shoal.graph.event_log import OBJECTS, EventLog, LogKind, LogPage, former_visibility
from shoal.graph.payloads.follows import follow_terms
from shoal.graph.payloads.members import decode_entry
from shoal.graph.payloads.posts import chosen_of
from shoal.graph.schema import (
    AUDITED,
    FOLLOWED_BY,
    FOLLOWS,
    LIKES,
    POSTED,
    POSTED_RESTRICTED,
    POSTED_TO_FOLLOWERS,
    REACTS,
    AssocType,
)
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
MAX_BYTES = 1 << 20
"""Maximum bytes of a page of several events in JSON. The data of a post alone may take 64 KiB."""
_READ_AT_ONCE = 50
"""Number of entries whose objects are read together."""
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
    """Posts and shares of every visibility, uploads, and the follows of members who hide them."""
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
_NEEDS: Final = {"media": "server:private", "report": "admin:read:reports", "audit": "admin:read"}


def _type_of(label: str) -> EventType:
    noun, change = label.split(".")
    return EventType(RemovedData if change == "deleted" and noun in _OBJECTS else _DATA[noun], _NEEDS.get(noun, ""))


TYPES: Final[Mapping[str, EventType]] = {
    kind.label: _type_of(kind.label) for kind in LogKind if kind is not LogKind.MOVED
}
"""All types of events by name."""


def types_of(text: str, access: Access) -> frozenset[str]:
    """Return the types in a list separated by commas, where `post` means all types of posts. An empty list is all that may be seen.

    Raises `InvalidInput` for an unknown type, and `NotAllowed` for a type that the reader may not see.
    """
    allowed = {"media": access.private, "report": access.reports, "audit": access.audit}
    chosen: set[str] = set()
    for part in filter(None, map(str.strip, text.split(","))):
        noun = part.partition(".")[0]
        found = [name for name in TYPES if part in (name, name.partition(".")[0])]
        if not found:
            raise InvalidInput(f"types: {part[:80]!r} is not one of {', '.join(TYPES)}", field="types")
        if not allowed.get(noun, True):
            raise NotAllowed(f"types: {part} needs the scope {_NEEDS[noun]}")
        chosen.update(found)
    return frozenset(chosen or (name for name in TYPES if allowed.get(name.partition(".")[0], True)))


class EventPage(NamedTuple):
    """Events in the order of delivery. Continue at `position`: at once if there are `more`, otherwise after a while."""

    events: Sequence[Event]
    entries: Sequence[LogEntry]
    """The entry of each event in the event log, with which `rebuild` makes the event again."""
    start: str
    """The position before the events."""
    position: str
    more: bool
    log: LogPage
    """The same position, with entries that were read but are not in the page."""

    def positioned(self) -> list[Event]:
        """Return the events, each with the position from which a reader continues without missing one."""
        before = [structs.replace(event, position=self.start) for event in self.events[:-1]]
        return before + [structs.replace(event, position=self.position) for event in self.events[-1:]]


_LISTS: Final = (FOLLOWS, LIKES, REACTS)
"""The associations of each member that are part of the state of a network."""
_OWN_LISTS: Final = (FOLLOWS, FOLLOWED_BY, POSTED, POSTED_TO_FOLLOWERS, POSTED_RESTRICTED)
"""What a consumer may lack about a member who became visible again."""
_LEAST_LISTED: Final = 10
_MOST_POSTED: Final = 16
"""Maximum posts of one member in a page: the data of a post alone may take 64 KiB."""


class StatePage(NamedTuple):
    """A part of the current state, as events of creations. Continue at `next`; None at the end."""

    events: Sequence[Event]
    next: str | None


class _StatePlace(NamedTuple):
    """A place in the state: after an object, or in list number `number` of a member (0: none) before a time."""

    id: int = 0
    number: int = 0
    before: int = 0

    @classmethod
    def decode(cls, text: str) -> _StatePlace:
        parts = text.split(".") if text else ["0"] * 3
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
            raise InvalidInput(f"after: {text[:80]!r} is not the `next` of a page", field="after")
        return cls(*map(int, parts))

    def encode(self) -> str:
        return ".".join(map(str, self))

    def past(self, lists: Sequence[AssocType], rows: Sequence[Assoc], limit: int) -> _StatePlace:
        """Return the place after these rows of the list, of which there are more if they reach the limit."""
        if len(rows) >= limit:
            return self._replace(before=rows[-1].time)
        return _StatePlace(self.id, self.number + 1) if self.number < len(lists) else _StatePlace(self.id)


class EventReader:
    """Reads the events of a network, whose root URL is `source`.

    `types` are those of `types_of`. `after` is a position, `START` for the oldest stored entry, or `END` for now. At most `at_once`
    reads run concurrently, because they use the connections of other requests; others wait up to `patience` seconds.

    A store may apply the changes of a commit one after the other. So a page ends before an entry whose object is older than the
    entry, for up to `apply_seconds` after the commit.
    """

    def __init__(
        self, store: Store, source: str, *, at_once: int = 4, patience: float = 20.0, apply_seconds: float = 60.0
    ) -> None:
        self._store = store
        self._log = EventLog(store)
        self._graph: Reader = store.uncached() if isinstance(store, CachedGraph) else store
        self._source = source
        self._slots = asyncio.Semaphore(at_once)
        self._patience = patience
        self._apply_seconds = apply_seconds

    async def position(self, after: str, types: str = "", access: Access = PUBLIC) -> str:
        """Return a position as a cursor, also for `START` and `END`. Raises like `read`."""
        types_of(types, access)
        async with self._slot():
            return (await self._log.read(await self._cursor(after), 1)).first(0).cursor.encode()

    async def read(
        self,
        after: str | LogPage,
        types: str = "",
        access: Access = PUBLIC,
        limit: int = _USUAL_EVENTS,
        selects: Callable[[Event], bool] = lambda _: True,
    ) -> EventPage:
        """Return a page of the events that `selects` accepts, after a position or the `log` of a page.

        It may be empty although there are `more`.

        Raises:
            CursorTooOld: Entries after the position are missing.
            InvalidInput: The network keeps no event log, or a parameter is invalid.
            NotAllowed: The reader may not see one of the types.
            Unavailable: Too many reads run already.
        """
        if not 1 <= limit <= MAX_EVENTS:
            raise InvalidInput(f"limit: 1 to {MAX_EVENTS} events (got {limit})", field="limit")
        chosen = types_of(types, access)
        cursor: LogCursor | LogPage | None = None
        start, reads = "", 0
        while True:
            # Other readers have their turn after each read.
            async with self._slot():
                if not reads:
                    cursor = await self._cursor(after) if isinstance(after, str) else after
                page = await self._log.read(cursor, limit)
                start = start or page.first(0).cursor.encode()
                events, page = await self._events(page, chosen, access, selects)
                reads += 1
                if events or not page.more or reads == _MOST_READS:
                    return EventPage(
                        [event for _, event in events],
                        [entry for entry, _ in events],
                        start,
                        page.cursor.encode(),
                        page.more,
                        page,
                    )
                cursor = page

    async def state(
        self, after: str = "", access: Access = PUBLIC, limit: int = _USUAL_EVENTS, member_id: int = 0
    ) -> StatePage:
        """Return a page of what the reader may see now, as events: objects in the order of their ids, with members' associations.

        It has up to `limit` objects and about as many associations of each kind. With `member_id`, the state is that member with
        their follows, followers, posts and shares. Take a position of the log first: events after it complete the state.

        Raises `InvalidInput` for an invalid parameter, and `Unavailable`.
        """
        if not 1 <= limit <= MAX_EVENTS:
            raise InvalidInput(f"limit: 1 to {MAX_EVENTS} objects (got {limit})", field="limit")
        place = _StatePlace.decode(after)
        lists = _OWN_LISTS if member_id else _LISTS
        if place.number > len(lists) or (member_id and place.id not in (0, member_id)):
            raise InvalidInput("after: is not the `next` of a page of this state", field="after")
        async with self._slot():
            if place.number:
                return await self._state_of_list(place, lists, access, limit, alone=bool(member_id))
            if member_id:
                found = await self._graph.obj_get([member_id])
                shown = await self._shown(list(found.values()), (), access)
                return StatePage(shown, _StatePlace(member_id, 1).encode() if shown else None)
            return await self._state_of_objects(place, access, limit)

    async def _state_of_list(
        self, place: _StatePlace, lists: Sequence[AssocType], access: Access, limit: int, *, alone: bool
    ) -> StatePage:
        atype = lists[place.number - 1]
        is_posted = atype in (POSTED, POSTED_TO_FOLLOWERS, POSTED_RESTRICTED)
        limit = min(limit, _MOST_POSTED) if is_posted else limit
        at = Cursor(before=place.before, limit=limit) if place.before else Cursor(limit=limit)
        rows = await self._graph.assoc_range(place.id, atype, at)
        if is_posted:
            nodes = list((await _objects(self._graph, [row.id2 for row in rows])).values())
            events = await self._shown(nodes, (), access)
        else:
            events = await self._shown((), [(place.id, atype, row) for row in rows], access)
        after = place.past(lists, rows, limit)
        return StatePage(events, None if alone and not after.number else after.encode())

    async def _state_of_objects(self, place: _StatePlace, access: Access, limit: int) -> StatePage:
        nodes = _fitting(await self._store.obj_scan(place.id, limit))
        members = [node.id for node in nodes if isinstance(node, Member)]
        most = max(_LEAST_LISTED, limit // max(1, len(members)))
        at = Cursor(limit=most)
        found = await asyncio.gather(*(self._graph.assoc_ranges(members, atype, at) for atype in _LISTS if members))
        rows: list[tuple[int, AssocType, Assoc]] = []
        for count, node in enumerate(nodes, 1):
            for number, (atype, listed) in enumerate(zip(_LISTS, found, strict=False), 1):
                rows += [(node.id, atype, row) for row in listed.get(node.id, ())]
                if len(listed.get(node.id, ())) == most:
                    after = _StatePlace(node.id, number).past(_LISTS, listed[node.id], most)
                    return StatePage(await self._shown(nodes[:count], rows, access), after.encode())
        events = await self._shown(nodes, rows, access)
        return StatePage(events, _StatePlace(nodes[-1].id).encode() if nodes else None)

    async def _shown(
        self, nodes: Sequence[Node], rows: Sequence[tuple[int, AssocType, Assoc]], access: Access
    ) -> list[Event]:
        """Return objects and associations as events of their creation, without events that the reader may not see."""
        entries = [
            LogEntry(0, (), _began(node), OBJECTS[type(node)].tens + 1, _subject(node), node.id, 0, node.version)
            for node in nodes
            if isinstance(node, Member | Post | Share | Media | Report)
        ] + [_entry_of(owner, atype, row) for owner, atype, row in rows]
        events: list[Event] = []
        for begin in range(0, len(entries), _READ_AT_ONCE):
            part = entries[begin : begin + _READ_AT_ONCE]
            state = await _read_state(self._graph, part, access)
            events += [event for entry in part if (event := self._event(entry, state)) is not None]
        return [structs.replace(event, id=f"state/{event.subject}/{event.version}") for event in events]

    async def _cursor(self, after: str) -> LogCursor | None:
        if after == END:
            return await self._log.end()
        return None if after == START else LogCursor.decode(after)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._patience):
                await self._slots.acquire()
        except TimeoutError as error:
            raise Unavailable("The event log has too many readers; try again later") from error
        try:
            yield
        finally:
            self._slots.release()

    async def pages(
        self, after: str, types: str, access: Access, limit: int, pause: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[EventPage, None]:
        """Yield pages, some of them empty. At the end of the log, await `pause`, and stop if it returns False."""
        at: str | LogPage = after
        while True:
            page = await self.read(at, types, access, limit)
            yield page
            at = page.log
            if not page.more and not await pause():
                return

    async def rebuild(
        self, entry: LogEntry, types: str, access: Access, selects: Callable[[Event], bool] = lambda _: True
    ) -> Event | None:
        """Return the event of an entry again, with the current state; None if the reader may not see it or `selects` refuses it."""
        async with self._slot():
            event = self._event(entry, await _read_state(self._graph, [entry], access))
        return event if event and event.type in types_of(types, access) and selects(event) else None

    async def _events(
        self, page: LogPage, chosen: frozenset[str], access: Access, selects: Callable[[Event], bool]
    ) -> tuple[list[tuple[LogEntry, Event]], LogPage]:
        """Return the events of a page with their entries, and the part of the page that they cover."""
        numbered = [(number, entry) for number, entry in enumerate(page.entries) if _may_become(entry, chosen)]
        events: list[tuple[LogEntry, Event]] = []
        size = 0
        for begin in range(0, len(numbered), _READ_AT_ONCE):
            part = numbered[begin : begin + _READ_AT_ONCE]
            state = await _read_state(self._graph, [entry for _, entry in part], access)
            for number, entry in part:
                if state.is_behind(entry) and now_ms() < entry.at + 1000 * self._apply_seconds:
                    return events, page.first(number)._replace(more=False)
                event = self._event(entry, state, chosen)
                if event is None or event.type not in chosen or not selects(event):
                    continue
                size += len(msgspec.json.encode(event))
                if events and size > MAX_BYTES:
                    return events, page.first(number)
                events.append((entry, event))
        return events, page

    def _event(self, entry: LogEntry, state: _State, chosen: frozenset[str] = frozenset()) -> Event | None:
        noun, change = LogKind(entry.kind).label.split(".")
        shown = state.show(self._source, entry, noun, change)
        if shown is None and (member := state.hiding(entry, noun)) is not None:
            # The reader learns of the reason at once: it may be over when the member's own entry is read.
            about = entry._replace(object=member.id)
            reason = state.show(self._source, about, "member", "updated")
            label = "member.deleted" if reason and isinstance(reason[0], RemovedData) else "member.updated"
            if reason and label in chosen:
                entry, noun, change, shown = about, "member", "updated", reason
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


def _fitting(nodes: Sequence[Node]) -> Sequence[Node]:
    """Return the first nodes whose data together take at most `MAX_BYTES`, and at least one."""
    size = 0
    for count, node in enumerate(nodes):
        size += len(node.json) if isinstance(node, Post) else 0
        if count and size > MAX_BYTES:
            return nodes[:count]
    return nodes


def _subject(node: Member | Post | Share | Media | Report) -> int:
    subject: int = getattr(node, OBJECTS[type(node)].subject)
    return subject


def _began(node: Member | Post | Share | Media | Report) -> int:
    return node.created_at if isinstance(node, Member | Post) else milliseconds_of(node.id)


def _entry_of(owner: int, atype: AssocType, row: Assoc) -> LogEntry:
    """Return an association as the entry of its creation. A follow began before its options changed."""
    kind = {LIKES: LogKind.LIKE_CREATED, REACTS: LogKind.REACTION_CREATED}.get(atype, LogKind.FOLLOW_CREATED)
    began = follow_terms(row.data).began(row.time) if kind is LogKind.FOLLOW_CREATED else row.time
    ends = (row.id2, owner) if atype is FOLLOWED_BY else (owner, row.id2)
    return LogEntry(0, (), milliseconds_of(began), kind, *ends, 0, row.time)


def _was_shown(node: Node) -> bool:
    """Return whether an earlier version of an object that is hidden now may have been visible."""
    return isinstance(node, Post | Share) or (isinstance(node, Member) and not node.pending)


class _State(NamedTuple):
    """The current state of everything that some entries name."""

    access: Access
    nodes: Mapping[int, Node]
    emoji: Mapping[tuple[int, int], list[str]]
    """Emoji and names of declared reactions by member and post."""
    audit: Mapping[int, AuditData]

    def is_behind(self, entry: LogEntry) -> bool:
        """Return whether the object that an entry creates or changes is older than the entry."""
        noun, change = LogKind(entry.kind).label.split(".")
        node = self.nodes.get(entry.object) if noun in _OBJECTS and change != "deleted" else None
        return node is not None and node.version < entry.version

    def show(self, source: str, entry: LogEntry, noun: str, change: str) -> tuple[EventData, int] | None:
        """Return the data and version of the event of an entry; None if the reader may not see it, or its object is gone.

        A reader without private access gets one event when a post or share leaves its audience: the update that narrowed it.
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
        return None if shown is None else (shown, node.version)

    def _object(self, source: str, node: Node) -> EventData | None:
        if isinstance(node, Member):
            return self._member(source, node)
        if isinstance(node, Post):
            return self._post(source, node)
        if isinstance(node, Share):
            return self._share(node)
        if isinstance(node, Media):
            return media_data(source, node) if self.access.private and not node.held else None
        return report_data(node) if isinstance(node, Report) and self.access.reports else None

    def hiding(self, entry: LogEntry, noun: str) -> Member | None:
        """Return the member because of whom the reader may not see an entry, if there is one."""
        node = self.nodes.get(entry.object)
        if noun == "post" and isinstance(node, Post):
            author = self.nodes.get(node.author_id)
            return author if self._may_know(node) and isinstance(author, Member) and author.suspended else None
        if noun == "follow" and not self.access.private:
            found = (self.nodes.get(entry.subject), node)
            return next((end for end in found if isinstance(end, Member) and end.hides_connections), None)
        return None

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
    reactions: defaultdict[int, set[int]] = defaultdict(set)
    audits: defaultdict[int, set[int]] = defaultdict(set)
    for entry in entries:
        noun, change = LogKind(entry.kind).label.split(".")
        if noun == "audit":
            audits[entry.subject].add(entry.object)
        elif noun not in _OBJECTS or change != "deleted":
            ids.update((entry.subject, entry.object))
            if noun == "reaction":
                reactions[entry.subject].add(entry.object)
    nodes: dict[int, Node]
    nodes, emoji, audit = await asyncio.gather(
        _objects(graph, ids),
        _emoji(graph, reactions),
        _audit(graph, audits if access.audit else {}),
    )
    more: set[int] = set()
    for node in nodes.values():
        if isinstance(node, Post):
            more.update((*node.media, node.poll_id))
        elif isinstance(node, Share):
            more.add(node.post_id)
        elif isinstance(node, Member) and access.accounts:
            more.add(node.login_id)
    nodes |= await _objects(graph, more - nodes.keys() - {0})
    return _State(access, nodes, emoji, audit)


async def _objects(graph: Reader, ids: Iterable[int]) -> dict[int, Node]:
    needed = tuple(ids)
    return dict(await graph.obj_get(needed)) if needed else {}


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

"""The event log: an ordered record of the public changes of a network, for external consumers.

An entry is written in the same transaction as the change that it reports. Entries are derived from the transitions that
`resolve.decide` finds, so no command can forget one, and a repeated request without effect has none. Kinds of objects and
association types that are not in `OBJECTS` or `ASSOCIATIONS` are not logged; a test lists them with the reason.

`EventLog` merges the logs of all stores. The commits of a member are delivered in their order, also while the member's shard moves:
the new store has a marker (`LogKind.MOVED`) before the first commit there, with the end of the former store's log. All entries of
the new store after the marker are held back until the former log has been delivered up to that end.

An import (`bulk`) and the rows of a move write no entries.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from shoal.core.audit import MODERATION_VERBS
from shoal.core.errors import InvalidInput
from shoal.core.model import (
    Media,
    Member,
    Post,
    Report,
    Share,
    Visibility,
)
from shoal.graph import schema
from shoal.graph.contract import (
    Assoc,
    AssocOp,
    Batch,
    CursorTooOld,
    LogCursor,
    LogEntry,
    LogPlace,
    LogSource,
    ObjOp,
    Store,
    StorePage,
)
from shoal.graph.payloads.members import decode_entry
from shoal.graph.schema import AssocType


class LogKind(IntEnum):
    """What an entry reports. The numbers are stored, and never change their meaning."""

    MOVED = 0
    """Not delivered. `subject` is the log of the store from which shards moved; `object` and `other` are its end."""
    MEMBER_CREATED = 11
    MEMBER_UPDATED = 12
    MEMBER_DELETED = 13
    POST_CREATED = 21
    """`object` is the post, and `other` the post on which it comments; 0 for none."""
    POST_UPDATED = 22
    """`other` is the visibility before the change, see `former_visibility`. A moderator's decision changes a post too."""
    POST_DELETED = 23
    SHARE_CREATED = 31
    """`object` is the share, `other` the shared post."""
    SHARE_UPDATED = 32
    SHARE_DELETED = 33
    """`other` is the visibility of the share."""
    MEDIA_CREATED = 41
    MEDIA_UPDATED = 42
    MEDIA_DELETED = 43
    REPORT_CREATED = 51
    """`object` is the report, `other` the reported member."""
    REPORT_UPDATED = 52
    REPORT_DELETED = 53
    FOLLOW_CREATED = 61
    """`subject` follows `object`. Either of them may end it."""
    FOLLOW_UPDATED = 62
    """Private options of the follow changed, or it was confirmed, after which an end with a lower version is void."""
    FOLLOW_DELETED = 63
    LIKE_CREATED = 71
    LIKE_DELETED = 73
    REACTION_CREATED = 81
    """`subject` reacts to the post `object`, with one emoji or more."""
    REACTION_UPDATED = 82
    REACTION_DELETED = 83
    AUDIT_CREATED = 91
    """A moderator has acted: `object` is an entry of the audit log, in the list `subject`."""

    @property
    def label(self) -> str:
        """The name for consumers, such as `post.created`."""
        return self.name.lower().replace("_", ".")


_CREATED, _UPDATED, _DELETED = 1, 2, 3
"""The last digit of a `LogKind`."""


class LoggedObject(NamedTuple):
    """How an object is logged: the tens of its kinds, and the fields with `subject` and `other`.

    If it has a visibility, entries of updates and deletions have the former visibility as `other`: consumers who knew the object
    need them, and the object itself is changed or deleted when they are read.
    """

    tens: int
    subject: str
    other: str = ""
    has_visibility: bool = False


class LoggedAssoc(NamedTuple):
    """How an association is logged: the tens of its kinds, whether `id2` is the subject, and whether changes of a live one are."""

    tens: int
    reversed: bool = False
    updates: bool = False


OBJECTS: Mapping[type, LoggedObject] = {
    Member: LoggedObject(10, "id"),
    Post: LoggedObject(20, "author_id", "parent_id", has_visibility=True),
    Share: LoggedObject(30, "author_id", "post_id", has_visibility=True),
    Media: LoggedObject(40, "owner_id"),
    Report: LoggedObject(50, "reporter_id", "target_id"),
}
ASSOCIATIONS: Mapping[AssocType, LoggedAssoc] = {
    # Both ends may delete a follow, in different stores, and the later time wins: so a later time is logged too.
    schema.FOLLOWS: LoggedAssoc(60, updates=True),
    schema.FOLLOWED_BY: LoggedAssoc(60, reversed=True, updates=True),
    schema.LIKES: LoggedAssoc(70),
    schema.LIKED_BY: LoggedAssoc(70, reversed=True),
    schema.REACTS: LoggedAssoc(80, updates=True),
    schema.REACTED_BY: LoggedAssoc(80, reversed=True, updates=True),
    # Only additions to the public lists by moderators: a member's own list has addresses, and deletions are those of old entries.
    schema.AUDITED: LoggedAssoc(90),
}
_BY_NUMBER = {atype.number: rule for atype, rule in ASSOCIATIONS.items()}
_PUBLIC_LISTS = frozenset(schema.PUBLIC_LISTS)
_VISIBILITIES = (Visibility.PUBLIC, Visibility.UNLISTED, Visibility.FOLLOWERS, Visibility.DIRECT)
"""The visibilities with the numbers 1 to 4. The numbers are stored."""


class Logged(NamedTuple):
    """An entry to be written; see `LogEntry`."""

    kind: int
    subject: int
    object: int
    other: int
    version: int


def of_object(op: ObjOp, stored: int) -> Logged | None:
    """Return the entry of an operation on an object whose stored version is `stored` (0: none), or None."""
    node: Any = op.former if op.node is None else op.node
    rule = OBJECTS.get(type(node))
    if rule is None or (op.node is None and not stored):
        return None
    if op.node is None:
        change, version = _DELETED, stored + 1
    else:
        change, version = (_UPDATED if op.expected else _CREATED), node.version
    if rule.has_visibility and change != _CREATED:
        former: Any = op.former or node
        other = _VISIBILITIES.index(former.visibility) + 1
    else:
        other = getattr(node, rule.other) if rule.other else 0
    return Logged(rule.tens + change, getattr(node, rule.subject), op.id, other, version)


def former_visibility(entry: LogEntry) -> Visibility | None:
    """Return the visibility that a post or share had before it was changed or deleted; None for any other entry."""
    tens, change = divmod(entry.kind, 10)
    if change == _CREATED or not any(rule.has_visibility and rule.tens == 10 * tens for rule in OBJECTS.values()):
        return None
    return _VISIBILITIES[entry.other - 1]


def check_former(op: ObjOp, stored: object) -> None:
    """Raise `TypeError` if the operation lacks the former version of an object, which its log entry needs."""
    rule = OBJECTS.get(type(stored))
    if rule is None or op.former is not None:
        return
    changed: Any = op.node
    if changed is not None and not op.expected:
        # An addition fails with `IdTaken`.
        return
    if changed is None or (rule.has_visibility and changed.visibility is not getattr(stored, "visibility", None)):
        raise TypeError(f"a batch changes {stored!r} without its former version: pass the object to obj_del or obj_set")


def of_association(op: AssocOp, *, was_alive: bool) -> Logged | None:
    """Return the entry of an operation of the acting shard that changes the stored association, or None."""
    rule = _BY_NUMBER.get(op.atype)
    if rule is None or (op.atype == schema.AUDITED.number and not _is_moderation(op)):
        return None
    if op.alive is not was_alive:
        change = _CREATED if op.alive else _DELETED
    elif rule.updates and op.alive:
        change = _UPDATED
    else:
        return None
    subject, target = (op.id2, op.id1) if rule.reversed else (op.id1, op.id2)
    return Logged(rule.tens + change, subject, target, 0, op.time)


def _is_moderation(op: AssocOp) -> bool:
    if not op.alive or op.id1 not in _PUBLIC_LISTS:
        return False
    return decode_entry(Assoc(op.id2, op.time, op.data)).verb in MODERATION_VERBS


def may_log(batch: Batch) -> bool:
    """Return whether the log may get entries from a batch."""
    return any(op.node is None or type(op.node) in OBJECTS for op in batch.objects) or any(
        op.atype in _BY_NUMBER and not op.plain for op in batch.assocs
    )


OFF = "the network, or one of its stores, keeps no event log: set event_log = on"


def place_in(places: Mapping[int, LogPlace] | None, log: int, beginning: LogPlace) -> LogPlace | None:
    """Return the place in this log: its beginning if the cursor has none there, and None if there is no cursor."""
    return None if places is None else places.get(log, beginning)


BEGINNING = LogPlace((0,))
"""The place before the first entry of a log whose positions have no gaps."""


def page_of(log: int, place: LogPlace | None, rows: Sequence[LogEntry], limit: int) -> StorePage:
    """Return a page of a log whose positions have no gaps, and whose newest entry is never trimmed.

    `rows` begin with the entry at `place` if it exists, otherwise after it, and are at least `limit` + 2 if the log has as many.
    The proof of a place is the time of the entry there.
    """
    if place is not None:
        if len(place.position) != 1:
            raise CursorTooOld.other_log()
        at = place.position[0]
        if at and (not rows or (rows[0].position[0] == at and (rows[0].at,) != place.proof)):
            raise CursorTooOld.other_log()
        if rows and rows[0].position[0] > at + 1:
            raise CursorTooOld.trimmed()
        rows = rows[1:] if rows and rows[0].position[0] == at else rows
    page = rows[:limit]
    start = place or (LogPlace((page[0].position[0] - 1,)) if page else BEGINNING)
    end = LogPlace(page[-1].position, (page[-1].at,)) if page else start
    return StorePage(log, page, end, more=len(rows) > limit, start=start)


MAX_PAGE = 1_000


class LogPage(NamedTuple):
    """Entries in the order of delivery. Continue with the page or its `cursor`: at once if there are `more`, otherwise later."""

    entries: Sequence[LogEntry]
    cursor: LogCursor
    more: bool
    after: Mapping[int, LogPlace] | None
    pages: Sequence[StorePage]
    """What the logs of the stores returned after `after`."""
    rest: Sequence[StorePage]
    """The same, without the entries up to `cursor`."""
    sources: Sequence[LogSource] = ()

    def first(self, number: int) -> LogPage:
        """Return a page that ends after this number of its entries."""
        return _merged(self.after, self.pages, number)._replace(sources=self.sources)


class EventLog:
    """Reads and trims the event log of a network, which is that of all of its stores."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, after: LogCursor | LogPage | None, limit: int) -> LogPage:
        """Return up to `limit` entries after a cursor or page; from the oldest stored entry on if it is None.

        After a page, the entries that it did not reach are used before the stores are read again. Every entry is delivered at least
        once, and the entries of one member's commits in the order of the commits.

        Raises:
            CursorTooOld: Entries after the cursor are missing.
            InvalidInput: The network keeps no event log, or `limit` is not 1 to `MAX_PAGE`.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidInput(f"limit: 1 to {MAX_PAGE} entries (got {limit})", field="limit")
        kept: dict[LogSource, StorePage] = {}
        if isinstance(after, LogPage):
            kept, after = dict(zip(after.sources, after.rest, strict=True)), after.cursor
        places = after.places if after is not None else None
        sources = self._store.log_sources
        pages = {source: kept[source] for source in sources if source in kept}
        if len(pages) < len(sources) or not _is_usable(places, list(pages.values())):
            stale = [source for source in sources if source not in pages or not pages[source].entries] or sources
            found = await asyncio.gather(*[source.log_page(places, limit) for source in stale])
            pages |= zip(stale, found, strict=True)
        return _merged(places, [pages[source] for source in sources], limit)._replace(sources=sources)

    async def end(self) -> LogCursor:
        """Return the cursor after all entries so far. State that is read afterwards contains at least the changes before it."""
        pages = await asyncio.gather(*[source.log_end() for source in self._store.log_sources])
        return LogCursor({page.log: page.place for page in pages})

    async def trim(self, before: int) -> int:
        """Delete the entries from before a time (Unix ms), and return their number."""
        return sum(await asyncio.gather(*[source.log_trim(before) for source in self._store.log_sources]))


def _is_usable(places: Mapping[int, LogPlace] | None, pages: Sequence[StorePage]) -> bool:
    """Return whether the next entry by time is in these pages."""
    return not any(page.more and not page.entries for page in pages) and bool(_merged(places, pages, 1).entries)


def _merged(places: Mapping[int, LogPlace] | None, pages: Sequence[StorePage], limit: int) -> LogPage:
    """Merge the pages of all stores by time. A marker waits until the log that it names has been delivered up to its end."""
    queues = [(page, deque(page.entries)) for page in pages]
    by_log = {page.log: (page, rest) for page, rest in queues}
    if places is not None and places.keys() - by_log.keys():
        raise CursorTooOld.other_log()
    # Each log has a place, also if nothing of it is delivered: later, a missing place would stand for the first entry ever.
    reached = dict(places or {}) | {page.log: page.start for page in pages if page.start is not None}
    reached |= {page.log: page.place for page in pages if not page.entries}

    def is_ready(rest: deque[LogEntry]) -> bool:
        if not rest or rest[0].kind != LogKind.MOVED or rest[0].subject not in by_log:
            return bool(rest)
        # Everything before the next entry of the former log was delivered. That entry may be a marker that waits for this log.
        former, left = by_log[rest[0].subject]
        end = left[0].position if left else former.reached or former.place.position
        return end >= (rest[0].object, rest[0].other, 0)

    entries: list[LogEntry] = []
    while len(entries) < limit and (ready := [queue for queue in queues if is_ready(queue[1])]):
        page, rest = min(ready, key=lambda queue: queue[1][0].at)
        entry = rest.popleft()
        reached[page.log] = page.place_at(entry) if rest or page.more else page.place
        if entry.kind != LogKind.MOVED:
            entries.append(entry)
        if page.more and not rest:
            # The next entry of this log may be earlier than the others.
            break
    more = any(is_ready(rest) or (page.more and not rest) for page, rest in queues)
    left = [page._replace(entries=tuple(rest), start=None) for page, rest in queues]
    return LogPage(entries, LogCursor(reached), more, places, pages, left)

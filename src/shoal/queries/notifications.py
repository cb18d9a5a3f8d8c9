"""The notifications of a member, newest first, one by one or grouped, and notification requests.

Each stored notification is checked again before it is shown: the actor, the post, and whether the viewer may see it now. A
notification request represents a sender whose notifications the member's policy holds back. Requests are computed from the held
notifications when they are read, and nothing else is stored.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import msgspec

from shoal.core.errors import NotFound
from shoal.core.filters import FilterContext
from shoal.core.model import Member, Post, Report, Role, ScheduledPost, Share
from shoal.core.publishing import HeldContent
from shoal.core.visibility import Relation, may_see_share
from shoal.graph.access import relations
from shoal.graph.contract import MAX_TIME, Assoc, Cursor
from shoal.graph.payloads.members import CLEARED, NOTIFICATIONS, marks
from shoal.graph.payloads.notifications import (
    ABOUT_POSTS,
    ABOUT_REPORTS,
    FOR_STAFF,
    GROUPED,
    WITHOUT_ACTOR,
    Group,
    Kind,
    Notice,
    group_of,
    notice_of,
)
from shoal.graph.schema import HELD, NOTIFIED, AnyNode
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, Profile, hydrate, profiles
from shoal.queries.pagination import Fit, RowReader, check_limit, read_items
from shoal.queries.pipeline import content_filters_of

MOST_OF_A_GROUP = 400
_A_GROUP = 4
"""Notifications read per group of a page."""


class Notification(msgspec.Struct, frozen=True):
    time: int
    """The time of the action, a snowflake, which is the id of the notification among those of the member."""
    notice: Notice
    actor: Profile
    entry: Entry | None = None
    report: Report | None = None
    target: Profile | None = None
    scheduled: ScheduledPost | None = None
    refusal: str = ""
    """Why content of the member was rejected."""


class NotificationPage(NamedTuple):
    """A page of notifications. `next` is the `before` parameter of the next page; None at the end."""

    items: list[Notification]
    next: int | None


class Grouped(msgspec.Struct, frozen=True):
    """Similar notifications shown as one item, newest first; `group` is None for a single notification."""

    group: Group | None
    items: list[Notification]


class GroupedPage(NamedTuple):
    """A page of notification groups, the group with the newest notification first. `items` has all notifications in the groups."""

    groups: list[Grouped]
    items: list[Notification]
    next: int | None


@dataclass(frozen=True, slots=True)
class NotificationQuery:
    kinds: frozenset[Kind] | None = None
    without: frozenset[Kind] = frozenset()
    actor_id: int = 0
    about: int = 0
    name: str = ""
    """The name of a declared reaction; empty for any."""
    held: bool = False
    """Whether to include notifications that the viewer's policy holds."""

    def admits(self, notice: Notice) -> bool:
        if notice.kind in self.without or (self.kinds is not None and notice.kind not in self.kinds):
            return False
        if self.name and notice.emoji != self.name:
            return False
        return self.actor_id in (0, notice.actor_id) and self.about in (0, notice.about)


ALL = NotificationQuery()
_time = attrgetter("time")


async def one(reads: Reads, viewer: int, time: int) -> Notification:
    """Return the notification with this time. Raises `NotFound`."""
    found = (await page(reads, viewer, Cursor(time + 1, time - 1, 1))).items if 0 < time < MAX_TIME else []
    if not found:
        raise NotFound("Record not found")
    return found[0]


async def grouped(
    reads: Reads, viewer: int, cursor: Cursor, query: NotificationQuery = ALL, kinds: Collection[Kind] = GROUPED
) -> GroupedPage:
    """Return a page of `cursor.limit` groups. Notifications of other kinds than `kinds` are groups of one.

    Groups are formed within a page, so the next page may have more notifications of the same group.
    """

    def fitting(found: Sequence[Notification]) -> int:
        known: set[object] = set()
        for at, item in enumerate(found):
            known.add(_together(item, kinds) or item.time)
            if len(known) > cursor.limit:
                return at
        return len(found)

    items, after = await page(reads, viewer, cursor, query, fitting=fitting, at_once=_A_GROUP * cursor.limit)
    groups: dict[object, Grouped] = {}
    for item in items:
        group = _together(item, kinds)
        groups.setdefault(group or item.time, Grouped(group, [])).items.append(item)
    return GroupedPage(list(groups.values()), items, after)


async def of_group(reads: Reads, viewer: int, group: Group) -> list[Notification]:
    """Return the notifications in a group, newest first. Raises `NotFound` if there are none."""
    query = NotificationQuery(frozenset({group.kind}), about=group.about, name=group.name)
    found = await page(reads, viewer, Cursor(group.last, max(group.first, 0), MOST_OF_A_GROUP), query)
    if not found.items:
        raise NotFound("Record not found")
    return found.items


async def unread(
    reads: Reads, viewer: int, limit: int, query: NotificationQuery = ALL, kinds: Collection[Kind] | None = None
) -> int:
    """Count the notifications newer than the viewer's read marker, up to `limit`. With `kinds`, count groups (see `grouped`)."""
    if kinds is None:
        return len(await newer(reads, viewer, limit, query))
    read = (await marks(reads.graph, viewer, (NOTIFICATIONS,))).get(NOTIFICATIONS)
    cursor = Cursor(after=read.last_read_id if read else 0, limit=limit)
    return len((await grouped(reads, viewer, cursor, query, kinds)).groups)


async def newer(reads: Reads, viewer: int, limit: int, query: NotificationQuery = ALL) -> list[Notification]:
    """Return the notifications newer than the viewer's read marker, up to `limit`."""
    found = await marks(reads.graph, viewer, (NOTIFICATIONS, CLEARED))
    after = max((mark.last_read_id for mark in found.values()), default=0)
    return (await _page(reads, viewer, Cursor(after=after, limit=limit), query)).items


def _together(item: Notification, kinds: Collection[Kind]) -> Group | None:
    return group_of(item.notice, item.time) if item.notice.kind in kinds else None


async def page(
    reads: Reads,
    viewer: int,
    cursor: Cursor,
    query: NotificationQuery = ALL,
    *,
    fitting: Fit[Notification] | None = None,
    at_once: int = 0,
) -> NotificationPage:
    """Return a page of the viewer's notifications, reading `at_once` notifications at a time.

    `fitting` returns how many of the notifications read so far fit on the page. Raises `InvalidInput` for a limit below 1.
    """
    cleared = (await marks(reads.graph, viewer, (CLEARED,))).get(CLEARED)
    at = cursor._replace(after=max(cursor.after, cleared.last_read_id if cleared else 0))
    return await _page(reads, viewer, at, query, fitting=fitting, at_once=at_once)


async def _page(
    reads: Reads,
    viewer: int,
    at: Cursor,
    query: NotificationQuery,
    *,
    fitting: Fit[Notification] | None = None,
    at_once: int = 0,
) -> NotificationPage:
    async def read(at: Cursor) -> list[Assoc]:
        lists = await asyncio.gather(
            *(reads.graph.assoc_range(viewer, atype, at) for atype in ((NOTIFIED, HELD) if query.held else (NOTIFIED,)))
        )
        first = heapq.nsmallest if at.oldest_first else heapq.nlargest
        return first(at.limit, chain(*lists), key=_time)

    async def sift(found: Sequence[Assoc]) -> list[tuple[Assoc, Notice]]:
        rows = [(assoc, notice) for assoc in found if (notice := notice_of(assoc))]
        return rows if query == ALL else [row for row in rows if query.admits(row[1])]

    rows, show = RowReader(at, read, sift, _time), partial(shown, reads, viewer)
    return NotificationPage(*await read_items(at, rows, show, _time, fitting, at_once=at_once))


async def shown(reads: Reads, viewer: int, rows: Sequence[tuple[Assoc, Notice]]) -> list[Notification]:
    """Return the notifications that the viewer may see now, fully hydrated; at most fourteen reads."""
    posts = dict.fromkeys(notice.about for _, notice in rows if notice.kind in ABOUT_POSTS)
    content_filters = await content_filters_of(reads.graph, viewer, FilterContext.NOTIFICATIONS)
    found = await hydrate(reads.graph, viewer, list(posts), unasked=False)
    entries = {entry.id: entry for entry in await content_filters.admitted(found)}
    actors = {notice.actor_id for _, notice in rows}
    nodes = await reads.graph.obj_get(list({viewer, *actors, *_objects(rows)}))
    targets = {node.target_id for node in nodes.values() if isinstance(node, Report)}
    if targets:
        nodes = {**nodes, **await reads.graph.obj_get(list(targets))}
    relationships = await relations(reads.graph, viewer, actors | targets)
    own = nodes.get(viewer)
    staff = (
        isinstance(own, Member) and own.role is not Role.NONE and not own.unguarded(required=reads.staff_second_factor)
    )
    shown = [row for row in rows if _may_show(viewer, *row, entries, nodes, relationships, staff=staff)]
    people = {id_: node for id_ in actors | targets if isinstance(node := nodes.get(id_), Member)}
    known = await profiles(reads.graph, people, viewer, relationships)
    return [_made(assoc, notice, entries, nodes, known) for assoc, notice in shown]


def _objects(rows: Sequence[tuple[Assoc, Notice]]) -> set[int]:
    """Return the ids of the shares, reports, scheduled posts and decided content to read for these notifications."""
    shares = {assoc.time for assoc, notice in rows if notice.kind is Kind.SHARE}
    kinds = ABOUT_REPORTS | WITHOUT_ACTOR
    return shares | {notice.about for _, notice in rows if notice.kind in kinds and notice.about}


def _may_show(
    viewer: int,
    assoc: Assoc,
    notice: Notice,
    entries: Mapping[int, Entry],
    nodes: Mapping[int, AnyNode],
    relationships: Mapping[int, Relation],
    *,
    staff: bool,
) -> bool:
    actor, relation = nodes.get(notice.actor_id), relationships[notice.actor_id]
    if not isinstance(actor, Member) or actor.suspended or relation.severed or relation.muting_notifications:
        return False
    if notice.kind in FOR_STAFF:
        return staff and (notice.kind is not Kind.REPORT or isinstance(nodes.get(notice.about), Report))
    if notice.kind is Kind.REPORT_RESOLVED:
        report = nodes.get(notice.about)
        return isinstance(report, Report) and bool(report.closed_at)
    if notice.kind is Kind.UNPUBLISHED:
        return _refused(nodes, notice) is not None
    if notice.kind in {Kind.APPROVED, Kind.REJECTED}:
        decided = HeldContent if notice.kind is Kind.REJECTED else Post
        return not notice.about or isinstance(nodes.get(notice.about), decided)
    if notice.kind not in ABOUT_POSTS:
        return True
    entry = entries.get(notice.about)
    return entry is not None and _still_so(viewer, assoc, notice, entry.post, actor, nodes, relation)


def _refused(nodes: Mapping[int, AnyNode], notice: Notice) -> ScheduledPost | None:
    """Return the scheduled post that could not be published; None if its author has rescheduled or deleted it since."""
    node = nodes.get(notice.about) if notice.kind is Kind.UNPUBLISHED else None
    return node if isinstance(node, ScheduledPost) and node.refused else None


def _still_so(
    viewer: int,
    assoc: Assoc,
    notice: Notice,
    post: Post,
    actor: Member,
    nodes: Mapping[int, AnyNode],
    relation: Relation,
) -> bool:
    """Return whether the notified action is still in effect. A mention may have been removed by an edit, and a share deleted."""
    if notice.kind is Kind.MENTION:
        return any(mention.id == viewer for mention in post.mentions)
    if notice.kind is Kind.SHARE:
        share = nodes.get(assoc.time)
        return isinstance(share, Share) and may_see_share(viewer, share, actor, relation)
    return True


def _made(
    assoc: Assoc,
    notice: Notice,
    entries: Mapping[int, Entry],
    nodes: Mapping[int, AnyNode],
    known: Mapping[int, Profile],
) -> Notification:
    entry = entries.get(notice.about) if notice.kind in ABOUT_POSTS else None
    report = nodes.get(notice.about) if notice.kind in ABOUT_REPORTS else None
    found = report if isinstance(report, Report) else None
    target = known.get(found.target_id) if found else None
    if target and target.member.suspended and notice.kind is Kind.REPORT_RESOLVED:
        target = Profile(Member(id=target.member.id, name=target.member.name))
    held = nodes.get(notice.about) if notice.kind is Kind.REJECTED else None
    return Notification(
        assoc.time,
        notice,
        known[notice.actor_id],
        entry,
        found,
        target,
        _refused(nodes, notice),
        held.refusal if isinstance(held, HeldContent) else "",
    )


MOST_LOOKED_AT = 1_000
"""Maximum number of held notifications that are read, newest first."""
MOST_COUNTED = 100
"""Larger counts are reported as this number."""

Held = tuple[Assoc, Notice]


class NoticeRequest(msgspec.Struct, frozen=True):
    """The held notifications of one sender: their number, the first and last (snowflakes), and the newest post."""

    sender: Profile
    count: int
    first: int
    last: int
    entry: Entry | None


class NoticeRequests(NamedTuple):
    """A page of held notifications by sender. `next` is the `before` parameter of the next page; None at the end."""

    items: list[NoticeRequest]
    next: int | None


class HeldBack(NamedTuple):
    """The number of senders with held notifications, and of these notifications; each up to `MOST_COUNTED`."""

    requests: int
    notifications: int


async def requests_page(reads: Reads, viewer: int, cursor: Cursor) -> NoticeRequests:
    """Return a page of the senders with held notifications. The cursor is the time of a sender's newest held notification."""
    check_limit(cursor)
    groups = [
        group for group in (await _by_sender(reads, viewer)).values() if cursor.after < group[0][0].time < cursor.before
    ]
    ordered = groups[::-1] if cursor.oldest_first else groups
    selected = sorted(ordered[: cursor.limit], key=lambda group: -group[0][0].time)
    more = len(groups) > cursor.limit or cursor.oldest_first
    items = await _make_requests(reads, viewer, selected)
    return NoticeRequests(items, selected[-1][0][0].time if more and selected else None)


async def sender_request(reads: Reads, viewer: int, sender_id: int) -> NoticeRequest:
    group = (await _by_sender(reads, viewer)).get(sender_id)
    found = await _make_requests(reads, viewer, [group]) if group else []
    if not found:
        raise NotFound("Record not found")
    return found[0]


async def held_back(reads: Reads, viewer: int) -> HeldBack:
    groups = await _by_sender(reads, viewer)
    return HeldBack(min(len(groups), MOST_COUNTED), min(sum(map(len, groups.values())), MOST_COUNTED))


async def _by_sender(reads: Reads, viewer: int) -> dict[int, list[Held]]:
    """Return the held notifications by sender, newest first.

    The sender of the newest notification comes first.
    """
    groups: dict[int, list[Held]] = {}
    for assoc in await reads.graph.assoc_range(viewer, HELD, Cursor(limit=MOST_LOOKED_AT)):
        if notice := notice_of(assoc):
            groups.setdefault(notice.actor_id, []).append((assoc, notice))
    return groups


async def _make_requests(reads: Reads, viewer: int, groups: Sequence[Sequence[Held]]) -> list[NoticeRequest]:
    """Return a `NoticeRequest` for each group of notifications of one sender, without senders hidden from the viewer."""
    newest: Mapping[int, Sequence[Held]] = {group[0][0].time: group for group in groups}
    made = []
    for item in await shown(reads, viewer, [group[0] for group in groups]):
        group = newest[item.time]
        made.append(
            NoticeRequest(item.actor, min(len(group), MOST_COUNTED), group[-1][0].time, group[0][0].time, item.entry)
        )
    return made

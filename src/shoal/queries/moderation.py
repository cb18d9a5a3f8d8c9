"""Reads for moderators and admins: all members, reports, and the audit log, newest first.

There is no list of all members. Objects are ordered by id, and therefore by time, and are read from old to new. A page scans one
range of time after another, going back, with longer ranges where there was little activity, and reads a bounded part of the
network.

The audit log has one list for each data source. The address of an action on the member's own account is in a list of that member.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from shoal.core.audit import AuditEntry, AuditVerb
from shoal.core.errors import InvalidInput
from shoal.core.ids import floor_at, milliseconds_of, now_ms, shard_of
from shoal.core.model import Member, Post, Report, Review
from shoal.core.publishing import HeldContent
from shoal.graph.access import objects_of
from shoal.graph.contract import Assoc, Cursor, Reader, Scanner
from shoal.graph.payloads.members import decode_entry
from shoal.graph.schema import AUDITED, EVERYBODY, HOLDS, PUBLIC_LISTS, QUEUE, REPORTED, AnyNode, public_list
from shoal.queries.pagination import check_limit, look_through, objects_page, pull_entries

SCANS = 40
"""Maximum scans per page: after that the page is short, and its cursor continues from there."""
SCANNED = 2_000
SEARCH_SCANS = 100
"""Maximum scans of a search through all posts for a moderator, who waits for the result."""
_MILLISECOND = floor_at(1_800_000_000_001) - floor_at(1_800_000_000_000)
_STRETCH = 86_400_000 * _MILLISECOND
"""Initial range of a page: a day."""
_SKEW_MS = 3_600_000
"""How far ids may be ahead of our clock."""

MemberFilter = Callable[[Member], bool]
MemberState = Literal["active", "pending", "disabled", "silenced", "sensitized", "suspended"]


class Members(NamedTuple):
    """A page of members, newest first. `next` is the `before` parameter of the next page; None at the end."""

    members: list[Member]
    next: int | None


def is_in(member: Member, state: MemberState) -> bool:
    """Return whether a member is in a state. Active means neither suspended nor disabled."""
    match state:
        case "active":
            return not (member.suspended or member.disabled)
        case "suspended":
            return member.suspended and not member.pending
        case "pending":
            return member.pending
        case "disabled":
            return member.disabled
        case "silenced":
            return member.silenced
        case "sensitized":
            return member.sensitized
    raise InvalidInput(f"state: expected one of {', '.join(get_args(MemberState))} (got {state!r})", field="state")


async def members_page(scanner: Scanner, cursor: Cursor, filter_: MemberFilter) -> Members:
    """Return a page of matching members, with ids in the cursor's range.

    The page has the newest members or, with `oldest_first`, the oldest.
    """
    return await (_oldest if cursor.oldest_first else _newest)(scanner, cursor, filter_)


async def _oldest(scanner: Scanner, cursor: Cursor, filter_: MemberFilter) -> Members:
    found: list[Member] = []
    after, ended = cursor.after, False
    for _ in range(SCANS):
        scanned = await scanner.obj_scan(after, SCANNED)
        found += [member for member in _members(scanned, filter_) if member.id < cursor.before]
        ended = len(scanned) < SCANNED or scanned[-1].id >= cursor.before
        if ended or len(found) >= cursor.limit:
            break
        after = scanned[-1].id
    if not found:
        # No scanned member matches. Return where the scan ended, so that reading can continue there.
        return Members(found, None if ended else after)
    found = found[: cursor.limit][::-1]
    return Members(found, found[-1].id)


async def _newest(scanner: Scanner, cursor: Cursor, filter_: MemberFilter) -> Members:
    found: list[Member] = []
    reached: int | None = None
    async for low, here in newest_objects(scanner, cursor.before, cursor.after):
        found += list(_members(here, filter_))[::-1]
        if len(found) > cursor.limit:
            return Members(found[: cursor.limit], found[cursor.limit - 1].id)
        reached = low if low > cursor.after + 1 else None
    return Members(found, reached)


async def newest_objects(
    scanner: Scanner, before: int, after: int = 0, scans: int = SCANS
) -> AsyncGenerator[tuple[int, list[AnyNode]], None]:
    """Yield the objects with ids between `after` and `before` in ranges of time, from the newest to the oldest.

    Each item has the lowest id of its range, and the objects of the range in the order of their ids. After `scans` scans, no
    further range is read.
    """
    high, stretch, began = min(before, floor_at(now_ms() + _SKEW_MS)), _STRETCH, 0
    # The first range is always read to its end: a page must make progress, or its cursor would repeat.
    progress = False
    while began < scans or not progress:
        began += 1
        low = max(high - stretch, after + 1)
        if low >= high:
            return
        scanned = await scanner.obj_scan(low - 1, SCANNED)
        here = [node for node in scanned if node.id < high]
        if len(here) == SCANNED:
            if stretch > _MILLISECOND:
                # The scan did not reach the end of the range, where the newest objects are. Retry with half the range.
                stretch = max(min(stretch, here[-1].id - low) // 2, _MILLISECOND)
                continue
            here += await _rest(scanner, here[-1].id, high)
        yield low, here
        high, progress = low, True
        if len(here) <= SCANNED // 8:
            stretch *= 4


async def _rest(scanner: Scanner, after: int, high: int) -> list[AnyNode]:
    """Read all objects with ids above `after` and below `high`, a range too short to be halved."""
    found: list[AnyNode] = []
    while scanned := [node for node in await scanner.obj_scan(after, SCANNED) if node.id < high]:
        found += scanned
        after = scanned[-1].id
    return found


def _members(nodes: list[AnyNode], filter_: MemberFilter) -> list[Member]:
    return [node for node in nodes if isinstance(node, Member) and filter_(node)]


class ReportFilter(NamedTuple):
    """Filter of reports: open or resolved, by reporter and by target."""

    resolved: bool = False
    reporter_id: int | None = None
    target_id: int | None = None
    waiting: bool = False
    """Only reports about a post in review."""

    def admits(self, report: Report) -> bool:
        return (
            bool(report.closed_at) is self.resolved
            and self.reporter_id in (None, report.reporter_id)
            and self.target_id in (None, report.target_id)
        )


class Reports(NamedTuple):
    """A page of reports, newest first, possibly shorter than the limit.

    `next` is the `before` parameter of the next page; None at the end.
    """

    reports: list[Report]
    next: int | None


async def reports_page(graph: Reader, cursor: Cursor, filter_: ReportFilter) -> Reports:
    """Return a page of matching reports. Raises `InvalidInput` for a limit below 1."""

    async def read(at: Cursor) -> list[Assoc]:
        return await graph.assoc_range(EVERYBODY, REPORTED, at)

    async def sift(listed: Sequence[Assoc]) -> list[Report]:
        reports = await objects_of(graph, Report, [assoc.id2 for assoc in listed])
        filed = [report for report in reports if filter_.admits(report)]
        return await _about_waiting(graph, filed) if filter_.waiting else filed

    return Reports(*await look_through(cursor, cursor.limit + 1, read, sift, lambda report: report.id))


class HeldPage(NamedTuple):
    """A page of held content, newest first. `next` is the `before` parameter of the next page; None at the end."""

    items: list[HeldContent]
    next: int | None


async def held_page(graph: Reader, cursor: Cursor, owner_id: int = 0) -> HeldPage:
    """Return a page of the content that waits for moderators or, given an owner, of the owner's held and rejected content.

    Raises `InvalidInput` for a limit below 1.
    """
    check_limit(cursor)
    holder, atype = (owner_id, HOLDS) if owner_id else (EVERYBODY, QUEUE)
    return HeldPage(*await objects_page(graph, holder, atype, HeldContent, cursor))


async def _about_waiting(graph: Reader, reports: Sequence[Report]) -> list[Report]:
    posts = await objects_of(graph, Post, list({id_ for report in reports for id_ in report.post_ids}))
    waiting = {post.id for post in posts if post.review is Review.WAITING}
    return [report for report in reports if not waiting.isdisjoint(report.post_ids)]


_SEARCHED = 200
"""Entries per read if a filter applies."""
_EXPORTED = 500


class AuditFilter(NamedTuple):
    """A filter of audit entries by actor, target and verbs. None, and an empty set of verbs, match every entry."""

    actor_id: int | None = None
    """0: anonymous, or the command line."""
    target_id: int | None = None
    verbs: frozenset[AuditVerb] = frozenset()

    def admits(self, entry: AuditEntry) -> bool:
        return (
            self.actor_id in (None, entry.actor_id)
            and self.target_id in (None, entry.target_id)
            and (not self.verbs or entry.verb in self.verbs)
        )


class DatedEntry(NamedTuple):
    """An audit entry with its id, and the IP address of the actor, if it is kept."""

    id: int
    entry: AuditEntry
    address: str

    @property
    def at(self) -> int:
        """When the action was taken, in Unix milliseconds."""
        return milliseconds_of(self.id)


class AuditPage(NamedTuple):
    """A page of audit entries, newest first, possibly shorter than the limit.

    `next` is the `before` parameter of the next page; None at the end.
    """

    entries: list[DatedEntry]
    next: int | None


async def audit_page(graph: Reader, cursor: Cursor, filter_: AuditFilter) -> AuditPage:
    """Return a page of matching audit entries. Raises `InvalidInput` for a limit below 1."""
    at_once = cursor.limit + 1 if filter_ == AuditFilter() else max(_SEARCHED, cursor.limit + 1)

    async def read(at: Cursor) -> list[Assoc]:
        return await pull_entries(graph, AUDITED, PUBLIC_LISTS, at)

    async def sift(listed: Sequence[Assoc]) -> list[tuple[Assoc, AuditEntry]]:
        decoded = [(assoc, decode_entry(assoc)) for assoc in listed]
        return [dated for dated in decoded if filter_.admits(dated[1])]

    found, following = await look_through(cursor, at_once, read, sift, lambda dated: dated[0].id2)
    return AuditPage(await _with_addresses(graph, found), following)


async def everything(graph: Reader) -> AsyncGenerator[DatedEntry, None]:
    """Iterate over the whole audit log, oldest entry first, with bounded memory."""
    at = Cursor(limit=_EXPORTED, oldest_first=True)
    while listed := await pull_entries(graph, AUDITED, PUBLIC_LISTS, at):
        for entry in await _with_addresses(graph, [(assoc, decode_entry(assoc)) for assoc in listed]):
            yield entry
        at = at.past(listed[-1].time)


async def own(graph: Reader, member_id: int, listed: Sequence[Assoc]) -> list[DatedEntry]:
    """Return the audit entries with the ids in `listed`, a member's list of their own account actions and failed logins."""
    addresses = {assoc.id2: assoc.data.decode() for assoc in listed}
    public = public_list(shard_of(member_id))
    entries = (await graph.assoc_get(public, (AUDITED,), list(addresses)))[AUDITED] if addresses else {}
    return [
        DatedEntry(id_, decode_entry(entries[id_]), address) for id_, address in addresses.items() if id_ in entries
    ]


async def _with_addresses(graph: Reader, found: Sequence[tuple[Assoc, AuditEntry]]) -> list[DatedEntry]:
    """Return audit entries, each with its IP address if kept. One read for each member concerned, concurrently."""
    entry_ids: dict[int, list[int]] = {}
    for assoc, entry in found:
        if entry.holder_id:
            entry_ids.setdefault(entry.holder_id, []).append(assoc.id2)
    answers = await asyncio.gather(*(graph.assoc_get(holder, (AUDITED,), ids) for holder, ids in entry_ids.items()))
    addresses: Mapping[int, str] = {
        id_: assoc_.data.decode() for answer in answers for id_, assoc_ in answer[AUDITED].items()
    }
    return [DatedEntry(assoc.id2, entry, addresses.get(assoc.id2, entry.address)) for assoc, entry in found]

"""Follow history: when two members followed each other, and how a member's number of followers changed.

The history of a follow is visible only to the two members, each from their own side. Moderators cannot read it: past follows
reveal who ended a relationship and when, which no report depends on. Daily follower counts are visible only to the member.
They are computed backwards from the current number of followers and every start and end of a follow.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, date, datetime
from typing import NamedTuple

from shoal.core.errors import InvalidInput
from shoal.core.ids import BACKDATED_UNTIL_MS, EPOCH_MS, floor_at, milliseconds_of, now_ms
from shoal.core.model import Member
from shoal.graph.access import association, count_of, get_object
from shoal.graph.contract import MAX_TIME, Assoc, Cursor
from shoal.graph.payloads.follows import FollowSpan, beginning, moments_until, periods
from shoal.graph.schema import ASSOC_TYPES, EVERYBODY, FOLLOWED_BY, FOLLOWER_TIMES, FOLLOWS, HISTORY_START, AssocType
from shoal.queries.context import Reads

_DAY_MS = 86_400_000
_HISTORY_TYPES = {atype: ASSOC_TYPES[atype.history] for atype in (FOLLOWS, FOLLOWED_BY)}
"""The association types of a follow from both ends, each with the type that records ended follows."""


class FollowPeriod(NamedTuple):
    """A period during which a member followed another, in Unix milliseconds.

    `since` is None if unknown: the follow was imported, or ended before follow periods were recorded. `until` is None
    for a current follow.
    """

    since: int | None
    until: int | None


class RelationshipHistory(NamedTuple):
    """When two members followed each other, newest first: at most 20 periods each way."""

    following: list[FollowPeriod]
    followed_by: list[FollowPeriod]
    known_since: int
    """Follows that ended before this time (Unix milliseconds) are not recorded."""


async def history(reads: Reads, viewer: int, other: int) -> RelationshipHistory:
    """Return when two members followed each other, even if either has blocked the other.

    Raises `NotFound` for an unknown member.
    """
    await get_object(reads.graph, Member, other)
    since = await known_since(reads)
    alive = await reads.lasting.assoc_get(viewer, tuple(_HISTORY_TYPES), (other,))
    # Read the ended follows last, so that a follow that ends in between appears twice rather than not at all.
    ended = await reads.lasting.assoc_ended(viewer, (*_HISTORY_TYPES, *_HISTORY_TYPES.values()), (other,))
    following, followed_by = [
        recorded_periods(alive[atype].get(other), [*ended[atype].values(), *ended[past].values()])
        for atype, past in _HISTORY_TYPES.items()
    ]
    return RelationshipHistory(dated(following, since), dated(followed_by, since), since)


def recorded_periods(alive: Assoc | None, ended: list[Assoc]) -> list[FollowSpan]:
    """Return the periods recorded by associations: the live follow, if any, and the tombstones of ended ones, newest first."""
    moments = frozenset[int]().union(*(moments_until(row.time, row.data) for row in ended))
    if alive is None:
        return [period for period in periods(moments) if period.until]
    return periods(moments, beginning(alive.time, alive.data))


def dated(spans: Iterable[FollowSpan], since: int) -> list[FollowPeriod]:
    """Convert stored periods of follows to Unix milliseconds. Omit periods that ended before `since`."""
    found = map(_dated, spans)
    return [period for period in found if period.until is None or period.until >= since]


def _dated(period: FollowSpan) -> FollowPeriod:
    since, until = (milliseconds_of(moment) if moment else 0 for moment in period)
    return FollowPeriod(since if since >= BACKDATED_UNTIL_MS else None, until or None)


async def known_since(reads: Reads) -> int:
    """Return the time (Unix ms) from which on every end of a follow is recorded and may be shown."""
    retained_since = now_ms() - int(reads.history_days * _DAY_MS)
    # Ended follows are recorded since the time of this mark or, in a network without the mark, since its first day.
    mark = await association(reads.lasting, EVERYBODY, HISTORY_START, EVERYBODY)
    return retained_since if mark is None else max(retained_since, milliseconds_of(mark.time))


DAYS = 90
MAX_DAYS = 400

_PAGE = 2_000
_MOST = 100_000
"""Maximum number of starts, and of ends, that are read (0.2 s for each). For a member with more, the series begins
later."""

_ReadPage = Callable[[int, AssocType, Cursor], Awaitable[list[Assoc]]]


class FollowersOfDay(NamedTuple):
    """A day (UTC) with the followers at its end, and the follows that began and ended during it. The last day is today."""

    day: date
    followers: int
    gained: int
    lost: int


class _Part(NamedTuple):
    """The newest entries of a list, without gaps since `whole_since` (Unix milliseconds)."""

    rows: list[Assoc]
    whole_since: int


async def by_day(reads: Reads, member: int, days: int = DAYS) -> list[FollowersOfDay]:
    """Return the number of followers of a member on each of the last `days` (1 to 400), oldest first.

    Fewer days are returned if ended follows are not kept for that long, or if more than 100,000 follows began or ended in that
    time. Of repeated follows by one member, only the last 20 count. Raises `InvalidInput`.
    """
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInput(f"days: must be 1 to {MAX_DAYS}", field="days")
    today = now_ms() // _DAY_MS
    first = max(today - days + 1, _first_whole_day(await known_since(reads)))
    graph = reads.lasting
    now = await count_of(graph, member, FOLLOWED_BY)
    begun, ended, past = [
        await _newest(read, member, atype, first * _DAY_MS)
        for read, atype in (
            (graph.assoc_range, FOLLOWED_BY),
            (graph.assoc_ended_range, FOLLOWED_BY),
            (graph.assoc_ended_range, FOLLOWER_TIMES),
        )
    ]
    first = max(first, *(_first_whole_day(part.whole_since) for part in (begun, ended, past)))
    gained, lost = _changes(begun.rows, [*ended.rows, *past.rows])
    return _series(range(first, today + 1), now, gained, lost)


def _first_whole_day(moment: int) -> int:
    """Return the first day that begins at or after a time (Unix ms), as a number of days since 1970."""
    return -(-moment // _DAY_MS)


async def _newest(read: _ReadPage, member: int, atype: AssocType, since: int) -> _Part:
    """Read the entries of a list since a time (Unix ms), newest first, but at most `_MOST` of them."""
    rows: list[Assoc] = []
    before = MAX_TIME
    while len(rows) < _MOST:
        page = await read(member, atype, Cursor(before=before, after=max(0, floor_at(since) - 1), limit=_PAGE))
        rows += page
        if len(page) < _PAGE:
            return _Part(rows, since)
        before = page[-1].time
        # Yield to other tasks, because a store in this process answers without yielding.
        await asyncio.sleep(0)
    return _Part(rows, milliseconds_of(rows[-1].time) + 1)


def _changes(begun: list[Assoc], ended: list[Assoc]) -> tuple[Counter[int], Counter[int]]:
    alive = {row.id2: row for row in begun}
    tombstones: dict[int, list[Assoc]] = {}
    for row in ended:
        tombstones.setdefault(row.id2, []).append(row)
    gained = Counter(_day(beginning(row.time, row.data)) for id2, row in alive.items() if id2 not in tombstones)
    lost: Counter[int] = Counter()
    for id2, rows in tombstones.items():
        for period in recorded_periods(alive.get(id2), rows):
            if period.since:
                gained[_day(period.since)] += 1
            if period.until:
                lost[_day(period.until)] += 1
    return gained, lost


def _day(moment: int) -> int:
    """Return the day of a snowflake as a number of days since 1970. An imported follow has no date, and counts as oldest."""
    milliseconds = milliseconds_of(moment)
    return (milliseconds if milliseconds >= BACKDATED_UNTIL_MS else EPOCH_MS) // _DAY_MS


def _series(days: range, now: int, gained: Counter[int], lost: Counter[int]) -> list[FollowersOfDay]:
    found: list[FollowersOfDay] = []
    followers = now
    for day in reversed(days):
        date_of_day = datetime.fromtimestamp(day * _DAY_MS // 1_000, UTC).date()
        found.append(FollowersOfDay(date_of_day, followers, gained[day], lost[day]))
        # The difference may be negative, because a follow that starts during the reads may be in one list only.
        followers = max(0, followers + lost[day] - gained[day])
    return found[::-1]

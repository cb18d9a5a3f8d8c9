"""How many followed a member at the end of each day, and how many came and went: for the member alone.

The number of followers is known now, and every beginning and end since; so the days are counted backwards.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime
from typing import NamedTuple

from shoal.core.errors import InvalidInput
from shoal.core.ids import BACKDATED_UNTIL_MS, EPOCH_MS, floor_at, milliseconds_of
from shoal.feeds.reads import Reads
from shoal.feeds.relationships.history import known_since, told_periods
from shoal.graph.contract import MAX_TIME, Assoc, Cursor
from shoal.graph.payloads.follows import beginning
from shoal.graph.schema import FOLLOWED_BY, FOLLOWER_TIMES, AssocType

DAYS = 90
"""Days of a series by default."""
MAX_DAYS = 400

_DAY_MS = 86_400_000
_PAGE = 2_000
_MOST = 100_000
"""Beginnings, and ends, that are read at most: 0.2 s of each. The series of a member with more begins later."""

_ReadPage = Callable[[int, AssocType, Cursor], Awaitable[list[Assoc]]]


class FollowersOfDay(NamedTuple):
    """A day (UTC): followers at its end, and how many follows began and ended in it. The last day is today so far."""

    day: date
    followers: int
    gained: int
    lost: int


class _Part(NamedTuple):
    """The newest of a list, and from which moment on (Unix milliseconds) nothing of it is missing."""

    rows: list[Assoc]
    whole_since: int


async def by_day(reads: Reads, member: int, days: int = DAYS) -> list[FollowersOfDay]:
    """Return the followers of a member over the last `days` (1 to 400), oldest first.

    There are fewer days, or none, where histories are not kept for so long, and for a member whom more than 100,000 began or
    ceased to follow in that time. Of a member who followed more than 20 times the last 20 count. Raises `InvalidInput`.
    """
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInput(f"days: 1 to {MAX_DAYS}", field="days")
    today = time.time_ns() // 1_000_000 // _DAY_MS
    first = max(today - days + 1, _first_whole_day(await known_since(reads)))
    graph = reads.lasting
    now = (await graph.assoc_count((member,), (FOLLOWED_BY,)))[FOLLOWED_BY].get(member, 0)
    begun, ended, aside = [
        await _newest(read, member, atype, first * _DAY_MS)
        for read, atype in (
            (graph.assoc_range, FOLLOWED_BY),
            (graph.assoc_ended_range, FOLLOWED_BY),
            (graph.assoc_ended_range, FOLLOWER_TIMES),
        )
    ]
    first = max(first, *(_first_whole_day(part.whole_since) for part in (begun, ended, aside)))
    gained, lost = _changes(begun.rows, [*ended.rows, *aside.rows])
    return _series(range(first, today + 1), now, gained, lost)


def _first_whole_day(moment: int) -> int:
    """The first day, counted from 1970, that begins at this moment or later."""
    return -(-moment // _DAY_MS)


async def _newest(read: _ReadPage, member: int, atype: AssocType, since: int) -> _Part:
    """Read a list back to a moment in Unix milliseconds, or as much of it as is ever read."""
    rows: list[Assoc] = []
    before = MAX_TIME
    while len(rows) < _MOST:
        page = await read(member, atype, Cursor(before=before, after=max(0, floor_at(since) - 1), limit=_PAGE))
        rows += page
        if len(page) < _PAGE:
            return _Part(rows, since)
        before = page[-1].time
        # A store in this process answers at once: others have a turn.
        await asyncio.sleep(0)
    return _Part(rows, milliseconds_of(rows[-1].time) + 1)


def _changes(begun: list[Assoc], ended: list[Assoc]) -> tuple[Counter[int], Counter[int]]:
    """Count beginnings and ends by day."""
    alive = {row.id2: row for row in begun}
    tombstones: dict[int, list[Assoc]] = {}
    for row in ended:
        tombstones.setdefault(row.id2, []).append(row)
    gained = Counter(_day(beginning(row.time, row.data)) for id2, row in alive.items() if id2 not in tombstones)
    lost: Counter[int] = Counter()
    for id2, rows in tombstones.items():
        for period in told_periods(alive.get(id2), rows):
            if period.since:
                gained[_day(period.since)] += 1
            if period.until:
                lost[_day(period.until)] += 1
    return gained, lost


def _day(moment: int) -> int:
    """The day of a snowflake, counted from 1970. Ids of imported follows do not tell it: such are from before all days."""
    milliseconds = milliseconds_of(moment)
    return (milliseconds if milliseconds >= BACKDATED_UNTIL_MS else EPOCH_MS) // _DAY_MS


def _series(days: range, now: int, gained: Counter[int], lost: Counter[int]) -> list[FollowersOfDay]:
    found: list[FollowersOfDay] = []
    followers = now
    for day in reversed(days):
        date_of_day = datetime.fromtimestamp(day * _DAY_MS // 1_000, UTC).date()
        found.append(FollowersOfDay(date_of_day, followers, gained[day], lost[day]))
        # Who follows while this is read may be in one list and not in the other.
        followers = max(0, followers + lost[day] - gained[day])
    return found[::-1]

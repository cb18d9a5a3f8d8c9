"""When two members followed each other: for these two alone, each from the own end.

Nobody else may ask, moderators neither: past follows tell who fell out with whom and when, and no report is decided by that.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from shoal.core.errors import NotFound
from shoal.core.ids import BACKDATED_UNTIL_MS, milliseconds_of
from shoal.feeds.reads import Reads
from shoal.graph.access import association, members_by_id
from shoal.graph.contract import Assoc, Reader
from shoal.graph.payloads.follows import FollowSpan, beginning, moments_until, periods
from shoal.graph.schema import ASSOC_TYPES, EVERYBODY, FOLLOWED_BY, FOLLOWS, HISTORY_KEPT

_DAY_MS = 86_400_000
_ASIDE = {atype: ASSOC_TYPES[atype.history] for atype in (FOLLOWS, FOLLOWED_BY)}
"""The types of a follow, seen from either end, and of what is kept aside while it is alive."""


class FollowPeriod(NamedTuple):
    """A time during which a member followed another, in Unix milliseconds.

    `since` is None where it is not known: the follow was imported, or ended before histories were kept. `until` is None
    while it goes on.
    """

    since: int | None
    until: int | None


class RelationshipHistory(NamedTuple):
    """When two members followed each other, newest first: at most 20 periods each way."""

    following: list[FollowPeriod]
    """When the viewer followed the other."""
    followed_by: list[FollowPeriod]
    """When the other followed the viewer."""
    known_since: int
    """Follows that ended before this moment (Unix milliseconds) are not remembered."""


async def history(reads: Reads, viewer: int, other: int) -> RelationshipHistory:
    """Return when these two followed each other, also where one has blocked the other. Raises `NotFound` for no member."""
    if not await members_by_id(reads.graph, (other,)):
        raise NotFound("Record not found")
    since = await known_since(reads)
    alive = await reads.lasting.assoc_get(viewer, tuple(_ASIDE), (other,))
    # Read later: what ends in between is told twice, and not left out.
    ended = await reads.lasting.assoc_ended(viewer, (*_ASIDE, *_ASIDE.values()), (other,))
    following, followed_by = [
        told_periods(alive[atype].get(other), [*ended[atype].values(), *ended[aside].values()])
        for atype, aside in _ASIDE.items()
    ]
    return RelationshipHistory(dated(following, since), dated(followed_by, since), since)


def told_periods(alive: Assoc | None, ended: list[Assoc]) -> list[FollowSpan]:
    """Return the periods that a live follow, if there is one, and tombstones tell of, newest first."""
    moments = frozenset[int]().union(*(moments_until(row.time, row.data) for row in ended))
    if alive is None:
        return [period for period in periods(moments) if period.until]
    return periods(moments, beginning(alive.time, alive.data))


def dated(told: Iterable[FollowSpan], since: int) -> list[FollowPeriod]:
    """Return periods in Unix milliseconds, without those that ended before `since`."""
    found = map(_dated, told)
    return [period for period in found if period.until is None or period.until >= since]


def _dated(period: FollowSpan) -> FollowPeriod:
    since, until = (milliseconds_of(moment) if moment else 0 for moment in period)
    return FollowPeriod(since if since >= BACKDATED_UNTIL_MS else None, until or None)


async def known_since(reads: Reads) -> int:
    """Return from which moment on (Unix milliseconds) every end of a follow is remembered and may be told."""
    kept = time.time_ns() // 1_000_000 - int(reads.history_days * _DAY_MS)
    return max(kept, await history_kept_since(reads.lasting))


async def history_kept_since(graph: Reader) -> int:
    """Return since when the network keeps histories, in Unix milliseconds; 0: from its beginning."""
    mark = await association(graph, EVERYBODY, HISTORY_KEPT, EVERYBODY)
    return milliseconds_of(mark.time) if mark is not None else 0

"""Catch-up: the best posts and shares of a member's followees since their last visit, on one finite page.

Sources, filters and terms are shared with For you, but restricted to followees, with the length of the absence as the
half-life of freshness. `core.ranking.reranking.chosen` selects the posts, starting with posts of followees who post
rarely.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from shoal.core.errors import InvalidInput
from shoal.core.ids import floor_at, milliseconds_of
from shoal.core.ranking.preferences import Interests
from shoal.core.ranking.recipes import MOST_HALF_LIFE_HOURS
from shoal.core.ranking.reranking import QUIET_DAYS, QUIET_MOST, Chosen, Source, chosen, end_words
from shoal.graph.cache.coherence import one_request
from shoal.graph.contract import Assoc, Cursor
from shoal.graph.payloads.members import HOME, marks, personalization_of
from shoal.graph.schema import POSTED
from shoal.queries import home
from shoal.queries.context import Reads
from shoal.queries.foryou.feed import RankedEntry, part, recipe_for
from shoal.queries.foryou.interests import interests_of, wished
from shoal.queries.foryou.ranking import reading_of
from shoal.queries.foryou.scoring import Scored, scored
from shoal.queries.foryou.sources import Candidates, Proposal, closest_followees, proposals
from shoal.queries.pagination import check_limit

MOST_DAYS = 30
_USUAL_DAYS = 7
"""Default period for a member without a read marker."""
_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
_FRIENDS = 500
"""Maximum number of followees whose own posts are read: those whose posts the member likes most, then the latest
followed."""
_POSTS_EACH = 10
_HOME = 400


class CatchUp(NamedTuple):
    since: int
    """The last visit, in Unix milliseconds."""
    until: int
    quiet: list[RankedEntry]
    """Posts of followees who post rarely, best first."""
    best: list[RankedEntry]
    left_out: int
    """Number of posts of the period that are left out here and shown in the home timeline."""
    by_time: bool
    """Whether the member has turned ranking off: then the newest posts are selected, without a quiet part."""

    @property
    def words(self) -> str:
        return end_words(self.since, self.until, self.left_out)


async def catch_up(
    reads: Reads, viewer: int, since: int | None = None, limit: int = 20, *, explain: bool = False
) -> CatchUp:
    """Return the best posts since a time (Unix ms), by default since the member's read marker at home.

    Goes back 30 days at most, and a week for a member without a read marker. Raises `InvalidInput` for a limit below 1 and for a
    time in the future.
    """
    check_limit(Cursor(limit=limit))
    now = reads.tags.clock()
    if since is not None and since > now:
        raise InvalidInput("since: must be in the past", field="since")
    with one_request():
        return await _caught_up(reads, viewer, since, now, limit, explain=explain)


async def _caught_up(reads: Reads, viewer: int, since: int | None, now: int, limit: int, *, explain: bool) -> CatchUp:
    personalization, interests, left = await asyncio.gather(
        personalization_of(reads.graph, viewer), interests_of(reads, viewer), _left(reads, viewer, now)
    )
    interests = await wished(reads, interests, personalization.feedback)
    after = max(left if since is None else floor_at(since), floor_at(now - MOST_DAYS * _DAY_MS))
    # The clock of the process that created the id may be ahead of this one.
    began = min(milliseconds_of(after), now)
    half_life = min(max((now - began) / _HOUR_MS, 1.0), MOST_HALF_LIFE_HOURS)
    recipe = replace(recipe_for(reads, personalization), half_life_hours=half_life)
    proposed, quiet = await _missed(reads, viewer, interests, after, now)
    found = _of_period(await scored(reads, viewer, personalization, recipe, interests, proposed), proposed, after)
    rows = (
        _newest(found, limit) if personalization.off else chosen([post.author_id for post in found.posts], quiet, limit)
    )
    order = [*rows.quiet, *rows.best]
    explain = explain and not personalization.off
    reading = reading_of(viewer, found.only(order), proposed, recipe, interests, explain=explain)
    shown, _ = await part(reads, viewer, reading, 0, limit)
    first = {found.posts[row].id for row in rows.quiet}
    return CatchUp(
        since=began,
        until=now,
        quiet=[ranked for ranked in shown if ranked.entry.id in first],
        best=[ranked for ranked in shown if ranked.entry.id not in first],
        left_out=len(found.posts) - len(order),
        by_time=personalization.off,
    )


async def _left(reads: Reads, viewer: int, now: int) -> int:
    """Return the id of the newest entry that the member has read in the home timeline; if unknown, an id from a week ago."""
    mark = (await marks(reads.graph, viewer, (HOME,))).get(HOME)
    return floor_at(now - _USUAL_DAYS * _DAY_MS) if mark is None else mark.last_read_id


async def _missed(
    reads: Reads, viewer: int, interests: Interests, after: int, now: int
) -> tuple[dict[int, Proposal], frozenset[int]]:
    """Return the posts that followees posted or shared after the id `after`, and the followees who post rarely.

    Only the closest followees, whose own posts are read, can count as posting rarely.
    """
    friends = closest_followees(interests, _FRIENDS)
    at_home, posted = await asyncio.gather(
        home.newest(reads, viewer, _HOME), reads.graph.assoc_ranges(friends, POSTED, Cursor(limit=_POSTS_EACH))
    )
    found = Candidates()
    found.add((id_ for id_ in at_home if id_ > after), Source.FOLLOWEES)
    found.add((row.id2 for rows in posted.values() for row in rows if row.time > after), Source.FOLLOWEES)
    return await proposals(reads, viewer, found), _quiet(posted, friends, now)


def _quiet(posted: Mapping[int, Sequence[Assoc]], friends: Sequence[int], now: int) -> frozenset[int]:
    month = floor_at(now - QUIET_DAYS * _DAY_MS)
    return frozenset(id_ for id_ in friends if sum(row.time > month for row in posted.get(id_, ())) <= QUIET_MOST)


def _of_period(found: Scored, proposed: Mapping[int, Proposal], after: int) -> Scored:
    """Remove posts from before the requested period, unless a followee shared them during it."""
    rows = [
        row
        for row, post in enumerate(found.posts)
        if post.id > after or proposed[post.id].source & Source.FRIENDS_SHARED.value
    ]
    return found.only(rows)


def _newest(found: Scored, limit: int) -> Chosen:
    by_time = sorted(range(len(found.posts)), key=lambda row: -found.posts[row].id)
    return Chosen([], by_time[:limit])

"""The For You feed: ranking stages with a fixed number of bulk reads each, and pages of the result.

1. Sources propose ids (`sources`), at most 1,000 posts.
2. Hydration reads the posts, their authors, and the viewer's relation to them (`hydration.ViewerState`).
3. Filters remove posts that the viewer may not see or does not want, and posts that a rule excludes (`scoring`).
4. Scoring turns facts into a matrix, which `core.ranking.terms` scores at once (`scoring`).
5. Diversification orders the posts, puts photos first and mixes in exploration (`core.ranking.reranking`).

The ranking is cached for an hour. Later pages are parts of it, without posts that may no longer be shown; nothing else changes.
If a stage fails, or all stages together exceed the deadline, the page shows the home timeline and states the reason.

The feed is also available as a list, for clients that support only home and lists and page by the last id they have. Each member
has one ranking for the list. A page before an id has the entries that follow it in the ranking. A page after an id has
the entries of a new ranking that the cached one lacks; they are put in front of it. For example, with a ranking of 5, 2, 9:

    first page of two            5 2
    before 2                     9
    newer than 5, ranked 7 2 5   7        the ranking is 7, 5, 2, 9 from now on
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import NamedTuple

from shoal.core.errors import Unavailable
from shoal.core.filters import FilterContext
from shoal.core.model import MemberList, Post, Review
from shoal.core.ranking.preferences import Interests
from shoal.core.ranking.recipes import Recipe
from shoal.core.ranking.reranking import EXPLORED_BELOW, Diversified, Part, Ranked, Source, diversify
from shoal.graph.access import access_post
from shoal.graph.cache.coherence import one_request
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.graph.payloads.members import Personalization, personalization_of
from shoal.queries import home, lists
from shoal.queries.context import Reads
from shoal.queries.foryou.interests import interests_of, wished
from shoal.queries.foryou.ranking import (
    Reading,
    ReadingCursor,
    Why,
    decode_reading,
    encode_reading,
    new_reading_id,
    reading_of,
)
from shoal.queries.foryou.scoring import RULE_WORDS, Rule, Scored, excluding_rule, scored
from shoal.queries.foryou.sources import Proposal, candidates, proposals
from shoal.queries.hydration import Entry, hydrate, viewer_state
from shoal.queries.pagination import check_limit
from shoal.queries.pipeline import Page, content_filters_of
from shoal.throttled_log import ThrottledLog

_outage = ThrottledLog(logging.getLogger(__name__))

DEADLINE_SECONDS = 0.15
_MOST_AT_ONCE = 64
_EXPLORATION = Source.EXPLORATION.value
MOST_POSITIONS = 500
"""Posts in a ranking."""

OFF, LATE, FAILED = "off", "late", "failed"
"""Why a page shows the home timeline: ranking is off, exceeded the deadline, or failed because a store was unavailable."""


class RankedEntry(NamedTuple):
    """An entry of a feed with the explanation of its position; `why` is None if the feed was not ranked."""

    entry: Entry
    why: Why | None


class ForYou(NamedTuple):
    """A page of the For you feed. `next` is the cursor of the next page; empty at the end."""

    entries: list[RankedEntry]
    next: str
    by_time: str = ""
    """Why the page shows the home timeline: `off`, `late` or `failed`; empty for a ranked page."""


async def page(
    reads: Reads,
    viewer: int,
    limit: int = 20,
    cursor: ReadingCursor | None = None,
    *,
    explain: bool = False,
    deadline: float = DEADLINE_SECONDS,
) -> ForYou:
    """Return a page of a member's feed, ranked by their own recipe or the server's.

    Raises `InvalidInput` for a limit below 1.
    """
    check_limit(Cursor(limit=limit))
    with one_request():
        before = await cached_reading(reads, viewer, cursor.reading_id) if cursor is not None else None
        if cursor is not None and before is not None:
            return await _page_of(reads, viewer, before, cursor, limit)
        reading = await new_reading(reads, viewer, explain=explain, deadline=deadline)
        if isinstance(reading, str):
            found = await home.page(reads, viewer, Cursor(limit=limit), direct=False)
            return ForYou([RankedEntry(entry, None) for entry in found.entries], "", reading)
        at = ReadingCursor(new_reading_id(viewer), cursor.position if cursor is not None else 0)
        await keep(reads, at.reading_id, reading)
        return await _page_of(reads, viewer, reading, at, limit)


async def new_reading(
    reads: Reads, viewer: int, *, explain: bool = False, deadline: float = DEADLINE_SECONDS
) -> Reading | str:
    """Rank a member's feed. Returns a reason instead if the home timeline has to be shown: `off`, `late` or `failed`."""
    personalization = await personalization_of(reads.graph, viewer)
    if personalization.off:
        return OFF
    try:
        reading = await _in_time(reads, viewer, personalization, deadline, explain=explain)
    except Unavailable:
        _outage.warning("ranking a feed failed; falling back to the home timeline", exc_info=True)
        return FAILED
    return LATE if reading is None else reading


async def _in_time(
    reads: Reads, viewer: int, personalization: Personalization, deadline: float, *, explain: bool
) -> Reading | None:
    """Rank the feed; return None if that exceeds the deadline.

    A late ranking continues, so that its reads are cached: if it were canceled, the next attempt would be late too. At most one
    ranking per viewer and 64 in total run concurrently; further ones are not started, and return None.
    """
    in_flight = reads.being_ranked
    if viewer in in_flight or len(in_flight) >= _MOST_AT_ONCE:
        return None
    task = in_flight[viewer] = asyncio.create_task(_ranked(reads, viewer, personalization, explain=explain))
    task.add_done_callback(lambda done: _let_go(in_flight, viewer, done))
    done, _ = await asyncio.wait({task}, timeout=deadline)
    return task.result() if done else None


def _let_go(in_flight: dict[int, asyncio.Task[Reading]], viewer: int, done: asyncio.Task[Reading]) -> None:
    del in_flight[viewer]
    if not done.cancelled():
        # Mark the error as retrieved, in case no caller waits for it.
        done.exception()


async def cached_reading(reads: Reads, viewer: int, id_: int) -> Reading | None:
    """Return the viewer's cached ranking; None if it has expired."""
    try:
        data = await reads.readings.get(id_)
    except Unavailable:
        return None
    reading = decode_reading(data) if data is not None else None
    return reading if reading is not None and reading.viewer == viewer else None


async def keep(reads: Reads, id_: int, reading: Reading) -> None:
    """Cache a ranking for an hour. An error of the cache is ignored."""
    try:
        await reads.readings.keep(id_, encode_reading(reading))
    except Unavailable:
        _outage.warning("caching a ranked feed failed; the feed will be ranked again for its next page")


async def _page_of(reads: Reads, viewer: int, reading: Reading, at: ReadingCursor, limit: int) -> ForYou:
    entries, position = await part(reads, viewer, reading, at.position, limit)
    following = ReadingCursor(at.reading_id, position).encode() if position < len(reading) else ""
    return ForYou(entries, following)


async def part(reads: Reads, viewer: int, reading: Reading, position: int, limit: int) -> tuple[list[RankedEntry], int]:
    """Return the entries of a ranking from a position on, and the position after them.

    Entries that may no longer be shown are replaced by the next ones.
    """
    content_filters = await content_filters_of(reads.graph, viewer, FilterContext.HOME)
    shown: list[RankedEntry] = []
    while len(shown) < limit and position < len(reading):
        ids = reading.part(position, position + limit - len(shown))
        why = dict(zip(ids, reading.why(position, position + len(ids)), strict=True))
        found = await content_filters.admitted(await hydrate(reads.graph, viewer, ids))
        shown += [
            RankedEntry(entry, why[entry.id])
            for entry in found
            if excluding_rule(viewer, entry.post, entry.author.member, entry.relation, frozenset()) is None
        ]
        position += len(ids)
    return shown, position


async def _ranked(reads: Reads, viewer: int, personalization: Personalization, *, explain: bool) -> Reading:
    recipe = recipe_for(reads, personalization)
    interests = await wished(reads, await interests_of(reads, viewer), personalization.feedback)
    proposed = await _proposed(reads, viewer, interests, recipe)
    return await _read(reads, viewer, personalization, interests, proposed, explain=explain)


async def _proposed(reads: Reads, viewer: int, interests: Interests, recipe: Recipe) -> dict[int, Proposal]:
    return await proposals(reads, viewer, await candidates(reads, viewer, interests, recipe.near_km))


async def _read(
    reads: Reads,
    viewer: int,
    personalization: Personalization,
    interests: Interests,
    proposed: Mapping[int, Proposal],
    *,
    explain: bool,
) -> Reading:
    recipe = recipe_for(reads, personalization)
    best = await scored(reads, viewer, personalization, recipe, interests, proposed)
    author_most = author_most_for(personalization, interests, recipe)
    return in_order(viewer, best, proposed, recipe, author_most, interests, explain=explain)


def author_most_for(personalization: Personalization, interests: Interests, recipe: Recipe) -> int:
    """Return how many of any ten consecutive posts may be by one author.

    For a member with unknown interests and no own recipe, the feed shows as many authors as possible.
    """
    return recipe.author_most if interests.known or personalization.recipe is not None else 1


def in_order(
    viewer: int,
    best: Scored,
    proposed: Mapping[int, Proposal],
    recipe: Recipe,
    author_most: int,
    interests: Interests,
    *,
    explain: bool = False,
) -> Reading:
    """Diversify scored posts, and return the final ranking. Reads nothing from the stores."""
    diversified = _diversified(
        best.only(range(min(len(best.posts), MOST_POSITIONS))), proposed, author_most, recipe.exploration
    )
    ordered = best.only([candidate.row for candidate in diversified])
    return reading_of(viewer, ordered, proposed, recipe, interests, diversified, explain=explain)


def recipe_for(reads: Reads, personalization: Personalization) -> Recipe:
    return personalization.recipe or reads.recipe


def _diversified(
    best: Scored, proposed: Mapping[int, Proposal], author_most: int, exploration: float
) -> list[Diversified]:
    ranked = [
        Ranked(
            author=post.author_id,
            tag=post.tags[0] if post.tags else None,
            source=source & -source,
            part=_part(source, reactions),
            photos=photos > 0,
        )
        for post, source, reactions, photos in zip(
            best.posts,
            [proposed[post.id].source for post in best.posts],
            best.author_reactions.tolist(),
            best.photos.tolist(),
            strict=True,
        )
    ]
    return diversify(ranked, author_most=author_most, exploration=exploration)


def _part(source: int, reactions: float) -> Part:
    if source != _EXPLORATION:
        return Part.RANKED
    return Part.EXPLORING if reactions < EXPLORED_BELOW else Part.REST


class FeedExplanation(NamedTuple):
    """The position of a post in a ranked feed, or the stage and rule by which it was excluded."""

    stage: str
    rule: str
    words: str
    place: int | None = None
    """The position in the feed, starting at 1."""


async def why_not(reads: Reads, viewer: int, post_id: int) -> FeedExplanation:
    """Return the position at which the viewer's feed would show a post now, or why it would not.

    Raises `NotFound` for a post that the viewer may not see.
    """
    with one_request():
        return await _explain(reads, viewer, await access_post(reads.graph, viewer, post_id))


async def _explain(reads: Reads, viewer: int, post: Post) -> FeedExplanation:
    personalization = await personalization_of(reads.graph, viewer)
    if personalization.off:
        return FeedExplanation("sources", OFF, "you have turned ranking off")
    seen = viewer_state(reads.graph, viewer)
    if not await seen.look((post.id,)):
        if post.review is Review.UPHELD:
            return FeedExplanation("filter", Rule.REPORTED.value, RULE_WORDS[Rule.REPORTED])
        return FeedExplanation("filter", "muted", "you mute its author")
    member, relation = seen.members[post.author_id], seen.relationships[post.author_id]
    apart = await lists.set_apart(reads.graph, viewer)
    if (rule := excluding_rule(viewer, post, member, relation, apart)) is not None:
        return FeedExplanation("filter", rule.value, RULE_WORDS[rule])
    if not await (await content_filters_of(reads.graph, viewer, FilterContext.HOME)).admitted(
        await hydrate(reads.graph, viewer, (post.id,))
    ):
        return FeedExplanation("filter", "filtered", "one of your filters hides it")
    interests = await wished(reads, await interests_of(reads, viewer), personalization.feedback)
    proposed = await _proposed(reads, viewer, interests, recipe_for(reads, personalization))
    if post.id not in proposed:
        return FeedExplanation(
            "sources", "no_source", "no source has it: no followee, suggestion or tag of yours leads to it now"
        )
    reading = await _read(reads, viewer, personalization, interests, proposed, explain=False)
    ids = reading.part(0, len(reading))
    if post.id not in ids:
        return FeedExplanation("score", "too_low", f"{len(ids)} posts have a higher score")
    position = ids.index(post.id) + 1
    return FeedExplanation("shown", "", f"it is ranked {position} of {len(ids)}", position)


FOR_YOU_LIST = 1
"""The id of the For you list. No other list can have this id, because it dates from the first millisecond of the id
epoch."""
_TITLE = "For you"


def for_you_list(owner: int) -> MemberList:
    """Return the virtual list that shows a member's For you feed to clients. It is not stored, and has no members."""
    return MemberList(id=FOR_YOU_LIST, owner_id=owner, title=_TITLE)


async def list_page(
    reads: Reads, viewer: int, cursor: Cursor, *, deadline: float = DEADLINE_SECONDS
) -> tuple[Page, str]:
    """Return a page of the For you list. The second value says why it is not ranked: `off`, `late`, `failed`; "" if it is.

    A ranking is cached for an hour; after that a cursor leads to the start of a new one. Raises `InvalidInput` for a limit
    below 1.
    """
    check_limit(cursor)
    with one_request():
        before = await cached_reading(reads, viewer, viewer)
        if (
            before is not None
            and cursor.before < MAX_TIME
            and (position := before.position_of(cursor.before)) is not None
        ):
            return await _from(reads, viewer, before, position + 1, cursor.limit), ""
        reading = await new_reading(reads, viewer, deadline=deadline)
        if isinstance(reading, str):
            return await home.page(reads, viewer, cursor, direct=False), reading
        if before is not None and cursor.after:
            fresh = reading.without(before)
            await keep(reads, viewer, fresh.followed_by(before, MOST_POSITIONS))
            return (await _from(reads, viewer, fresh, 0, cursor.limit))._replace(next=None), ""
        await keep(reads, viewer, reading)
        return await _from(reads, viewer, reading, 0, cursor.limit), ""


async def _from(reads: Reads, viewer: int, reading: Reading, position: int, limit: int) -> Page:
    shown, behind = await part(reads, viewer, reading, position, limit)
    following = reading.part(behind - 1, behind) if behind < len(reading) else []
    return Page([ranked.entry for ranked in shown], following[0] if following else None)

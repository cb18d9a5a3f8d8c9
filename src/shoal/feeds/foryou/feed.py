"""For you: stages one after the other, each in a fixed number of bulk reads, and pages of what came out.

1. Sources propose ids (`sources`), at most 1,000 posts.
2. Hydrate: the posts, their authors, and how the viewer stands to them (`hydrate.Sight`).
3. Filter: what the viewer may not see or does not want falls away, and what rules keep out (`rules`).
4. Score: facts (`facts`) make a matrix, which `core.ranking.terms` scores at once.
5. Diversify and mix: `core.diversity` puts the posts in order, with exploration in between.

The order is a reading, kept for an hour. Later pages are parts of it: a post that may not be shown any more is left out of them,
and nothing else changes. If a stage fails, or all take longer than the deadline, the page is one of the home timeline, and says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shoal.core.errors import Unavailable
from shoal.core.filters import FilterContext
from shoal.core.model import Post
from shoal.core.ranking import terms
from shoal.core.ranking.diversity import Placed, Ranked, diversify
from shoal.core.ranking.interests import Interests
from shoal.core.ranking.recipes import Recipe
from shoal.core.ranking.sources import Source
from shoal.feeds import home, lists
from shoal.feeds.filtering import sieve_of
from shoal.feeds.foryou.facts import facts_of
from shoal.feeds.foryou.interests import interests_of
from shoal.feeds.foryou.reading import (
    Reading,
    ReadingCursor,
    Why,
    decode_reading,
    encode_reading,
    new_reading_id,
    packed,
)
from shoal.feeds.foryou.rules import RULE_WORDS, kept_out_by
from shoal.feeds.foryou.sources import Proposal, candidates, proposals
from shoal.feeds.hydrate import Entry, Row, Sight, hydrate, sight
from shoal.feeds.merging.pull import check_limit
from shoal.feeds.reads import Reads
from shoal.graph.access import access_post
from shoal.graph.contract import Cursor
from shoal.graph.payloads.tastes import Tastes, tastes_of
from shoal.graph.schema import REPORTS_POST

_log = logging.getLogger(__name__)

DEADLINE_SECONDS = 0.15
_MOST_AT_ONCE = 64
_MOST_PLACES = 500
"""Posts in a reading."""

OFF, LATE, FAILED = "off", "late", "failed"
"""Why a page is one of the home timeline: the member turned ranking off, it took too long, a part of the network failed."""


class RankedEntry(NamedTuple):
    """An entry and, where it was ranked, why it is there."""

    entry: Entry
    why: Why | None


class ForYou(NamedTuple):
    """A page. `next` is the cursor of the page after it; empty at the end."""

    entries: list[RankedEntry]
    next: str
    by_time: str = ""
    """Why these are entries of the home timeline by time: `off`, `late` or `failed`; empty for a ranked page."""


async def page(
    reads: Reads,
    viewer: int,
    limit: int = 20,
    cursor: ReadingCursor | None = None,
    *,
    explain: bool = False,
    deadline: float = DEADLINE_SECONDS,
) -> ForYou:
    """Return a page for a member, by their own recipe or that of the server.

    Raises `InvalidInput` for a limit below 1.
    """
    check_limit(Cursor(limit=limit))
    kept = await _kept(reads, viewer, cursor) if cursor is not None else None
    if cursor is not None and kept is not None:
        return await _part(reads, viewer, kept, cursor, limit)
    tastes = await tastes_of(reads.graph, viewer)
    if tastes.taste is not None and tastes.taste.off:
        return await _by_time(reads, viewer, limit, OFF)
    try:
        reading = await _in_time(reads, viewer, tastes, deadline, explain=explain)
    except Unavailable:
        _log.warning("a feed could not be ranked; the home timeline is shown", exc_info=True)
        return await _by_time(reads, viewer, limit, FAILED)
    if reading is None:
        return await _by_time(reads, viewer, limit, LATE)
    at = ReadingCursor(new_reading_id(viewer), cursor.place if cursor is not None else 0)
    await _keep(reads, at.reading_id, reading)
    return await _part(reads, viewer, reading, at, limit)


async def _in_time(reads: Reads, viewer: int, tastes: Tastes, deadline: float, *, explain: bool) -> Reading | None:
    """Rank; None when it takes longer than the deadline.

    What takes longer goes on, for what it reads is remembered: if it were given up, the next attempt would not be in time
    either. There is one for each viewer, and of all viewers no more than 64; beyond that nothing is ranked.
    """
    under_way = reads.being_ranked
    if viewer in under_way or len(under_way) >= _MOST_AT_ONCE:
        return None
    task = under_way[viewer] = asyncio.create_task(_ranked(reads, viewer, tastes, explain=explain))
    task.add_done_callback(lambda done: _let_go(under_way, viewer, done))
    done, _ = await asyncio.wait({task}, timeout=deadline)
    return task.result() if done else None


def _let_go(under_way: dict[int, asyncio.Task[Reading]], viewer: int, done: asyncio.Task[Reading]) -> None:
    del under_way[viewer]
    if not done.cancelled():
        # Whoever waits for it meets the error too; here nobody may be waiting any more.
        done.exception()


async def _kept(reads: Reads, viewer: int, cursor: ReadingCursor) -> Reading | None:
    """Return the viewer's reading that a cursor leads to; None when it is forgotten."""
    try:
        data = await reads.readings.get(cursor.reading_id)
    except Unavailable:
        return None
    reading = decode_reading(data) if data is not None else None
    return reading if reading is not None and reading.viewer == viewer else None


async def _keep(reads: Reads, id_: int, reading: Reading) -> None:
    try:
        await reads.readings.keep(id_, encode_reading(reading))
    except Unavailable:
        _log.warning("a reading could not be kept: its next page is ranked anew")


async def _by_time(reads: Reads, viewer: int, limit: int, reason: str) -> ForYou:
    found = await home.page(reads, viewer, Cursor(limit=limit))
    return ForYou([RankedEntry(entry, None) for entry in found.entries], "", reason)


async def _part(reads: Reads, viewer: int, reading: Reading, at: ReadingCursor, limit: int) -> ForYou:
    """Return the page of a reading that begins at a place. What may not be shown any more makes room for the next."""
    sieve = await sieve_of(reads.graph, viewer, FilterContext.HOME)
    shown: list[RankedEntry] = []
    place = at.place
    while len(shown) < limit and place < len(reading):
        ids = reading.part(place, place + limit - len(shown))
        places = {id_: place + n for n, id_ in enumerate(ids)}
        found = await sieve.admitted(await hydrate(reads.graph, viewer, ids))
        shown += [
            RankedEntry(entry, reading.why(places[entry.id]))
            for entry in found
            if kept_out_by(viewer, entry.post, entry.author.member, entry.relation, frozenset()) is None
        ]
        place += len(ids)
    following = ReadingCursor(at.reading_id, place).encode() if place < len(reading) else ""
    return ForYou(shown, following)


async def _ranked(reads: Reads, viewer: int, tastes: Tastes, *, explain: bool) -> Reading:
    recipe = recipe_for(reads, tastes)
    interests = await interests_of(reads, viewer)
    proposed = await _proposed(reads, viewer, interests, recipe)
    return await _scored(reads, viewer, tastes, interests, proposed, explain=explain)


async def _proposed(reads: Reads, viewer: int, interests: Interests, recipe: Recipe) -> dict[int, Proposal]:
    return await proposals(reads, viewer, await candidates(reads, viewer, interests, recipe.near_km))


async def _scored(
    reads: Reads, viewer: int, tastes: Tastes, interests: Interests, proposed: Mapping[int, Proposal], *, explain: bool
) -> Reading:
    recipe = recipe_for(reads, tastes)
    memory = tastes.seen.memory if tastes.seen is not None else b""
    seen = sight(reads.graph, viewer)
    rows = await _admitted(seen, viewer, proposed)
    if not rows:
        return Reading(viewer=viewer, ids=b"", sources=b"", lost=b"", recipe=recipe)
    facts = await facts_of(reads, interests, memory, rows, proposed, seen)
    found = terms.values(facts, half_life_hours=recipe.half_life_hours, near_km=recipe.near_km).astype(np.float32)
    scores = terms.scores(terms.contributions(found, recipe))
    ids = np.array([post.id for _, post, _ in rows], np.int64)
    order = terms.best_first(scores, ids)[:_MOST_PLACES]
    best = [rows[at][1] for at in order]
    placed = _placed(best, proposed, recipe)
    chosen = order[[one.row for one in placed]]
    return Reading(
        viewer=viewer,
        ids=packed(ids[chosen], "<i8"),
        sources=packed([proposed[best[one.row].id].source for one in placed], "<u2"),
        lost=packed([one.lost for one in placed], "<i2"),
        rules=tuple(one.rule for one in placed),
        values=packed(found[chosen], "<f4") if explain else b"",
        recipe=recipe,
    )


def recipe_for(reads: Reads, tastes: Tastes) -> Recipe:
    """Return the recipe by which posts are ranked for a member: their own, or else that of the server."""
    return reads.recipe if tastes.taste is None or tastes.taste.recipe is None else tastes.taste.recipe


async def _admitted(seen: Sight, viewer: int, proposed: Mapping[int, Proposal]) -> list[Row]:
    """Return the posts that the viewer may be shown and no rule keeps out."""
    rows, apart = await asyncio.gather(seen.look(list(proposed)), lists.set_apart(seen.graph, viewer))
    members, stands = seen.members, seen.stands
    rows = [
        row
        for row in rows
        if kept_out_by(viewer, row[1], members[row[1].author_id], stands[row[1].author_id], apart) is None
    ]
    reported = (await seen.graph.assoc_get(viewer, (REPORTS_POST,), [row[0] for row in rows]))[REPORTS_POST]
    return [row for row in rows if row[0] not in reported]


def _placed(best: Sequence[Post], proposed: Mapping[int, Proposal], recipe: Recipe) -> list[Placed]:
    ranked = [
        Ranked(
            author=post.author_id,
            tag=post.tags[0] if post.tags else None,
            source=_first(proposed[post.id].source),
            exploring=proposed[post.id].source == Source.EXPLORATION.value,
        )
        for post in best
    ]
    return diversify(ranked, author_most=recipe.author_most, exploration=recipe.exploration)


def _first(source: int) -> int:
    return source & -source


class Verdict(NamedTuple):
    """Where a post is in a ranked feed, or which stage and rule keep it out."""

    stage: str
    rule: str
    words: str
    place: int | None = None
    """From 1 on."""


async def why_not(reads: Reads, viewer: int, post_id: int) -> Verdict:
    """Return where a post would stand in the viewer's feed if it were ranked now, or what keeps it out.

    Raises `NotFound` for a post that the viewer may not see.
    """
    post = await access_post(reads.graph, viewer, post_id)
    tastes = await tastes_of(reads.graph, viewer)
    if tastes.taste is not None and tastes.taste.off:
        return Verdict("sources", OFF, "you have turned ranking off")
    seen = sight(reads.graph, viewer)
    if not await seen.look((post.id,)):
        return Verdict("filter", "muted", "you mute its author")
    member, stand = seen.members[post.author_id], seen.stands[post.author_id]
    apart = await lists.set_apart(reads.graph, viewer)
    if (rule := kept_out_by(viewer, post, member, stand, apart)) is not None:
        return Verdict("filter", rule.value, RULE_WORDS[rule])
    if not await (await sieve_of(reads.graph, viewer, FilterContext.HOME)).admitted(
        await hydrate(reads.graph, viewer, (post.id,))
    ):
        return Verdict("filter", "filtered", "one of your filters hides it")
    interests = await interests_of(reads, viewer)
    proposed = await _proposed(reads, viewer, interests, recipe_for(reads, tastes))
    if post.id not in proposed:
        return Verdict(
            "sources", "no_source", "none of your sources brings it: nobody and no tag near you leads to it now"
        )
    reading = await _scored(reads, viewer, tastes, interests, proposed, explain=False)
    ids = reading.part(0, len(reading))
    if post.id not in ids:
        return Verdict("score", "too_low", f"{len(ids)} posts have a higher score")
    place = ids.index(post.id) + 1
    return Verdict("shown", "", f"it stands at place {place} of {len(ids)}", place)

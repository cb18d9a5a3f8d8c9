"""The ranked feeds of a sample of active members by the recipe of the server and by another one, compared.

It reads, and keeps nothing. Ranking is as of now: by what members follow and like at this moment, by the reactions that posts
have by now, and by what members have seen. It says what would change from now on, and not what would have been shown then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace as with_changes
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.core.ranking.comparison import ReplayFigures, ShownAuthor, TopPost, TwoTops, figures
from shoal.core.ranking.recipes import Recipe
from shoal.ops.checking.report import Progress
from shoal.ops.network import AnyNetwork
from shoal.ops.replays.activity import active_since, sample
from shoal.queries.context import Remembered
from shoal.queries.foryou.preview import LeftOut, first_entries
from shoal.queries.hydration import Entry

MOST_DAYS = 30
MOST_MEMBERS = 1_000
MOST_TOP = 100
MOST_SEED = 2**32 - 1
RANKING = "members ranked"
"""The phase of which progress is told."""
_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The members and posts that take part."""

    days: Annotated[int, Meta(ge=1, le=MOST_DAYS)] = 7
    """Posts of so many days; members who were active in them."""
    members: Annotated[int, Meta(ge=1, le=MOST_MEMBERS)] = 100
    """Active members who are drawn."""
    top: Annotated[int, Meta(ge=1, le=MOST_TOP)] = 20
    """Places that are compared."""
    seed: Annotated[int, Meta(ge=0, le=MOST_SEED)] = 0
    """It draws the same members again, as long as the same are active."""


class ReplayReport(msgspec.Struct, kw_only=True):
    """The figures of a replay, and of whom they are."""

    options: ReplayOptions
    at: int
    """The moment as of which posts were ranked, in Unix milliseconds."""
    before: Recipe
    """The recipe of the server."""
    after: Recipe
    active: int
    """Members who were active."""
    all_found: bool
    """False where so much happened that only a part of it was looked at: then more members were active."""
    sampled: int
    own_recipe: int
    """Members of the sample who are left out, since they chose a recipe themselves."""
    ranking_off: int
    """Members of the sample who are left out, since they turned ranking off."""
    nothing_to_rank: int
    """Members of the sample for whom there is no post of that time."""
    figures: ReplayFigures


async def replay(network: AnyNetwork, recipe: Recipe, options: ReplayOptions, progress: Progress) -> ReplayReport:
    """Compare the recipe of the server with another one."""
    # The server remembers the interests of those who read; these members do not take their room.
    reads = with_changes(network.reads, interests=Remembered(1), near=Remembered(1))
    now = reads.tags.clock()
    since = now - options.days * _DAY_MS
    active = await active_since(network.store, network.timelines, since, now, progress)
    chosen = await sample(reads.graph, active, options.members, options.seed)
    left_out = dict.fromkeys(LeftOut, 0)
    authors: dict[int, ShownAuthor] = {}
    pairs: list[TwoTops] = []
    for done, member in enumerate(chosen):
        progress(RANKING, done, len(chosen))
        found = await first_entries(reads, member, (reads.recipe, recipe), options.top, since)
        if isinstance(found, LeftOut):
            left_out[found] += 1
            continue
        pairs.append(TwoTops(*(_top(entries, authors, now) for entries in found)))
        # Where everything is remembered, nothing above waits: those who read their feeds have their turn.
        await asyncio.sleep(0)
    progress(RANKING, len(chosen), len(chosen))
    return ReplayReport(
        options=options,
        at=now,
        before=reads.recipe,
        after=recipe,
        active=len(active.members),
        all_found=active.complete,
        sampled=len(chosen),
        own_recipe=left_out[LeftOut.OWN_RECIPE],
        ranking_off=left_out[LeftOut.OFF],
        nothing_to_rank=_empty(pairs),
        figures=figures(pairs, authors),
    )


def _top(entries: Sequence[Entry], authors: dict[int, ShownAuthor], now: int) -> list[TopPost]:
    """Return entries as places of a top, and note their authors."""
    for entry in entries:
        authors[entry.post.author_id] = ShownAuthor(entry.author.member.name, entry.author.followers)
    return [
        TopPost(entry.post.id, entry.post.author_id, entry.post.tags, max(0, now - entry.post.created_at) / _HOUR_MS)
        for entry in entries
    ]


def _empty(pairs: Iterable[TwoTops]) -> int:
    return sum(not (pair.before or pair.after) for pair in pairs)

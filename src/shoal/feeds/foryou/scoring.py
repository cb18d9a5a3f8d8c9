"""Candidates that the viewer may be shown, scored: the stages between the sources of a ranked feed and its order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shoal.core.model import Post
from shoal.core.ranking import terms
from shoal.core.ranking.preferences import Interests
from shoal.core.ranking.recipes import Recipe
from shoal.core.ranking.terms import CandidateFacts, Column, Matrix
from shoal.feeds import lists
from shoal.feeds.foryou.facts import facts_of
from shoal.feeds.foryou.rules import kept_out_by
from shoal.feeds.foryou.sources import Proposal
from shoal.feeds.hydrate import Row, Sight, sight
from shoal.feeds.reads import Reads
from shoal.graph.contract import Cursor
from shoal.graph.payloads.members import Tastes
from shoal.graph.schema import BOOKMARKS, LIKES, POSTED, REACTS, REPORTS_POST, SHARES

_ACTS = (LIKES, SHARES, BOOKMARKS, REACTS)
_OWN_POSTS = 20
"""Newest own posts among which comments of the last minute are looked for."""


class Judged(NamedTuple):
    """Posts that a viewer may be shown, with what is known of each: a row of the facts for a post. No recipe has a part in it."""

    posts: list[Post]
    facts: CandidateFacts | None
    """None where there are no posts."""


class Scored(NamedTuple):
    """Posts, the highest score first."""

    posts: list[Post]
    values: Matrix
    """A row for each post, with the value of every term, as exact as 32 bits are."""
    author_reactions: Column
    """Likes and shares that all posts of its author got."""

    def only(self, rows: Sequence[int]) -> Scored:
        """Return the posts of some rows."""
        at = list(rows)
        return Scored([self.posts[row] for row in at], self.values[at], self.author_reactions[at])


async def scored(
    reads: Reads,
    viewer: int,
    tastes: Tastes,
    recipe: Recipe,
    interests: Interests,
    proposed: Mapping[int, Proposal],
) -> Scored:
    """Return the proposed posts that the viewer may be shown and no rule keeps out, best first."""
    return by_score(await judged(reads, viewer, tastes, interests, proposed), recipe)


async def judged(
    reads: Reads,
    viewer: int,
    tastes: Tastes,
    interests: Interests,
    proposed: Mapping[int, Proposal],
    *,
    since: int = 0,
) -> Judged:
    """Return the proposed posts that the viewer may be shown and no rule keeps out, with the facts about them.

    `since`: posts that were written before this moment (Unix ms) are left out.
    """
    seen = sight(reads.graph, viewer)
    admitted, acted = await _admitted(seen, viewer, proposed)
    rows = [row for row in admitted if row[1].created_at >= since]
    if not rows:
        return Judged([], None)
    memory = tastes.seen.memory if tastes.seen is not None else b""
    interests = interests._replace(acted=interests.acted | acted)
    return Judged([post for _, post, _ in rows], await facts_of(reads, interests, memory, rows, proposed, seen))


def by_score(found: Judged, recipe: Recipe) -> Scored:
    """Return judged posts by their scores, the highest first."""
    if found.facts is None:
        return Scored([], np.empty((0, len(terms.TERMS))), np.empty(0))
    values = terms.values(found.facts, half_life_hours=recipe.half_life_hours, near_km=recipe.near_km)
    # A reading keeps the values with 32 bits: so the scores that it explains are those that made the order.
    values = values.astype(np.float32).astype(np.float64)
    ids = np.array([post.id for post in found.posts], np.int64)
    order = terms.best_first(terms.scores(terms.contributions(values, recipe)), ids)
    return Scored([found.posts[at] for at in order.tolist()], values[order], found.facts.author_reactions[order])


async def _admitted(seen: Sight, viewer: int, proposed: Mapping[int, Proposal]) -> tuple[list[Row], frozenset[int]]:
    """Return the posts that the viewer may be shown and no rule keeps out, and those of them that they acted on.

    Interests are remembered for a minute, but a post that the viewer has just liked must drop at once.
    """
    rows, apart = await asyncio.gather(seen.look(list(proposed)), lists.set_apart(seen.graph, viewer))
    members, stands = seen.members, seen.stands
    rows = [
        row
        for row in rows
        if kept_out_by(viewer, row[1], members[row[1].author_id], stands[row[1].author_id], apart) is None
    ]
    found, own = await asyncio.gather(
        seen.graph.assoc_get(viewer, (REPORTS_POST, *_ACTS), [row[0] for row in rows]),
        seen.graph.assoc_range(viewer, POSTED, Cursor(limit=_OWN_POSTS)),
    )
    written = (await seen.graph.obj_get([row.id2 for row in own])).values() if own else ()
    acted = {id_ for act in _ACTS for id_ in found[act]} | {
        post.parent_id for post in written if isinstance(post, Post)
    }
    return [row for row in rows if row[0] not in found[REPORTS_POST]], frozenset(acted)

"""The beginning of a member's own ranked feed by a recipe that they try out, beside their present one.

Both are ranked from one look at the candidates and the facts. Nothing is kept or marked: no reading, no post as seen.
"""

from __future__ import annotations

from typing import NamedTuple

from shoal.core.ranking.preferences import Interests
from shoal.core.ranking.recipes import Recipe
from shoal.feeds.foryou.feed import author_most_for, in_order, part, recipe_for
from shoal.feeds.foryou.interests import interests_of, wished
from shoal.feeds.foryou.reading import Reading, Why
from shoal.feeds.foryou.scoring import Judged, by_score, judged
from shoal.feeds.foryou.sources import Proposal, candidates, proposals
from shoal.feeds.hydrate import Entry
from shoal.feeds.reads import Reads
from shoal.graph.cache.coherence import one_request
from shoal.graph.payloads.members import Tastes, tastes_of


class Previewed(NamedTuple):
    """An entry, why it would stand at its place, and where it stands by the present recipe."""

    entry: Entry
    why: Why | None
    before: int | None
    """From 1 on; None where it is not among the first 500."""


class _Look(NamedTuple):
    proposed: dict[int, Proposal]
    found: Judged


async def preview(reads: Reads, viewer: int, recipe: Recipe, limit: int = 10) -> list[Previewed]:
    """Return the first entries by a recipe, as if the member had chosen it; ranking may be off meanwhile."""
    with one_request():
        tastes = await tastes_of(reads.graph, viewer)
        interests = await wished(reads, await interests_of(reads, viewer), tastes.wishes)
        present = recipe_for(reads, tastes)
        look = await _look(reads, viewer, tastes, interests, recipe.near_km)
        # The distance that counts as nearby is all of a recipe that candidates depend on.
        same = (
            look
            if present.near_km == recipe.near_km
            else await _look(reads, viewer, tastes, interests, present.near_km)
        )
        own = tastes.taste is not None and tastes.taste.recipe is not None
        most = present.author_most if own else author_most_for(interests, present)
        wanted = _reading(viewer, look, recipe, recipe.author_most)
        now = _reading(viewer, same, present, most)
        places = {id_: place for place, id_ in enumerate(now.part(0, len(now)), 1)}
        shown, _ = await part(reads, viewer, wanted, 0, limit)
        return [Previewed(one.entry, one.why, places.get(one.entry.id)) for one in shown]


async def _look(reads: Reads, viewer: int, tastes: Tastes, interests: Interests, near_km: float) -> _Look:
    proposed = await proposals(reads, viewer, await candidates(reads, viewer, interests, near_km))
    return _Look(proposed, await judged(reads, viewer, tastes, interests, proposed))


def _reading(viewer: int, look: _Look, recipe: Recipe, author_most: int) -> Reading:
    return in_order(viewer, by_score(look.found, recipe), look.proposed, recipe, author_most, explain=True)

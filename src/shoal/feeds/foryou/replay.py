"""The first entries of a member by several recipes, from one look at the candidates, the interests and the facts.

The stages are those of `feed`, without its deadline. Nothing is kept or marked: no reading, no post as seen, no timeline is
rebuilt or stays warm for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from shoal.core.ranking.preferences import Interests
from shoal.core.ranking.recipes import Recipe
from shoal.feeds import home
from shoal.feeds.foryou.feed import author_most_for, in_order, part
from shoal.feeds.foryou.interests import interests_of, wished
from shoal.feeds.foryou.scoring import Judged, by_score, judged
from shoal.feeds.foryou.sources import Proposal, candidates, proposals
from shoal.feeds.hydrate import Entry
from shoal.feeds.reads import Reads
from shoal.graph.cache.coherence import one_request
from shoal.graph.payloads.members import Tastes, tastes_of


class LeftOut(StrEnum):
    """Why the recipe of the server ranks nothing for a member."""

    OWN_RECIPE = "own_recipe"
    OFF = "off"
    """They turned ranking off."""


class _Look(NamedTuple):
    proposed: dict[int, Proposal]
    found: Judged


async def first_entries(
    reads: Reads, viewer: int, recipes: Sequence[Recipe], limit: int, since: int
) -> list[list[Entry]] | LeftOut:
    """Return what a member would be shown first by each recipe if it were the server's, or why it would not matter to them.

    Posts that were written before `since` (Unix ms) have no part in it. Posts that the member's filters hide make room for
    the next, as in the feed.
    """
    with one_request():
        tastes = await tastes_of(reads.graph, viewer)
        if tastes.taste is not None and tastes.taste.off:
            return LeftOut.OFF
        if tastes.taste is not None and tastes.taste.recipe is not None:
            return LeftOut.OWN_RECIPE
        interests = await wished(reads, await interests_of(reads, viewer), tastes.wishes)
        # The distance that counts as nearby is all of a recipe that candidates depend on.
        looks = {
            near_km: await _look(reads, viewer, tastes, interests, near_km, since)
            for near_km in dict.fromkeys(recipe.near_km for recipe in recipes)
        }
        return [await _shown(reads, viewer, looks[recipe.near_km], interests, recipe, limit) for recipe in recipes]


async def _look(reads: Reads, viewer: int, tastes: Tastes, interests: Interests, near_km: float, since: int) -> _Look:
    found = await candidates(reads, viewer, interests, near_km, home.pulled)
    proposed = await proposals(reads, viewer, found)
    return _Look(proposed, await judged(reads, viewer, tastes, interests, proposed, since=since))


async def _shown(
    reads: Reads, viewer: int, look: _Look, interests: Interests, recipe: Recipe, limit: int
) -> list[Entry]:
    best = by_score(look.found, recipe)
    reading = in_order(viewer, best, look.proposed, recipe, author_most_for(interests, recipe))
    shown, _ = await part(reads, viewer, reading, 0, limit)
    return [one.entry for one in shown]

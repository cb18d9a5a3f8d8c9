"""Previews of the For You feed: compare recipes, and explain the effect of feedback on a post.

`preview` compares a recipe with the member's current one, `first_entries` compares several recipes, and `effect_of` reports how
"more like this" or "less like this" changes the terms of a post. Recipes with equal distances for nearby posts are compared on
one set of candidates and facts. No ranking is cached, and no post is marked as seen. `first_entries` also neither rebuilds a home
timeline nor keeps it warm. The deadline of the feed does not apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from shoal.core.model import Post
from shoal.core.ranking.preferences import Feedback, Interests
from shoal.core.ranking.recipes import Recipe
from shoal.graph.access import members_by_id
from shoal.graph.cache.coherence import one_request
from shoal.graph.payloads.members import Personalization, personalization_of
from shoal.queries import home
from shoal.queries.context import Reads
from shoal.queries.foryou.feed import author_most_for, in_order, part, recipe_for
from shoal.queries.foryou.interests import interests_of, wished
from shoal.queries.foryou.ranking import Reading, Why
from shoal.queries.foryou.scoring import ScoringInput, by_score, scoring_input
from shoal.queries.foryou.sources import Newest, Proposal, candidates, proposals
from shoal.queries.hydration import Entry


class Previewed(NamedTuple):
    """An entry in the preview of a recipe, with its explanation and its position under the current recipe."""

    entry: Entry
    why: Why | None
    before: int | None
    """Position by the current recipe, starting at 1; None if the entry is not among the first 500."""


class _Look(NamedTuple):
    proposed: dict[int, Proposal]
    found: ScoringInput
    interests: Interests


async def preview(reads: Reads, viewer: int, recipe: Recipe, limit: int = 10) -> list[Previewed]:
    """Preview the first entries of the viewer's feed under a recipe, even if the member has turned ranking off."""
    with one_request():
        personalization = await personalization_of(reads.graph, viewer)
        interests = await wished(reads, await interests_of(reads, viewer), personalization.feedback)
        present = recipe_for(reads, personalization)
        # Candidates depend on the recipe only through the distance that counts as nearby.
        looks = {
            near_km: await _look(reads, viewer, personalization, interests, near_km)
            for near_km in dict.fromkeys((recipe.near_km, present.near_km))
        }
        requested = _reading(viewer, looks[recipe.near_km], recipe, recipe.author_most)
        now = _reading(viewer, looks[present.near_km], present, author_most_for(personalization, interests, present))
        positions = {id_: position for position, id_ in enumerate(now.part(0, len(now)), 1)}
        shown, _ = await part(reads, viewer, requested, 0, limit)
        return [Previewed(ranked.entry, ranked.why, positions.get(ranked.entry.id)) for ranked in shown]


async def _look(
    reads: Reads,
    viewer: int,
    personalization: Personalization,
    interests: Interests,
    near_km: float,
    *,
    newest: Newest = home.newest,
    since: int = 0,
) -> _Look:
    proposed = await proposals(reads, viewer, await candidates(reads, viewer, interests, near_km, newest))
    found = await scoring_input(reads, viewer, personalization, interests, proposed, since=since)
    return _Look(proposed, found, interests)


def _reading(viewer: int, look: _Look, recipe: Recipe, author_most: int) -> Reading:
    best = by_score(look.found, recipe)
    return in_order(viewer, best, look.proposed, recipe, author_most, look.interests, explain=True)


class LeftOut(StrEnum):
    """Why the server's recipe does not affect a member."""

    OWN_RECIPE = "own_recipe"
    OFF = "off"


async def first_entries(
    reads: Reads, viewer: int, recipes: Sequence[Recipe], limit: int, since: int
) -> list[list[Entry]] | LeftOut:
    """Return the first entries that a member's feed would have if the server's recipe were each of the `recipes`.

    If the server's recipe does not affect the member, return the reason. Posts from before `since` (Unix ms) are
    excluded. Posts hidden by the member's filters are replaced by the next ones, as in the feed.
    """
    with one_request():
        personalization = await personalization_of(reads.graph, viewer)
        if personalization.off:
            return LeftOut.OFF
        if personalization.recipe is not None:
            return LeftOut.OWN_RECIPE
        interests = await wished(reads, await interests_of(reads, viewer), personalization.feedback)
        # Candidates depend on the recipe only through the distance that counts as nearby.
        looks = {
            near_km: await _look(reads, viewer, personalization, interests, near_km, newest=home.pulled, since=since)
            for near_km in dict.fromkeys(recipe.near_km for recipe in recipes)
        }
        first: list[list[Entry]] = []
        for recipe in recipes:
            look, most = looks[recipe.near_km], author_most_for(personalization, interests, recipe)
            reading = in_order(viewer, by_score(look.found, recipe), look.proposed, recipe, most, look.interests)
            shown, _ = await part(reads, viewer, reading, 0, limit)
            first.append([ranked.entry for ranked in shown])
        return first


class Effect(NamedTuple):
    """How feedback ("more like this", "less like this") about an author or tag changes one ranking term of their posts."""

    author_id: int
    """The author that the feedback is about; 0 if it is about a tag."""
    tag: str
    taps: int
    """The sum of all feedback of the member: "more" minus "less", -5 to 5."""
    term: str
    """`author` or `tags`."""
    weight: float
    before: float
    """Value of the term, -1 to 1."""
    after: float
    words: str

    @property
    def contribution_before(self) -> float:
        return self.before * self.weight

    @property
    def contribution(self) -> float:
        return self.after * self.weight


async def effect_of(reads: Reads, viewer: int, post: Post, tag: str, before: Feedback, after: Feedback) -> Effect:
    """Return how a change of the viewer's feedback affects the score of posts with `tag` or, if "", by the post's author."""
    interests = await interests_of(reads, viewer)
    weights = recipe_for(reads, await personalization_of(reads.graph, viewer)).weights
    was, now = [_value(await wished(reads, interests, feedback), post, tag) for feedback in (before, after)]
    weight = weights.tags if tag else weights.author
    if tag:
        meant = f"posts under #{tag}"
    else:
        authors = await members_by_id(reads.graph, (post.author_id,))
        meant = f"posts by @{authors[post.author_id].name}"
    return Effect(
        author_id=0 if tag else post.author_id,
        tag=tag,
        taps=after.tags.get(tag, 0) if tag else after.authors.get(post.author_id, 0),
        term="tags" if tag else "author",
        weight=weight,
        before=was,
        after=now,
        words=f"{meant} {_count_words((now - was) * weight)}",
    )


def _value(interests: Interests, post: Post, tag: str) -> float:
    if not tag:
        return interests.authors.get(post.author_id, 0.0)
    return max(-1.0, min(1.0, sum(interests.tags.get(name, 0.0) for name in post.tags)))


def _count_words(change: float) -> str:
    if not change:
        return "count as before"
    return f"count {abs(change):.2f} {'more' if change > 0 else 'less'} than before"

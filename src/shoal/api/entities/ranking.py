"""Ranked feeds on the wire: why a status stands where it does, and by which weights."""

from __future__ import annotations

import msgspec

from shoal.api.entities.statuses import Ranking, RankingTerm, Status
from shoal.core.ranking.recipes import Recipe
from shoal.core.ranking.words import words_of
from shoal.feeds.foryou.reading import Why


class RankingChoices(msgspec.Struct, kw_only=True):
    """By which weights statuses are ranked for a member."""

    recipe: Recipe
    own: bool
    """Whether the recipe is the member's own; otherwise it is that of the server."""
    on: bool
    """Whether anything is ranked for them."""
    presets: dict[str, Recipe]


class CatchUp(msgspec.Struct, kw_only=True):
    """The best of what the followees of a member posted and shared while the member was away."""

    since: str
    """When they were last here."""
    until: str
    quiet: list[Status]
    """By those who post rarely, the best first."""
    best: list[Status]
    left_out: int
    """Further statuses of that time, which the home timeline has."""
    words: str
    """Words for the end of the page."""
    by_time: bool
    """Whether the newest are here in place of the best, as ranking is off for the member."""


class WhyNot(msgspec.Struct, kw_only=True):
    """Where a status is in a member's ranked feed."""

    stage: str
    """`sources`, `filter`, `score`, or `shown` for a status that is in the feed."""
    rule: str
    place: int | None
    """From 1 on, for a status that is in the feed."""
    words: str


def ranking_of(why: Why) -> Ranking:
    """Return the reasons for a place, without terms that add nothing."""
    return Ranking(
        score=why.score,
        sources=[source.key for source in why.sources],
        terms=[
            RankingTerm(
                term.name, term.value, term.weight, term.contribution, words_of(term.name, term.value, why.recipe)
            )
            for term in why.terms
        ],
        places_lost=why.lost,
        lost_to=why.rule,
    )

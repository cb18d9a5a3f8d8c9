"""Ranked feeds on the wire: why a status stands where it does, and by which weights."""

from __future__ import annotations

import msgspec

from shoal.api.entities.statuses import Account, Ranking, RankingTerm, Status
from shoal.core.ranking.recipes import Recipe
from shoal.core.ranking.terms import words_of
from shoal.queries.foryou.ranking import Why


class RankingChoices(msgspec.Struct, kw_only=True):
    """By which weights statuses are ranked for a member."""

    recipe: Recipe
    own: bool
    """Whether the recipe is the member's own; otherwise it is that of the server."""
    link: str
    """The recipe as a link, for others to look at and to rank by."""
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


class Interest(msgspec.Struct, kw_only=True):
    """A tag that the member may pick as an interest, or has picked."""

    name: str
    url: str
    uses: int
    picked: bool
    status: Status | None
    """A recent one under it with a picture that everybody may see."""


class FeedbackGiven(msgspec.Struct, kw_only=True):
    """A tap for more or less that was counted: the value of a term of the status before and after it, and its part in the score."""

    account_id: str | None
    """The author whose statuses are meant; null where a tag is."""
    tag: str | None
    taps: int
    """All taps for more, less those for less: -5 to 5."""
    term: str
    weight: float
    value_before: float
    value: float
    contribution_before: float
    contribution: float
    words: str


class TappedAccount(msgspec.Struct, kw_only=True):
    """An account that the member has asked more or less of."""

    taps: int
    account: Account


class TappedTag(msgspec.Struct, kw_only=True):
    """A tag that the member has asked more or less of."""

    name: str
    taps: int


class Feedback(msgspec.Struct, kw_only=True):
    """All that a member has asked more or less of; what was tapped last is at the end."""

    accounts: list[TappedAccount]
    tags: list[TappedTag]


class WhyNot(msgspec.Struct, kw_only=True):
    """Where a status is in a member's ranked feed."""

    stage: str
    """`sources`, `filter`, `score`, or `shown` for a status that is in the feed."""
    rule: str
    place: int | None
    """From 1 on, for a status that is in the feed."""
    words: str


def ranking_of(why: Why, reactions: int) -> Ranking:
    """Return the reasons for the rank of a post with this many likes and shares, without terms that add nothing."""
    return Ranking(
        score=why.score,
        sources=[source.key for source in why.sources],
        terms=[
            RankingTerm(
                term.name,
                term.value,
                term.weight,
                term.contribution,
                words_of(term.name, term.value, why.recipe, reactions),
            )
            for term in why.terms
        ],
        places_lost=why.lost,
        lost_to=why.rule,
    )

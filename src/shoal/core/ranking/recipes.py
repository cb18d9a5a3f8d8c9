"""Recipes: the weights by which a feed is ranked, as a small document that a server, a member or a link carries.

half_life_hours = 24.0          # the age at which a post counts half as fresh
near_km = 25.0                  # the distance at which a post counts half as near
exploration = 0.1               # part of the feed for authors whom few have met
author_most = 3                 # posts of one author among any ten

[weights]                       # between -10 and 10; a term that is left out keeps its default
friends = 4.0
seen = -6.0
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.core.errors import InvalidInput

MOST_WEIGHT = 10.0
MOST_HALF_LIFE_HOURS = 720.0

Weight = Annotated[float, Meta(ge=-MOST_WEIGHT, le=MOST_WEIGHT)]


class Weights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much each term counts; 0 for not at all, below 0 for the opposite."""

    reactions: Weight = 2.0
    tags: Weight = 3.0
    author: Weight = 3.0
    nearby: Weight = 1.0
    friends: Weight = 2.0
    rising: Weight = 1.0
    velocity: Weight = 1.5
    common: Weight = 1.0
    seen: Weight = -4.0
    freshness: Weight = 3.0
    quality: Weight = 0.5


TERM_NAMES: tuple[str, ...] = Weights.__struct_fields__
"""Names of the terms, in the order of the columns of a ranking."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a member, a server or a preset can choose about a ranked feed."""

    weights: Weights = Weights()
    half_life_hours: Annotated[float, Meta(ge=1.0, le=MOST_HALF_LIFE_HOURS)] = 24.0
    """Age at which freshness is a half."""
    near_km: Annotated[float, Meta(ge=1.0, le=20_000.0)] = 25.0
    """Distance at which nearness is a half."""
    exploration: Annotated[float, Meta(ge=0.0, le=0.5)] = 0.1
    """Part of the feed for the newest public posts that no other source brings, by authors whom few have met."""
    author_most: Annotated[int, Meta(ge=1, le=10)] = 3
    """Posts of one author among any ten that follow each other."""

    def row(self) -> tuple[float, ...]:
        """Return the weights in the order of `TERM_NAMES`."""
        return tuple(getattr(self.weights, name) for name in TERM_NAMES)


BALANCED = Recipe()

PRESETS: Mapping[str, Recipe] = {
    "balanced": BALANCED,
    "friends_first": Recipe(
        weights=Weights(friends=5.0, author=5.0, common=3.0, reactions=0.5, rising=0.0), exploration=0.05
    ),
    "fresh": Recipe(weights=Weights(freshness=8.0, reactions=0.5, velocity=1.0), half_life_hours=6.0),
    "explore": Recipe(
        weights=Weights(author=-1.0, friends=0.5, tags=4.0, velocity=2.0, seen=-6.0), exploration=0.4, author_most=1
    ),
    "nearby": Recipe(weights=Weights(nearby=8.0)),
    "popular": Recipe(
        weights=Weights(reactions=6.0, velocity=4.0, rising=2.0, tags=1.0, author=1.0), half_life_hours=48.0
    ),
}
"""Recipes by name: balanced, which is the default, and five that lean to one side."""


def recipe_of(document: Mapping[str, Any]) -> Recipe:
    """Return the recipe that a document describes. Raises `InvalidInput`, which names the field and what is allowed in it."""
    try:
        return msgspec.convert(document, Recipe)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the recipe is not valid: {error}{_allowed(str(error))}", field="recipe") from error


def _allowed(complaint: str) -> str:
    """Return the fields that there are, where the complaint is about one that there is not; a complaint about a value has them."""
    if "unknown field" not in complaint:
        return ""
    names = TERM_NAMES if complaint.endswith("`$.weights`") else Recipe.__struct_fields__
    return f"; allowed are {', '.join(names)}"

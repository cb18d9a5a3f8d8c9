"""Ranking recipes: the weights of a ranked feed as a TOML document, and as a link.

    half_life_hours = 24.0    # age at which a post counts half as fresh
    near_km = 25.0            # distance at which a post counts half as near
    exploration = 0.1         # fraction of the feed for little-known authors
    author_most = 3           # posts per author among any ten
    [weights]                 # between -10 and 10; an omitted term keeps its default
    friends = 4.0
    seen = -6.0

A link names every number (`/recipe?reactions=2&tags=3&...`), so its meaning does not depend on the server. Parameters omitted
from a link get their defaults.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import Meta

from shoal.core.errors import InvalidInput

MOST_WEIGHT = 10.0
MOST_HALF_LIFE_HOURS = 720.0

Weight = Annotated[float, Meta(ge=-MOST_WEIGHT, le=MOST_WEIGHT)]


class Weights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The weight of each term. 0 ignores the term, and a negative weight inverts it."""

    reactions: Weight = 2.0
    tags: Weight = 3.0
    author: Weight = 3.0
    nearby: Weight = 1.0
    country: Weight = 1.0
    friends: Weight = 2.0
    rising: Weight = 1.0
    velocity: Weight = 1.5
    common: Weight = 1.0
    seen: Weight = -4.0
    freshness: Weight = 3.0
    quality: Weight = 0.5


TERM_NAMES: tuple[str, ...] = Weights.__struct_fields__


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a ranked feed, chosen by a member, a server or a preset."""

    weights: Weights = Weights()
    half_life_hours: Annotated[float, Meta(ge=1.0, le=MOST_HALF_LIFE_HOURS)] = 24.0
    """Age at which the freshness term is one half."""
    near_km: Annotated[float, Meta(ge=1.0, le=20_000.0)] = 25.0
    """Distance at which the nearness term is one half."""
    exploration: Annotated[float, Meta(ge=0.0, le=0.5)] = 0.1
    """Fraction of the feed for new public posts by little-known authors that no other source proposes."""
    author_most: Annotated[int, Meta(ge=1, le=10)] = 3
    """Maximum number of posts per author among any ten in sequence."""

    def row(self) -> tuple[float, ...]:
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
    "nearby": Recipe(weights=Weights(nearby=8.0, country=3.0)),
    "popular": Recipe(
        weights=Weights(reactions=6.0, velocity=4.0, rising=2.0, tags=1.0, author=1.0), half_life_hours=48.0
    ),
}
"""Recipes by name: the default "balanced", and five that each emphasize one aspect."""


def recipe_of(document: Mapping[str, Any]) -> Recipe:
    """Return the recipe of a document. Raises `InvalidInput` with the field and its allowed values."""
    try:
        return msgspec.convert(document, Recipe)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the recipe is not valid: {error}{_allowed(str(error))}", field="recipe") from error


def _allowed(complaint: str) -> str:
    """Return the names of the known fields if the validation error is about an unknown field, otherwise "".

    The other error messages name the allowed values themselves.
    """
    if "unknown field" not in complaint:
        return ""
    names = TERM_NAMES if complaint.endswith("`$.weights`") else Recipe.__struct_fields__
    return f"; allowed are {', '.join(names)}"


MOST_LINK = 1_024

_OTHERS = tuple(name for name in Recipe.__struct_fields__ if name != "weights")
NAMES = (*TERM_NAMES, *_OTHERS)
"""Names of the numbers of a recipe, in the order of a link."""


def recipe_link(root: str, recipe: Recipe) -> str:
    return f"{root}/recipe?{urlencode({name: _text(value) for name, value in numbers_of(recipe).items()})}"


def recipe_of_link(link: str) -> Recipe:
    """Parse a recipe link of any server, or its query alone.

    Raises `InvalidInput` for more than 1,024 characters, a link without numbers, an unknown or repeated name, and a value that is
    not a number or out of bounds.
    """
    if len(link) > MOST_LINK:
        raise _refused(f"a link has at most {MOST_LINK} characters")
    numbers: dict[str, Any] = {}
    for name, value in _parts(link.partition("#")[0].rpartition("?")[2]):
        if name not in NAMES or name in numbers:
            raise _refused(f"{name[:32]!r} is {'given twice' if name in numbers else 'not one of ' + ', '.join(NAMES)}")
        numbers[name] = _number(name, value)
    return recipe_of(_document(numbers))


def _parts(query: str) -> list[tuple[str, str]]:
    expected = f"numbers by their names, each once, as in ?friends=4&half_life_hours=12: {', '.join(NAMES)}"
    try:
        parts = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=len(NAMES))
    except ValueError:
        raise _refused(expected) from None
    if not parts:
        raise _refused(expected)
    return parts


def numbers_of(recipe: Recipe) -> dict[str, float]:
    document: dict[str, Any] = msgspec.to_builtins(recipe)
    return {**document.pop("weights"), **document}


def _document(numbers: Mapping[str, float]) -> dict[str, Any]:
    others = {name: value for name, value in numbers.items() if name in _OTHERS}
    return others | {"weights": {name: value for name, value in numbers.items() if name not in _OTHERS}}


def _text(value: float) -> str:
    """Return the shortest text that parses to this number."""
    return repr(value).removesuffix(".0")


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _refused(f"{name} must be a number (got {text[:32]!r})")
    return int(value) if value.is_integer() else value


def _refused(why: str) -> InvalidInput:
    return InvalidInput(f"the link to a recipe: {why}", field="link")

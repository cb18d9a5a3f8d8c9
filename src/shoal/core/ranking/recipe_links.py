"""Recipes as links: all numbers by their names, so that anybody can read a link, and it says the same on every server.

    https://example.org/recipe?reactions=2&tags=3&author=3&...&exploration=0.1&author_most=3

A link is written whole. In one that is read, what is left out has its default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec

from shoal.core.errors import InvalidInput
from shoal.core.ranking.recipes import TERM_NAMES, Recipe, recipe_of

MOST_LINK = 1_024
"""Characters of a link to a recipe."""

_OTHERS = tuple(name for name in Recipe.__struct_fields__ if name != "weights")
NAMES = (*TERM_NAMES, *_OTHERS)
"""Names of the numbers of a recipe, in the order of a link."""


def recipe_link(root: str, recipe: Recipe) -> str:
    """Return the link to a recipe below the root of a server, `https://example.org`."""
    return f"{root}/recipe?{urlencode({name: _text(value) for name, value in numbers_of(recipe).items()})}"


def recipe_of_link(link: str) -> Recipe:
    """Return the recipe that a link of any server describes, or its query alone.

    Raises `InvalidInput` for more than 1,024 characters, no number at all, a name that is unknown or given twice, and for a value
    that is no number or out of its bounds.
    """
    if len(link) > MOST_LINK:
        raise _refused(f"at most {MOST_LINK} characters")
    numbers: dict[str, Any] = {}
    for name, value in _parts(link.partition("#")[0].rpartition("?")[2]):
        if name not in NAMES or name in numbers:
            raise _refused(f"{name[:32]!r} is {'there twice' if name in numbers else 'none of ' + ', '.join(NAMES)}")
        numbers[name] = _number(name, value)
    return recipe_of(_document(numbers))


def _parts(query: str) -> list[tuple[str, str]]:
    wanted = f"numbers by their names, each once, as in ?friends=4&half_life_hours=12: {', '.join(NAMES)}"
    try:
        parts = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=len(NAMES))
    except ValueError:
        raise _refused(wanted) from None
    if not parts:
        raise _refused(wanted)
    return parts


def numbers_of(recipe: Recipe) -> dict[str, float]:
    """Return all numbers of a recipe by their names, the weights first."""
    document: dict[str, Any] = msgspec.to_builtins(recipe)
    return {**document.pop("weights"), **document}


def _document(numbers: Mapping[str, float]) -> dict[str, Any]:
    others = {name: value for name, value in numbers.items() if name in _OTHERS}
    return others | {"weights": {name: value for name, value in numbers.items() if name not in _OTHERS}}


def _text(value: float) -> str:
    """Return the shortest text that is read as the same number."""
    return repr(value).removesuffix(".0")


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _refused(f"{name} is a number, not {text[:32]!r}")
    return int(value) if value.is_integer() else value


def _refused(why: str) -> InvalidInput:
    return InvalidInput(f"the link to a recipe: {why}", field="link")

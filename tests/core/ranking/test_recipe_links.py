"""Recipe links: they are lossless, and invalid links are refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput
from shoal.core.ranking.recipes import (
    BALANCED,
    MOST_LINK,
    NAMES,
    PRESETS,
    TERM_NAMES,
    Recipe,
    Weights,
    recipe_link,
    recipe_of_link,
)

ROOT = "https://shoal.test"
recipes = st.builds(
    Recipe,
    weights=st.builds(Weights, **{name: st.floats(-10, 10) for name in TERM_NAMES}),
    half_life_hours=st.floats(1, 720),
    near_km=st.floats(1, 20_000),
    exploration=st.floats(0, 0.5),
    author_most=st.integers(1, 10),
)


@given(recipes)
def test_recipe_link_is_parsed_back_to_the_same_recipe(recipe: Recipe) -> None:
    link = recipe_link(ROOT, recipe)
    assert len(link) <= MOST_LINK
    assert recipe_of_link(link) == recipe == recipe_of_link(f"{link.partition('?')[2]}#there")


@pytest.mark.parametrize("name", PRESETS)
def test_recipe_link_of_preset_is_short_and_readable(name: str) -> None:
    query = recipe_link(ROOT, PRESETS[name]).removeprefix(f"{ROOT}/recipe?")
    assert [part.partition("=")[0] for part in query.split("&")] == list(NAMES)
    assert len(query) < 200


def test_recipe_link_uses_defaults_for_missing_values() -> None:
    assert recipe_of_link("?friends=4") == Recipe(weights=Weights(friends=4.0))
    assert recipe_of_link("author_most=1").weights == BALANCED.weights


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("", "numbers by their names"),
        ("https://shoal.test/recipe", "numbers by their names"),
        ("friends", "numbers by their names"),
        ("&".join(["friends=1"] * 17), "numbers by their names"),
        ("friends=1&friends=2", "given twice"),
        ("weights=1", "'weights' is not one of"),
        ("friends=", "friends must be a number"),
        ("friends=nan", "friends must be a number"),
        ("friends=-inf", "friends must be a number"),
        ("friends=10.01", "weights.friends"),
        ("half_life_hours=0.5", "half_life_hours"),
        ("author_most=2.5", "author_most"),
        ("friends=1" + " " * MOST_LINK, "at most 1024"),
    ],
)
def test_recipe_link_invalid_query_is_refused_with_reason(link: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(words)):
        recipe_of_link(link)

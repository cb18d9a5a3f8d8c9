"""The arithmetic of a ranked feed: every term follows its formula, and explanations add up."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput
from shoal.core.ranking.recipes import BALANCED, PRESETS, TERM_NAMES, Recipe, Weights, recipe_of
from shoal.core.ranking.terms import TERMS, CandidateFacts, best_first, contributions, scores, values

_PLAIN: dict[str, float] = dict.fromkeys(CandidateFacts._fields, 0.0) | {
    "distance_km": np.nan,
    "rising": 1.0,
    "described": np.nan,
    "age_hours": 24.0,
    "viewer_circle": 10.0,
    "author_circle": 10.0,
}


def facts(**columns: list[float]) -> CandidateFacts:
    """CandidateFacts about plain posts a day old, except in the given columns."""
    length = len(next(iter(columns.values()))) if columns else 1
    filled = {name: np.full(length, value) for name, value in _PLAIN.items()}
    return CandidateFacts(**{**filled, **{name: np.asarray(column, dtype=float) for name, column in columns.items()}})


def value(term: str, **columns: list[float]) -> list[float]:
    """The values of one term."""
    found = values(facts(**columns), half_life_hours=24.0, near_km=25.0)
    return [round(float(one), 6) for one in found[:, TERM_NAMES.index(term)]]


def test_ranking_terms_are_those_of_recipe_and_have_formula_unit_and_source() -> None:
    assert tuple(term.name for term in TERMS) == TERM_NAMES
    assert all(term.formula and term.unit and term.source for term in TERMS)


@pytest.mark.parametrize(
    ("term", "columns", "expected"),
    [
        ("reactions", {"likes": [0, 1, 1023, 5000]}, [0, 0.1, 1, 1]),
        ("reactions", {"likes": [3, 3], "friend_likes": [0, 3]}, [0.2, round(float(np.log2(13)) / 10, 6)]),
        ("tags", {"tag_affinity": [-0.5, 0, 2]}, [-0.5, 0, 1]),
        ("author", {"author_affinity": [-0.5, 0, 2]}, [-0.5, 0, 1]),
        ("nearby", {"distance_km": [0, 25, np.nan]}, [1, 0.5, 0]),
        ("country", {"from_country": [0, 1], "distance_km": [5, 5_000]}, [0, 1]),
        ("friends", {"friend_likes": [0, 1, 2]}, [0, 0.5, 0.75]),
        ("friends", {"friends_following": [0, 2, 4]}, [0, 0.5, 0.75]),
        ("rising", {"rising": [0, 1, 4, 16, 100]}, [0, 0, 0.5, 1, 1]),
        ("velocity", {"recent": [0, 3, 63, 63], "usual": [0, 3, 0, 31]}, [0, 0, 1, round(1 / 6, 6)]),
        ("velocity", {"recent": [0], "usual": [31]}, [0]),
        ("common", {"common": [0, 5, 10]}, [0, 0.5, 1]),
        ("seen", {"seen": [0, 1, 2, 0], "acted": [0, 0, 0, 1]}, [0, 0.5, 0.75, 1]),
        ("freshness", {"age_hours": [-1, 0, 24, 48]}, [1, 1, 0.5, 0.25]),
        ("quality", {"described": [np.nan, np.nan, 0, 1, 1], "words": [0, 8, 8, 0, 80]}, [0, 1, 0.5, 0.5, 1]),
    ],
)
def test_ranking_term_value_follows_its_formula(
    term: str, columns: dict[str, list[float]], expected: list[float]
) -> None:
    assert value(term, **columns) == expected


@pytest.mark.parametrize("columns", [{"likes": [40]}, {"seen": [3]}, {"distance_km": [2]}, {"words": [9]}])
def test_ranking_change_of_one_input_fact_changes_value_of_one_term_only(columns: dict[str, list[float]]) -> None:
    changed = values(facts(**columns), half_life_hours=24.0, near_km=25.0) != values(
        facts(), half_life_hours=24.0, near_km=25.0
    )
    assert changed.sum() == 1


_amounts = st.floats(0, 1e9)
_rows = st.fixed_dictionaries(
    {
        name: st.floats(-1, 1)
        if name.endswith("affinity")
        else st.one_of(st.just(float("nan")), st.floats(0, 1))
        if name == "described"
        else st.one_of(st.just(float("nan")), _amounts)
        if name == "distance_km"
        else _amounts
        for name in CandidateFacts._fields
    }
)
_weights = st.builds(Weights, **dict.fromkeys(TERM_NAMES, st.floats(-10, 10)))


@given(st.lists(_rows, min_size=1, max_size=20), st.builds(Recipe, weights=_weights))
def test_ranking_term_values_are_bounded_and_contributions_add_up_to_score(
    rows: list[dict[str, float]], recipe: Recipe
) -> None:
    given_facts = facts(**{name: [row[name] for row in rows] for name in CandidateFacts._fields})
    found = values(given_facts, half_life_hours=recipe.half_life_hours, near_km=recipe.near_km)
    assert np.isfinite(found).all()
    assert (np.abs(found) <= 1).all()
    contributed = contributions(found, recipe)
    for row, score in zip(contributed.tolist(), scores(contributed), strict=True):
        assert sum(row) == pytest.approx(score, abs=1e-6)


@given(st.lists(_rows, min_size=2, max_size=20), st.integers(0, 19))
def test_ranking_score_does_not_depend_on_other_candidates(rows: list[dict[str, float]], which: int) -> None:
    which %= len(rows)

    def scored(some: list[dict[str, float]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        of_some = facts(**{name: [row[name] for row in some] for name in CandidateFacts._fields})
        return scores(contributions(values(of_some, half_life_hours=24.0, near_km=25.0), BALANCED))

    assert scored([rows[which]])[0] == scored(rows)[which]


def test_ranking_order_is_best_first_and_newest_first_for_equal_scores() -> None:
    order = best_first(np.array([1.0, 3.0, 1.0, 2.0]), np.array([10, 11, 12, 13]))
    assert order.tolist() == [1, 3, 2, 0]


@pytest.mark.parametrize("name", PRESETS)
def test_ranking_preset_is_valid_recipe_document(name: str) -> None:
    assert recipe_of(msgspec.to_builtins(PRESETS[name])) == PRESETS[name]


def test_ranking_recipe_document_uses_defaults_for_missing_values() -> None:
    assert recipe_of({"weights": {"friends": 5}}) == Recipe(weights=Weights(friends=5.0))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"weights": {"friends": 11}}, "weights.friends"),
        ({"weights": {"friend": 1}}, "friend"),
        ({"half_life_hours": 0}, "half_life_hours"),
        ({"exploration": 0.6}, "exploration"),
        ({"author_most": 0}, "author_most"),
        ({"weights": []}, "weights"),
    ],
)
def test_ranking_recipe_document_invalid_field_is_named_in_error(document: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        recipe_of(document)

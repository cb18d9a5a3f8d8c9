"""The arithmetic of follow suggestions: bonds through followees, formula and text of every reason, and sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.ranking.people import (
    ASKED,
    MOST_FOUND,
    REASON_NAMES,
    WEIGHTS,
    PeopleFacts,
    asked,
    contributions,
    friends_of_friends,
    values,
    words_of,
)
from shoal.core.ranking.terms import scores
from tests.ranking_page import REASONS


def facts(**columns: list[float]) -> PeopleFacts:
    """Facts about members, zero except in the given columns."""
    length = len(next(iter(columns.values()))) if columns else 1
    plain = dict.fromkeys(PeopleFacts._fields, 0.0) | {"distance_km": math.nan}
    filled = {name: np.full(length, value) for name, value in plain.items()}
    return PeopleFacts(**{**filled, **{name: np.asarray(column, float) for name, column in columns.items()}})


def test_follow_suggestion_reasons_are_those_of_weights_and_have_formula_unit_and_source() -> None:
    assert tuple(reason.name for reason in REASONS) == REASON_NAMES
    assert all(reason.formula and reason.unit and reason.source for reason in REASONS)


@pytest.mark.parametrize(
    ("name", "columns", "expected"),
    [
        ("friends", {"bonds": [0, 1, 63, 100]}, [0, 1 / 6, 1, 1]),
        ("followers", {"followers": [0, 1, 1023, 2**20 - 1, 2**30]}, [0, 0.05, 0.5, 1, 1]),
        ("follows_you", {"follows_you": [0, 1]}, [0, 1]),
        ("liked", {"liked": [-0.5, 0, 0.4]}, [0, 0, 0.4]),
        ("tags", {"tags": [-1, 0, 1, 3]}, [0, 0, 0.5, 0.75]),
        ("nearby", {"distance_km": [0, 25, np.nan]}, [1, 0.5, 0]),
    ],
)
def test_follow_suggestion_reason_value_follows_its_formula(
    name: str, columns: dict[str, list[float]], expected: list[float]
) -> None:
    found = values(facts(**columns), near_km=25.0)
    assert found[:, REASON_NAMES.index(name)].tolist() == pytest.approx(expected)
    others = np.delete(found, REASON_NAMES.index(name), axis=1)
    assert not others.any()


_amounts = st.floats(0, 1e9)


@given(
    bonds=_amounts, followers=_amounts, liked=st.floats(-1, 1), tags=_amounts, km=st.floats(0, 2e4) | st.just(math.nan)
)
def test_follow_suggestion_values_are_bounded_and_contributions_add_up_to_score(
    bonds: float, followers: float, liked: float, tags: float, km: float
) -> None:
    known = facts(bonds=[bonds], followers=[followers], liked=[liked], tags=[tags], distance_km=[km])
    found = values(known, near_km=25.0)
    assert ((found >= 0) & (found <= 1)).all()
    contributed = contributions(found)
    assert scores(contributed)[0] == pytest.approx(sum(np.multiply(found[0], WEIGHTS.row()).tolist()))


def test_follow_suggestion_is_stronger_through_followee_with_few_follows() -> None:
    found = friends_of_friends({1: [7, 8], 2: [7, 9], 3: [9]}, {1: 4, 2: 100, 3: 25})
    assert dict(zip(found.ids.tolist(), found.bonds.tolist(), strict=True)) == pytest.approx(
        {7: 1 / 2 + 1 / 10, 8: 1 / 2, 9: 1 / 5 + 1 / 10}
    )
    assert found.ids.tolist() == [7, 8, 9]
    assert found.friends.tolist() == [2, 1, 2]
    assert found.first.tolist() == [[1, 2], [1, 0], [3, 2]]


def test_follow_suggestion_weight_of_followee_uses_total_follow_count_if_list_is_read_in_part() -> None:
    short, long = (friends_of_friends({1: [5, 6]}, {1: n}) for n in (2, 200))
    assert short.bonds[0] == pytest.approx(10 * long.bonds[0])
    assert friends_of_friends({1: [5, 6, 7, 8]}, {}).bonds[0] == pytest.approx(0.5)


def test_follow_suggestion_friends_of_friends_without_follows_are_empty() -> None:
    nobody: dict[int, list[int]] = {}
    for lists in (nobody, {1: list[int]()}):
        found = friends_of_friends(lists, {})
        assert found.ids.tolist() == []
        assert found.first.shape == (0, 2)


def test_follow_suggestion_friends_of_friends_are_limited_in_number() -> None:
    found = friends_of_friends({1: range(10, 10 + 3 * MOST_FOUND), 2: [10]}, {1: 5_000, 2: 1})
    assert len(found.ids) == MOST_FOUND
    assert found.ids[0] == 10


def test_follow_suggestion_reads_followees_with_fewest_follows() -> None:
    followees = list(range(1, 3 * ASKED))
    chosen = asked(followees, {id_: 1_000 - id_ for id_ in followees})
    assert chosen == sorted(followees, reverse=True)[:ASKED]
    # With equal counts, the newest followees, which are given first.
    assert asked(followees, {}) == followees[:ASKED]


@pytest.mark.parametrize(
    ("name", "number", "named", "words"),
    [
        ("friends", 1, (), "one person you follow follows them"),
        ("friends", 3, (), "3 people you follow follow them"),
        ("friends", 1, ("ben",), "@ben, whom you follow, follows them"),
        ("friends", 2, ("ben", "cyd"), "@ben and @cyd, whom you follow, follow them"),
        ("friends", 2, ("ben",), "@ben and one other you follow follow them"),
        ("friends", 1_234, ("ben", "cyd"), "@ben, @cyd and 1,232 others you follow follow them"),
        ("followers", 1, (), "followed by one member"),
        ("followers", 12_000, (), "followed by 12,000 members"),
        ("follows_you", 1, (), "follows you"),
        ("liked", 0, (), "you shared, saved or answered their posts"),
        ("liked", 1, (), "you liked one of their posts"),
        ("liked", 4, (), "you liked 4 of their posts"),
        ("tags", 1, ("birds",), "posts with #birds, which interests you"),
        ("tags", 5, ("birds", "coast"), "posts with #birds and #coast, which interest you"),
        ("nearby", 0.2, (), "posts from where you post"),
        ("nearby", 12.3, (), "posts from about 12 km from where you post"),
        ("nearby", 0.2, ("Kochi",), "posts from Kochi, where you live"),
        ("nearby", 12.3, ("Kochi",), "posts from about 12 km from Kochi, where you live"),
    ],
)
def test_follow_suggestion_reason_text_states_number_and_names(
    name: str, number: float, named: tuple[str, ...], words: str
) -> None:
    assert words_of(name, number, named) == words


def test_follow_suggestion_unknown_reason_raises_value_error() -> None:
    with pytest.raises(ValueError, match="one of friends, followers"):
        words_of("luck", 1)


def test_follow_suggestion_has_count_and_names_of_mutual_followees() -> None:
    found = friends_of_friends({1: [7, 8], 2: [7, 9], 3: [9]}, {1: 4, 2: 100, 3: 25})
    rows = found.of(np.array([9, 5, 7], np.int64))
    assert rows.ids.tolist() == [9, 5, 7]
    assert rows.friends.tolist() == [2, 0, 2]
    assert rows.bonds.tolist() == pytest.approx([0.3, 0, 0.6])
    assert rows.first.tolist() == [[3, 2], [0, 0], [1, 2]]
    nobody = friends_of_friends({}, {}).of(np.array([5], np.int64))
    assert (nobody.friends.tolist(), nobody.first.tolist()) == ([0], [[0, 0]])

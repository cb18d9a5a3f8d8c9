"""Reasons of terms in words."""

from __future__ import annotations

import pytest

from shoal.core.ranking.recipes import BALANCED, TERM_NAMES
from shoal.core.ranking.terms import TITLES, words_of


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("friends", 1 - 2**-0.5, "someone you follow follows its author"),
        ("friends", 0.5, "people you follow like it or follow its author"),
        ("friends", 1.0, "people you follow like it or follow its author"),
        ("seen", 0.5, "you have seen it once"),
        ("seen", 0.875, "you have seen it 3 times"),
        ("seen", 1.0, "you have liked, shared, saved, commented on or reacted to it"),
        ("freshness", 0.5, "posted 24 hours ago"),
        ("freshness", 2**-3, "posted 3 days ago"),
        ("freshness", 1.0, "posted within the hour"),
        ("nearby", 0.5, "about 25 km from where you post"),
        ("rising", 0.5, "one of its tags is trending"),
        ("velocity", 0.5, "more reactions than usual for its author"),
        ("common", 0.125, "followers or followed accounts in common"),
        ("tags", -0.2, "you asked to see less of its tags or reported posts with them"),
        ("author", 0.4, "you follow its author"),
        ("quality", 0.9, "its pictures have descriptions"),
    ],
)
def test_reason_of_a_term_claims_no_more_than_its_value_proves(name: str, value: float, words: str) -> None:
    assert words in words_of(name, value, BALANCED, 0)


@pytest.mark.parametrize(("number", "words"), [(1, "one like or share"), (13, "13 likes and shares")])
@pytest.mark.parametrize("value", [0.001, 0.525, 1.0])
def test_reason_of_reactions_states_the_likes_and_shares_of_the_post(value: float, number: int, words: str) -> None:
    assert words_of("reactions", value, BALANCED, number) == words


@pytest.mark.parametrize("name", ["tags", "author"])
@pytest.mark.parametrize("value", [0.2, 1.0])
def test_reason_of_an_affinity_claims_no_habit(name: str, value: float) -> None:
    assert "often" not in words_of(name, value, BALANCED, 0)


@pytest.mark.parametrize("name", TERM_NAMES)
def test_reason_exists_for_every_value_but_0(name: str) -> None:
    assert words_of(name, 0.0, BALANCED, 1) == ""
    for value in (-1.0, -0.5, 0.001, 0.5, 0.999999, 1.0):
        if value > 0 or name in ("tags", "author"):
            assert words_of(name, value, BALANCED, 1)


def test_titles_above_reasons_claim_no_likes_of_many_or_of_followed_people() -> None:
    # A post with one like has the first as its heading, and one that no followed person likes has the second.
    assert (TITLES["reactions"], TITLES["friends"]) == ("Likes and shares", "People you follow")

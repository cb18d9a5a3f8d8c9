"""Texts of ranking reasons."""

from __future__ import annotations

import math

import pytest

from shoal.core.ranking.recipes import BALANCED, TERM_NAMES
from shoal.core.ranking.terms import TITLES, ReasonFacts, words_of

FACTS = ReasonFacts(BALANCED)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("friends", 1 - 2**-0.5, "someone you follow follows the post's author"),
        ("friends", 0.5, "people you follow like the post or follow its author"),
        ("friends", 1.0, "people you follow like the post or follow its author"),
        ("seen", 0.5, "you have seen the post once"),
        ("seen", 0.875, "you have seen the post 3 times"),
        ("seen", 1.0, "you have liked, shared, saved, commented on or reacted to the post"),
        ("freshness", 0.5, "posted 24 hours ago"),
        ("freshness", 2 ** (-1.2 / 24), "posted one hour ago"),
        ("freshness", 2**-3, "posted 3 days ago"),
        ("freshness", 1.0, "posted in the last hour"),
        ("nearby", 0.5, "about 25 km from where you post"),
        ("rising", 0.5, "one of the post's tags is trending"),
        ("velocity", 0.5, "more reactions than usual for its author"),
        ("common", 0.125, "followers or followed accounts in common"),
        ("tags", -0.2, "you asked to see less of the post's tags or reported posts with them"),
        ("author", 0.4, "you follow the post's author"),
    ],
)
def test_ranking_reason_text_claims_only_facts_proven_by_value(name: str, value: float, words: str) -> None:
    assert words in words_of(name, value, FACTS)


@pytest.mark.parametrize(
    ("name", "value", "town", "words"),
    [
        ("country", 1.0, "", "from India, where you live"),
        ("country", 1.0, "Kochi", "from India, where you live"),
        ("nearby", 0.5, "Kochi", "about 25 km from Kochi, where you live"),
        ("nearby", 0.5, "", "about 25 km from where you post"),
    ],
)
def test_ranking_reason_text_names_where_the_member_lives(name: str, value: float, town: str, words: str) -> None:
    assert words_of(name, value, ReasonFacts(BALANCED, 0, town, "India")) == words


@pytest.mark.parametrize(
    ("described", "words", "reason"),
    [
        (math.nan, 1, "the post has text"),
        (0.0, 8, "the post has text"),
        (1 / 3, 0, "some of the post's media have descriptions"),
        (0.5, 4, "some of the post's media have descriptions, and it has text"),
        (1.0, 0, "the post's media have descriptions"),
        (1.0, 8, "the post's media have descriptions, and it has text"),
        (0.0, 0, ""),
    ],
)
def test_ranking_reason_for_quality_mentions_media_descriptions_and_post_text(
    described: float, words: int, reason: str
) -> None:
    assert words_of("quality", 0.5, ReasonFacts(BALANCED, described=described, words=words)) == reason


def test_ranking_reason_for_picked_tag_names_tag_only_if_it_raises_the_post() -> None:
    facts = ReasonFacts(BALANCED, picked="desert")
    assert words_of("tags", 0.2, facts) == "because you picked #desert"
    assert "less of the post's tags" in words_of("tags", -0.2, facts)


@pytest.mark.parametrize(
    ("name", "facts", "words"),
    [
        ("tags", ReasonFacts(BALANCED, tag="sea", liked_with_tag=1), "because you liked a #sea photo"),
        ("tags", ReasonFacts(BALANCED, tag="sea", liked_with_tag=6), "because you liked 6 #sea photos"),
        ("tags", ReasonFacts(BALANCED, tag="sea", follows_tag=True), "because you follow #sea"),
        ("tags", ReasonFacts(BALANCED, tag="sea"), "because you like, share or use #sea, or asked for more"),
        ("author", ReasonFacts(BALANCED, author="Ben", liked_by_author=1), "because you liked a post by Ben"),
        ("author", ReasonFacts(BALANCED, author="Ben", liked_by_author=3), "because you liked 3 posts by Ben"),
        ("author", ReasonFacts(BALANCED, author="Ben", follows_author=True), "because you follow Ben"),
        ("friends", ReasonFacts(BALANCED, friends=1), "liked or shared by someone you follow"),
        ("friends", ReasonFacts(BALANCED, friends=4), "liked or shared by 4 people you follow"),
        ("friends", ReasonFacts(BALANCED, author="Ben", friends_following=1), "someone you follow follows Ben"),
        ("friends", ReasonFacts(BALANCED, author="Ben", friends_following=2), "2 people you follow follow Ben"),
        ("rising", ReasonFacts(BALANCED, rising="storm"), "#storm is trending"),
        ("velocity", ReasonFacts(BALANCED, 90, author="Ben"), "more reactions than usual for Ben"),
    ],
)
def test_ranking_reason_text_states_counts_and_names(name: str, facts: ReasonFacts, words: str) -> None:
    assert words_of(name, 0.6, facts) == words


@pytest.mark.parametrize(("number", "words"), [(1, "one like or share"), (13, "13 likes and shares")])
@pytest.mark.parametrize("value", [0.001, 0.525, 1.0])
def test_ranking_reason_for_reactions_states_number_of_likes_and_shares(value: float, number: int, words: str) -> None:
    assert words_of("reactions", value, ReasonFacts(BALANCED, number)) == words


@pytest.mark.parametrize("name", ["tags", "author"])
@pytest.mark.parametrize("value", [0.2, 1.0])
def test_ranking_reason_for_affinity_does_not_claim_that_member_likes_often(name: str, value: float) -> None:
    assert "often" not in words_of(name, value, FACTS)


@pytest.mark.parametrize("name", TERM_NAMES)
def test_ranking_reason_text_exists_for_every_nonzero_term_value(name: str) -> None:
    assert words_of(name, 0.0, FACTS) == ""
    for value in (-1.0, -0.5, 0.001, 0.5, 0.999999, 1.0):
        if value > 0 or name in ("tags", "author"):
            assert words_of(name, value, ReasonFacts(BALANCED, 1, country="India", words=1))


def test_ranking_reason_titles_do_not_claim_likes_that_post_may_lack() -> None:
    # The first title also heads posts with a single like, the second also posts without a like of a followed person.
    assert (TITLES["reactions"], TITLES["friends"]) == ("Likes and shares", "People you follow")

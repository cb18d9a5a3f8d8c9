"""Filter keywords: matches agree with a naive search, and run time is linear."""

from __future__ import annotations

import time
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.filters import Filter, FilterKeyword, FilterPost, Text, compiled
from shoal.core.text import with_folded_words


def found(text: str | list[str], *keywords: str, whole_word: bool = True) -> tuple[str, ...]:
    """The keywords found in a text or in a list of text pieces."""
    words = tuple(FilterKeyword(n, keyword, whole_word) for n, keyword in enumerate(keywords, 1))
    made = compiled(Filter(id=1, owner_id=2, title="t", keywords=words))
    return made.keywords_in(Text([text] if isinstance(text, str) else text))


def is_word(character: str) -> bool:
    return character.isalnum() or category(character)[0] == "M" or category(character) == "Pc"


def slowly(text: str, keyword: str, *, whole_word: bool) -> bool:
    """Naive search for the keyword at every position."""
    text, keyword = with_folded_words(text), with_folded_words(keyword)
    for at in range(len(text) - len(keyword) + 1):
        if text[at : at + len(keyword)] != keyword:
            continue
        before, behind = text[:at][-1:], text[at + len(keyword) :][:1]
        begins = not before or not is_word(before) or not is_word(keyword[0])
        ends = not behind or not is_word(behind) or not is_word(keyword[-1])
        if not whole_word or (begins and ends):
            return True
    return False


_FEW = st.text(alphabet="aAbß_é\u0301 #+-İ", max_size=30)
_KEYWORD = st.text(alphabet="aAbß_é\u0301 #+-İ", min_size=1, max_size=4)


@given(_FEW, _KEYWORD, st.booleans())
def test_filter_keyword_matches_agree_with_naive_search(text: str, keyword: str, whole_word: bool) -> None:
    assert bool(found(text, keyword, whole_word=whole_word)) is slowly(text, keyword, whole_word=whole_word)


@given(st.text(max_size=60), st.text(min_size=1, max_size=3), st.booleans())
def test_filter_keyword_search_accepts_any_text(text: str, keyword: str, whole_word: bool) -> None:
    text, keyword = text.replace("\0", ""), keyword.replace("\0", "") or "a"
    assert bool(found(text, keyword, whole_word=whole_word)) is slowly(text, keyword, whole_word=whole_word)


@pytest.mark.parametrize(
    ("text", "keyword", "whole", "part"),
    [
        ("A CAT sat", "cat", True, True),
        ("concatenate", "cat", False, True),
        ("a cat_flap", "cat", False, True),
        ("#cats", "#cat", False, True),
        ("so#cat", "#cat", True, True),
        ("I write C++11", "c++", True, True),
        ("STRASSE", "straße", True, True),
        ("Ёлка", "ёлка", True, True),
        ("новёлка", "ёлка", False, True),
        ("cafe\u0301", "cafe", False, False),
        ("#İzmir", "#izmir", True, True),
        ("in İstanbul", "istanbul", True, True),
        ("in istanbul", "İSTANBUL", True, True),
        ("ISPARTA", "ısparta", False, False),
        ("#ｃａｔ", "cat", True, True),
        ("ﾊﾞｽ･ﾃｨｰ", "バス・ティー", True, True),
        ("Shoal™", "shoal", True, True),
        ("´shoal´", "shoal", True, True),
        ("the end", "the start", False, False),
    ],
)
def test_filter_keyword_matching_handles_scripts_and_punctuation(
    text: str, keyword: str, whole: bool, part: bool
) -> None:
    assert bool(found(text, keyword)) is whole
    assert bool(found(text, keyword, whole_word=False)) is part


def test_filter_keyword_does_not_match_across_text_pieces() -> None:
    assert found(["hot", "dog"], "hotdog", "t\nd", "t d", whole_word=False) == ()
    assert found(["hot", "dog"], "dog") == ("dog",)


def test_filter_keyword_match_is_reported_once_as_typed() -> None:
    assert found("tea and TEA", "Tea", "tea", "coffee", "an", whole_word=False) == ("tea", "an")


def test_filter_keyword_regex_characters_are_literal() -> None:
    assert found("a.c", "a.c") == ("a.c",)
    assert found("abc", "a.c", "a*", "[abc]", "(abc", "^abc", "abc$", ".*") == ()


def test_filter_with_posts_is_compiled_to_set_of_post_ids() -> None:
    made = compiled(Filter(id=1, owner_id=2, title="t", posts=(FilterPost(5, 50), FilterPost(6, 60))))
    assert made.posts == {50, 60}
    assert made.keywords_in(Text(["anything"])) == ()


def _seconds(text: str, keyword: str) -> float:
    """The minimum time of three runs."""
    least = float("inf")
    for _ in range(3):
        began = time.process_time()
        found(text, keyword)
        least = min(least, time.process_time() - began)
    return least


@pytest.mark.parametrize(
    ("unit", "keyword"),
    [("a", "a"), ("a", "a" * 200), ("a", "a" * 199 + "b"), ("aab ", "aa"), ("a ", "a " * 99 + "b"), ("ab", "ba")],
)
def test_filter_keyword_search_on_hostile_text_takes_linear_time(unit: str, keyword: str) -> None:
    short, long = (unit * (n // len(unit)) for n in (50_000, 400_000))
    assert _seconds(long, keyword) < 40 * _seconds(short, keyword) + 0.05
    assert _seconds(long, keyword) < 1.0

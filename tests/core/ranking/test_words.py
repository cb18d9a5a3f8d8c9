"""Words of terms: each value is read back as what it was made of."""

from __future__ import annotations

import pytest

from shoal.core.ranking.recipes import BALANCED, TERM_NAMES
from shoal.core.ranking.words import words_of


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("reactions", 0.5, "31 likes and shares"),
        ("reactions", 1.0, "at least 1,023 likes and shares"),
        ("friends", 0.5, "one person you follow likes it"),
        ("friends", 1 - 2**-3, "about 3 people you follow like it"),
        ("friends", 1 - 2**-0.5, "somebody you follow follows its author"),
        ("friends", 1.0, "many people you follow"),
        ("seen", 0.5, "you have seen it once"),
        ("seen", 0.875, "you have seen it 3 times"),
        ("seen", 1.0, "you have liked, shared, saved or commented on it"),
        ("freshness", 0.5, "posted 24 hours ago"),
        ("freshness", 2**-3, "posted 3 days ago"),
        ("freshness", 1.0, "posted within the hour"),
        ("nearby", 0.5, "about 25 km from where you post"),
        ("rising", 0.5, "4 times as much as usual"),
        ("velocity", 0.5, "8 times the reactions"),
        ("common", 0.125, "in common (12%)"),
        ("tags", -0.2, "you asked for less of its tags, or reported posts with them"),
        ("author", 0.4, "you follow its author"),
        ("quality", 0.9, "its pictures are described"),
    ],
)
def test_a_value_is_read_backwards(name: str, value: float, words: str) -> None:
    assert words in words_of(name, value, BALANCED)


@pytest.mark.parametrize("name", TERM_NAMES)
def test_every_term_has_words_for_every_value_but_0(name: str) -> None:
    assert words_of(name, 0.0, BALANCED) == ""
    for value in (-1.0, -0.5, 0.001, 0.5, 0.999999, 1.0):
        if value > 0 or name in ("tags", "author"):
            assert words_of(name, value, BALANCED)

"""User name blocks: words in normalized form that block a name as a whole or as a part, looked up by keys of the name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.blocklists import LEAST_PART, check_word, key_text, plain, refusing
from shoal.core.errors import InvalidInput

names = st.text("abc4_10", min_size=1, max_size=30)


@pytest.mark.parametrize(("written", "word"), [("H4_te", "hate"), ("5P4M", "spam"), ("0ffice_", "office"), ("___", "")])
def test_user_name_block_word_normalizes_leetspeak_digits(written: str, word: str) -> None:
    assert plain(written) == word


@given(names, st.text("abc4_10", min_size=1, max_size=12), st.booleans())
def test_user_name_block_keys_of_name_match_exactly_the_blocked_words_that_refuse_it(
    name: str, text: str, part: bool
) -> None:
    word = plain(text)
    if not word or (part and len(word) < LEAST_PART):
        return
    refused = word in plain(name) if part else word == plain(name)
    assert (key_text(word, part=part) in refusing(name)) == refused


def test_user_name_block_longest_name_is_looked_up_by_407_keys() -> None:
    assert len(refusing("abcdefghijklmnopqrstuvwxyzbdac")) == 407


@pytest.mark.parametrize(
    ("text", "part"), [("", False), ("__", False), ("ab", True), ("a b", False), ("é", False), ("a" * 31, False)]
)
def test_user_name_block_invalid_word_is_rejected(text: str, part: bool) -> None:
    with pytest.raises(InvalidInput, match="a word must have"):
        check_word(text, part=part)

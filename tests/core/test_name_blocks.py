"""Words that refuse user names: in a plain form, whole or as a part, and found from the name alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.blocklists import LEAST_PART, check_word, key_text, plain, refusing
from shoal.core.errors import InvalidInput

names = st.text("abc4_10", min_size=1, max_size=30)


@pytest.mark.parametrize(("written", "word"), [("H4_te", "hate"), ("5P4M", "spam"), ("0ffice_", "office"), ("___", "")])
def test_digits_are_the_letters_that_they_are_written_for(written: str, word: str) -> None:
    assert plain(written) == word


@given(names, st.text("abc4_10", min_size=1, max_size=12), st.booleans())
def test_the_keys_of_a_name_are_those_of_all_words_that_refuse_it(name: str, text: str, part: bool) -> None:
    word = plain(text)
    if not word or (part and len(word) < LEAST_PART):
        return
    refused = word in plain(name) if part else word == plain(name)
    assert (key_text(word, part=part) in refusing(name)) == refused


def test_the_longest_name_has_as_many_keys_as_are_said() -> None:
    assert len(refusing("abcdefghijklmnopqrstuvwxyzbdac")) == 407


@pytest.mark.parametrize(
    ("text", "part"), [("", False), ("__", False), ("ab", True), ("a b", False), ("é", False), ("a" * 31, False)]
)
def test_what_is_no_word_is_refused(text: str, part: bool) -> None:
    with pytest.raises(InvalidInput, match="a word is"):
        check_word(text, part=part)

"""User names that nobody signs up with, as values: words, compared in a plain form so that `h4te_speech` is `hatespeech`.

A block refuses a name that is the word, or, as a part, every name that has it in it. Which blocks could refuse a name is known
from the name alone: its plain form, and the parts of it that are long enough, 407 at most. So a sign-up looks up keys and reads
no list.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.errors import InvalidInput
from shoal.core.model import Node
from shoal.core.text import MAX_USER_NAME

LEAST_PART = 3
"""Characters of a part: a shorter one would refuse too many names."""
_PLAIN = str.maketrans("0123456789", "oizeasgtbg", "_")
"""Digits as the letters that they are written for; underscores are left out."""


class NameBlock(Node, frozen=True, tag="name_block"):
    """Nobody signs up with a user name that is this word, or has it in it."""

    word: str
    """In its plain form."""
    part: bool = False
    """Whether names that have it in them are refused too."""


def plain(text: str) -> str:
    """Return the form in which names are compared."""
    return text.strip().lower().translate(_PLAIN)


def check_word(text: str, *, part: bool) -> str:
    """Return the plain form of a word that is to be blocked. Raises `InvalidInput`."""
    word, least = plain(text), LEAST_PART if part else 1
    if not (least <= len(word) <= MAX_USER_NAME and word.isascii() and word.isalpha()):
        raise InvalidInput(
            f"a word is {least} to {MAX_USER_NAME} characters out of a-z, 0-9 and the underscore", field="word"
        )
    return word


def key_text(word: str, *, part: bool) -> str:
    """Return the text of the key that leads to the block of a word in its plain form."""
    return f"{'*' if part else '='}{word}"


def refusing(name: str) -> Sequence[str]:
    """Return the texts of the keys of all blocks that would refuse a user name."""
    word = plain(name)
    parts = {word[first:last] for first in range(len(word)) for last in range(first + LEAST_PART, len(word) + 1)}
    return [key_text(word, part=False), *(key_text(part, part=True) for part in sorted(parts))]

"""Unicode normalization in time linear in the text, whatever the text.

Normalization sorts each run of combining marks by insertion, in time quadratic in the length of the run. Text from outside
is therefore normalized only here, or after a check that its runs are short.
"""

from __future__ import annotations

from typing import Literal
from unicodedata import normalize

import regex

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]

MAX_MARKS = 30
"""Maximum combining marks in a row, as in the Stream-Safe Text Format (UAX #15, section 13)."""

# The half-width voiced sound marks of katakana are letters whose compatibility decomposition is a combining mark.
_MARK = r"[\p{M}\uff9e\uff9f]"
_TOO_MANY = regex.compile(rf"(?<!{_MARK}){_MARK}{{{MAX_MARKS}}}\K{_MARK}+")


def has_many_marks(text: str) -> bool:
    """Return whether a text has more than `MAX_MARKS` combining marks in a row."""
    return not text.isascii() and _TOO_MANY.search(text) is not None


def without_many_marks(text: str) -> str:
    """Return a text without the combining marks past `MAX_MARKS` in a row."""
    return text if text.isascii() else _TOO_MANY.sub("", text)


def normalized(form: Form, text: str) -> str:
    """Return a normalization form of a text, without the combining marks past `MAX_MARKS` in a row."""
    return text if text.isascii() else normalize(form, without_many_marks(text))

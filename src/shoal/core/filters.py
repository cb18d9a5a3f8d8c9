"""A member's content filters, and matching them against text.

Keywords are plain text, never patterns. Spellings of one tag match each other: `istanbul` matches `İstanbul`. If a whole-word
keyword begins with a letter, digit, mark or underscore, it matches only at the start of a word; if it ends with one, only at the
end of a word. So `#cat` and `c++` match as well as `cat`.
Matching takes time linear in the length of the text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple
from unicodedata import category

import msgspec

from shoal.core.model import Node
from shoal.core.text import with_folded_words

MAX_FILTERS = 100


class FilterAction(StrEnum):
    """How a client shows a post that a filter matches."""

    WARN = "warn"
    HIDE = "hide"
    BLUR = "blur"


class FilterContext(StrEnum):
    HOME = "home"
    NOTIFICATIONS = "notifications"
    PUBLIC = "public"
    THREAD = "thread"
    ACCOUNT = "account"


class FilterKeyword(NamedTuple):
    id: int
    keyword: str
    whole_word: bool = True


class FilterPost(NamedTuple):
    """A post that a filter matches regardless of its text."""

    id: int
    post_id: int


class Filter(Node, frozen=True, tag="filter"):
    """A member's rule for posts to hide or mark."""

    owner_id: int
    title: str
    contexts: tuple[FilterContext, ...] = ()
    action: FilterAction = FilterAction.WARN
    expires_at: int = 0
    """Unix milliseconds; 0 for never."""
    irreversible: bool = False
    """Whether matching posts are removed from the home timeline and the notifications."""
    keywords: tuple[FilterKeyword, ...] = ()
    posts: tuple[FilterPost, ...] = ()


_BETWEEN = "\0"
"""Separator of the pieces of a text. No text contains it, so no keyword matches across two pieces."""


class Text:
    """A post's text for matching filters: its pieces (content, warning, media descriptions), prepared for searching."""

    __slots__ = ("_starts", "folded")

    def __init__(self, pieces: Iterable[str]) -> None:
        self.folded = with_folded_words(_BETWEEN.join(pieces))
        self._starts: list[int] | None = None

    def next_word(self, at: int) -> int:
        """Return the position of the first word at or after the position `at`; -1 if there is none."""
        if self._starts is None:
            self._starts = _starts(self.folded)
        index = bisect_left(self._starts, at)
        return self._starts[index] if index < len(self._starts) else -1


class _Word(msgspec.Struct, frozen=True):
    shown: str
    folded: str
    begins: bool
    """Whether the keyword matches only at the start of a word."""
    ends: bool

    def occurs_in(self, text: Text) -> bool:
        folded, size = text.folded, len(self.folded)
        at = folded.find(self.folded)
        while at >= 0:
            if self.begins and at and _is_word(folded[at - 1]):
                # Continue at the next word: trying each position within a long word would take quadratic time.
                at = text.next_word(at)
                if at < 0:
                    return False
            elif not (self.ends and at + size < len(folded) and _is_word(folded[at + size])):
                return True
            else:
                at += 1
            at = folded.find(self.folded, at)
        return False


class Compiled(msgspec.Struct, frozen=True):
    filter: Filter
    words: tuple[_Word, ...]
    posts: frozenset[int]

    def keywords_in(self, text: Text) -> tuple[str, ...]:
        return tuple(word.shown for word in self.words if word.occurs_in(text))


def compiled(filter_: Filter) -> Compiled:
    """Prepare a filter for matching. If several of its keywords match the same texts, all but one are left out."""
    words = {(word.folded, word.begins, word.ends): word for word in map(_word, filter_.keywords) if word.folded}
    return Compiled(filter_, tuple(words.values()), frozenset(post.post_id for post in filter_.posts))


def _word(keyword: FilterKeyword) -> _Word:
    folded = with_folded_words(keyword.keyword)
    bound = keyword.whole_word and bool(folded)
    return _Word(
        shown=keyword.keyword,
        folded=folded,
        begins=bound and _is_word(folded[0]),
        ends=bound and _is_word(folded[-1]),
    )


def _is_word(character: str) -> bool:
    return character.isalnum() or category(character) in {"Mn", "Mc", "Me", "Pc"}


def _starts(folded: str) -> list[int]:
    found: list[int] = []
    inside = False
    for at, character in enumerate(folded):
        word = _is_word(character)
        if word and not inside:
            found.append(at)
        inside = word
    return found

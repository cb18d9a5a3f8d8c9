"""What the filters of a member find in a text: plain words, never patterns of somebody's own.

Case makes no difference. A keyword that is to be a whole word must begin at the beginning of a word where it begins with a
letter, a digit, a mark or an underscore, and end at an end of one where it ends so: `#cat` and `c++` are found as well as `cat`.
Looking for a keyword takes time linear in the text, whatever the text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from unicodedata import category

import msgspec

from shoal.core.filters import Filter, FilterKeyword

_BETWEEN = "\0"
"""Stands between the pieces of a text. No text has it in it, so nothing is found across two pieces."""


class Text:
    """Pieces of something to read (its words, its warning, what its pictures show), ready to be looked through."""

    __slots__ = ("_starts", "folded")

    def __init__(self, pieces: Iterable[str]) -> None:
        self.folded = _BETWEEN.join(pieces).casefold()
        self._starts: list[int] | None = None

    def next_word(self, at: int) -> int:
        """Where the first word begins at or behind a position; -1 behind the last."""
        if self._starts is None:
            self._starts = _starts(self.folded)
        place = bisect_left(self._starts, at)
        return self._starts[place] if place < len(self._starts) else -1


class _Word(msgspec.Struct, frozen=True):
    """A keyword, ready to be looked for."""

    shown: str
    folded: str
    begins: bool
    """Whether it must stand where a word begins."""
    ends: bool

    def stands_in(self, text: Text) -> bool:
        """Whether it is in the text."""
        folded, size = text.folded, len(self.folded)
        at = folded.find(self.folded)
        while at >= 0:
            if self.begins and at and _is_word(folded[at - 1]):
                # On to the next word in one step: a long run of letters must not be tried from each of them.
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
    """A filter, ready to be used."""

    filter: Filter
    words: tuple[_Word, ...]
    posts: frozenset[int]

    def keywords_in(self, text: Text) -> tuple[str, ...]:
        """The keywords that are in the text, as they were typed."""
        return tuple(word.shown for word in self.words if word.stands_in(text))


def compiled(filter_: Filter) -> Compiled:
    """The filter, ready to be used. Keywords that find the same are there once."""
    words = {(word.folded, word.begins, word.ends): word for word in map(_word, filter_.keywords) if word.folded}
    return Compiled(filter_, tuple(words.values()), frozenset(post.post_id for post in filter_.posts))


def _word(keyword: FilterKeyword) -> _Word:
    folded = keyword.keyword.casefold()
    bound = keyword.whole_word and bool(folded)
    return _Word(
        shown=keyword.keyword,
        folded=folded,
        begins=bound and _is_word(folded[0]),
        ends=bound and _is_word(folded[-1]),
    )


def _is_word(character: str) -> bool:
    """Whether it belongs to a word: letters, digits, the marks upon them, and what joins them as the underscore does."""
    return character.isalnum() or category(character) in {"Mn", "Mc", "Me", "Pc"}


def _starts(folded: str) -> list[int]:
    """Where words begin, in order."""
    found: list[int] = []
    inside = False
    for at, character in enumerate(folded):
        word = _is_word(character)
        if word and not inside:
            found.append(at)
        inside = word
    return found

"""Tokenization of text for search, with one rule for all backends.

A text is folded: NFKC, without case, accents, strokes and hooks of Latin letters (`ł` is `l`, `æ` is `ae`), and vowel signs of
Arabic and Hebrew. Its words are runs of letters, digits and the marks that belong to them; an emoji is a word by itself. Scripts
without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese), and Korean, where endings are attached to words, are split into pairs
of adjacent characters: `日本語` is stored as `日本`, `本語`, and its last character, `語`. So every part of it is found: a longer
part as consecutive pairs, a single character as the beginning of a pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from unicodedata import category, name

from shoal.core.text import normalized

MAX_WORD = 64
"""Maximum characters of a word that are indexed."""
MAX_REPEATS = 200
"""Maximum occurrences of a word in a text that are indexed, because an index keeps few positions of a word."""
MAX_CLAUSES = 32
"""Maximum clauses of a query; further ones are ignored."""

_DROPPED = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0640\u200b-\u200f\u2060\ufe00-\ufe0f\u00ad"
"""Accents, vowel signs, the Arabic lengthener (tatweel), and invisible characters."""
_PAIRED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3041-\u3096\u3099-\u309f\u30a1-\u30fa"
    "\u30fc-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_EMOJI = "\u2600-\u27bf\u2b50-\u2b55\U0001f1e6-\U0001faff"
_DROP = re.compile(f"[{_DROPPED}]+")
_PLAIN = re.compile("[a-z0-9]+")
_PIECES = re.compile(f"([{_PAIRED}]+)|([{_EMOJI}])|([^{_PAIRED}{_EMOJI}]+)")


_LETTER_WITH = re.compile("LATIN SMALL LETTER ([A-Z]) WITH .+")


class _Letters(dict[int, int | str]):
    """A translation table from letters that Unicode does not decompose, such as those with a stroke, to their base letters."""

    def __missing__(self, code: int) -> int | str:
        match = _LETTER_WITH.fullmatch(name(chr(code), ""))
        self[code] = made = match[1].lower() if match else code
        return made


_LETTERS = _Letters(
    {ord(letter): base for letter, base in zip("æœðþŋı", ("ae", "oe", "d", "th", "n", "i"), strict=True)}
)


class Clause(NamedTuple):
    """Consecutive words to search for. If `open` is true, the last word may be only the beginning of a word."""

    words: tuple[str, ...]
    open: bool = False


class _Characters(dict[int, int | str]):
    """A table for folded text that keeps the characters of words and maps all others to a space."""

    def __missing__(self, code: int) -> int | str:
        character = chr(code)
        keep = category(character)[0] in "LNM" or re.match(f"[{_EMOJI}]", character) is not None
        self[code] = made = code if keep else " "
        return made


_CHARACTERS = _Characters()


def fold(text: str) -> str:
    """Return a text in lower case without accents and other differences that search ignores."""
    if text.isascii():
        return text.lower()
    bare = normalized("NFD", normalized("NFKC", text).casefold())
    return normalized("NFC", _DROP.sub("", bare).translate(_LETTERS))


def words_of(text: str) -> list[str]:
    words = tokens_of(text)
    if len(set(words)) == len(words):
        return words
    counts: dict[str, int] = {}
    found: list[str] = []
    for word in words:
        counts[word] = counts.get(word, 0) + 1
        if counts[word] <= MAX_REPEATS:
            found.append(word)
    return found


def clause_of(text: str, *, open_ended: bool = False) -> Clause | None:
    """Return the search clause of a text: a search for its words as a phrase; None if it has no words.

    With `open_ended`, the last word of the text may be the beginning of a longer word.
    """
    words = tokens_of(text)
    if not words:
        return None
    last = words[-1]
    if _is_paired(last) and len(last) == 1:
        # In a script without spaces, a run of characters is indexed as overlapping pairs, followed by its final character. After
        # a pair, the final character is redundant. If the run has only this character, it may be the beginning of a pair.
        if len(words) > 1 and len(words[-2]) > 1 and _is_paired(words[-2]) and words[-2][-1] == last:
            words.pop()
            return Clause(tuple(words), open_ended)
        return Clause(tuple(words), open=True)
    return Clause(tuple(words), open_ended)


def tokens_of(text: str) -> list[str]:
    """Return all words of a text, in order. Unlike `words_of`, for matching without an index: no repetition is left out."""
    folded = fold(text)
    if folded.isascii():
        return [word[:MAX_WORD] for word in _PLAIN.findall(folded)]
    return list(_pieces(folded))


def _pieces(folded: str) -> Iterator[str]:
    for run in folded.translate(_CHARACTERS).split():
        for match in _PIECES.finditer(run):
            if match[1]:
                yield from _pairs(match[1])
            else:
                yield match[0][:MAX_WORD]


def _pairs(run: str) -> Iterator[str]:
    for at in range(len(run) - 1):
        yield run[at : at + 2]
    yield run[-1]


_ONE_PAIRED = re.compile(f"[{_PAIRED}]")


def _is_paired(word: str) -> bool:
    return _ONE_PAIRED.match(word) is not None

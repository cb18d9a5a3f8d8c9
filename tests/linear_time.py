"""Texts that make careless text processing slow, and a check that processor time grows linearly with their length."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

UNITS = {
    "marks out of order": "\u0301\u0327",
    "one mark": "\u0301",
    "marks that decompose": "\u0344\u0f73",
    "half-width sound marks": "\uff9e",
    "a letter with 30 marks": "a" + "\u0301\u0327" * 15,
    "variation selectors": "\u2764\ufe0f\ufe0f",
    "zero-width joiners": "\u200d",
    "zero-width spaces": "\u200b",
    "emoji sequences": "\U0001f469\U0001f3fd\u200d",
    "flags": "\U0001f1e9\U0001f1ea",
    "tag characters": "\U000e0041",
    "Hangul letters": "\u1100\u1161\u11a8",
    "prepended marks": "\u0600",
    "ligatures of 18 letters": "\ufdfa",
    "spaces": " ",
    "blank lines": "\n",
    "carriage returns": "\r",
    "one long word": "a",
    "one long word of ideographs": "\u6f6e",
    "hyphens": "-",
    "dots": ".",
    "dotted words": "a.",
    "quotation marks": '"',
    "commas": ",",
    "colons": ":",
    "slashes": "/",
    "percent signs": "%",
    "mentions": "@ann ",
    "mentions in a row": "@a@",
    "mentions with domains": "@ann@example.org ",
    "at signs": "@",
    "tags": "#tide ",
    "tags in a row": "#a",
    "number signs": "#",
    "links": "https://example.org/a ",
    "schemes": "http://",
    "links in parentheses": "http://a/(",
    "nested parentheses": "(",
    "nested brackets": "[",
    "paths of msgspec": " - at `$",
    "opening tags": "<a ",
    "entities": "&#",
    "operators": "from:a ",
    "phrases": '"a b" ',
    "escapes": "\\",
    "directions": "\u202e",
}

_NEGLIGIBLE = 0.02
"""Seconds of processor time that are too short to compare."""


def nasty(unit: str, characters: int, start: str = "") -> str:
    """Return a text of about this many characters: a start and repetitions of a unit of `UNITS`."""
    return start + UNITS[unit] * (characters // len(UNITS[unit]))


def assert_linear(work: Callable[[str], object], unit: str, characters: int = 10_000) -> None:
    """Assert that twice the text takes at most about three times the processor time, unless the time is negligible.

    Errors of the work are ignored: a refusal must be quick, too. Each run has a different text, in case the work is cached.
    """
    many = _time_of(work, unit, 2 * characters, 0)
    if many > _NEGLIGIBLE:
        few = min(_time_of(work, unit, characters, run) for run in range(3))
        many = min(many, *(_time_of(work, unit, 2 * characters, run) for run in (1, 2)))
        assert many <= 3 * few + _NEGLIGIBLE, f"{unit}: {few:.4f} s, and {many:.4f} s for twice the text"


def _time_of(work: Callable[[str], object], unit: str, characters: int, run: int) -> float:
    text = nasty(unit, characters, str(run))
    began = time.process_time()
    with contextlib.suppress(Exception):
        work(text)
    return time.process_time() - began

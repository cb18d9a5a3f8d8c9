"""Made-up names, any number of them, each once: syllables as people put them together, and a number behind.

The same seed gives the same names. A billion of them need no file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from random import Random

import numpy as np
from numpy.typing import NDArray

from shoal.study.mixing import mixed
from shoal.study.names.batch import NameBatch

MOST_NAMES = 10_000_000_000
_AT_ONCE = 131_072
_STEMS = 4_096
_STEM_BYTES = 8
_BEGINNINGS = (
    "ma",
    "an",
    "jo",
    "al",
    "ca",
    "da",
    "lu",
    "sa",
    "pa",
    "ro",
    "mi",
    "el",
    "ch",
    "be",
    "je",
    "ka",
    "li",
    "di",
)
_MIDDLES = ("ri", "na", "li", "an", "ro", "ni", "ca", "la", "to", "el", "mi", "do", "sa", "be", "ti", "gu", "xa", "ze")
_ENDS = ("a", "o", "ta", "na", "s", "el", "ito", "y", "in", "ra", "do", "x", "", "n", "e", "lo")


def generated_batches(count: int, seed: int, told: Callable[[int, int], None]) -> Iterator[NameBatch]:
    """Yield so many different names. `told` hears how many were made, and how many there will be."""
    made = 0
    while made < count:
        # Names of a batch have numbers of equally many digits, so a batch ends before the next power of ten.
        width = len(str(made))
        end = min(count, made + _AT_ONCE, 10**width)
        yield _names(made, end, width, seed)
        made = end
        told(made, count)


@lru_cache(maxsize=4)
def _stems(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Beginnings of names, of which the first are the likeliest: their bytes, and how many each has."""
    random = Random(seed)  # noqa: S311  # names to be spread, no secret
    parts = (_BEGINNINGS, _MIDDLES, _ENDS)
    weights = [[1 / (place + 2) for place in range(len(part))] for part in parts]
    stems = ["".join(random.choices(*pair)[0] for pair in zip(parts, weights, strict=True)) for _ in range(_STEMS)]
    text = np.array([stem.encode() for stem in stems], f"S{_STEM_BYTES}").view(np.uint8).reshape(_STEMS, _STEM_BYTES)
    return text, np.array([len(stem) for stem in stems])


def _names(begin: int, end: int, width: int, seed: int) -> NameBatch:
    ordinals = np.arange(begin, end, dtype=np.int64)
    stems, lengths = _stems(seed)
    chosen = (mixed(ordinals.astype(np.uint64), seed) >> np.uint64(52)).astype(np.int64)
    held = lengths[chosen]
    row = (_STEM_BYTES + width + 3) // 4 * 4
    text = np.zeros((len(ordinals), row), np.uint8)
    text[:, :_STEM_BYTES] = stems[chosen]
    flat = text.reshape(-1)
    at = np.arange(0, len(flat), row) + held + width
    left = ordinals.astype(np.uint64)
    for _ in range(width):
        at -= 1
        left, digit = left // np.uint64(10), left % np.uint64(10)
        flat[at] = digit + ord("0")
    return NameBatch(np.ascontiguousarray(text.view("<u4").T), held + width, ordinals)

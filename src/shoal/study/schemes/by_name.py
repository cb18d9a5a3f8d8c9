"""The three schemes of the 2006 paper that need the name alone: its letters, the sum of its letters, and its MD5 digest."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase, digits

import numpy as np
from numpy.typing import NDArray

from shoal.core.placement import DATA_SOURCES, SHARDS_PER_SOURCE
from shoal.study.names.batch import NameBatch
from shoal.study.schemes.contract import NO_BUCKET, Level, numbered
from shoal.study.schemes.md5 import first_words

CHARACTERS = ascii_lowercase + digits + "_"
"""The 37 characters that a user name of the paper is made of."""
SUM_MODULI = 31, 33
MIDDLE = 64
"""Buckets of the second level of MD5."""

_OF_BYTE = np.full(256, NO_BUCKET, np.intp)
_OF_BYTE[np.frombuffer(CHARACTERS.encode(), np.uint8)] = np.arange(len(CHARACTERS))


class Letters:
    """The first, second and third letter."""

    key = "letters"
    title = "Letters"
    levels: Sequence[Level] = tuple(
        Level(f"{place} letter", CHARACTERS, graph)
        for place, graph in (("first", "D1"), ("second", "D2"), ("third", "D3"))
    )

    def place(self, batch: NameBatch) -> Sequence[NDArray[np.intp]]:
        """A character that is none of the 37, and one that is not there, has no bucket."""
        first = batch.words[0]
        return [_OF_BYTE.take((first >> np.uint32(shift)) & np.uint32(0xFF)) for shift in (0, 8, 16)]


class AsciiSum:
    """The sum of the bytes of the name mod 31, and the sum without the first one mod 33."""

    key = "ascii-sum"
    title = "ASCII sum"
    levels: Sequence[Level] = (
        Level("sum mod 31", numbered(SUM_MODULI[0]), "N1"),
        Level("rest mod 33", numbered(SUM_MODULI[1]), "N2"),
    )

    def place(self, batch: NameBatch) -> Sequence[NDArray[np.intp]]:
        """Every name has a bucket at both levels, also an empty one: 0."""
        whole = np.zeros(batch.size, np.uint32)
        halves = np.uint32(0x00FF00FF)
        for word in batch.words:
            # Two bytes at a time, in the halves of a word.
            pairs = (word & halves) + ((word >> np.uint32(8)) & halves)
            whole += (pairs & np.uint32(0xFFFF)) + (pairs >> np.uint32(16))
        rest = whole - (batch.words[0] & np.uint32(0xFF))
        return [(part % np.uint32(by)).astype(np.intp) for part, by in zip((whole, rest), SUM_MODULI, strict=True)]


class Md5Levels:
    """Two hex digits of the MD5 digest for each level, mod 64, 64 and 128: what `core.placement` does."""

    key = "md5"
    title = "MD5"
    levels: Sequence[Level] = (
        Level("a: mod 64", numbered(DATA_SOURCES), "M1"),
        Level("b: mod 64", numbered(MIDDLE), "M2"),
        Level("c: mod 128", numbered(SHARDS_PER_SOURCE), "M3"),
    )

    def place(self, batch: NameBatch) -> Sequence[NDArray[np.intp]]:
        """Every name has a bucket at each level."""
        words = first_words(batch)
        return [
            ((words >> np.uint32(8 * at)) & np.uint32(level.buckets - 1)).astype(np.intp)
            for at, level in enumerate(self.levels)
        ]

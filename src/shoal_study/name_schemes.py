"""The schemes of the 2006 paper that depend on the name only: its letters, the sum of its letters, and its MD5 digest.

MD5 is computed for many names at once, by running the steps of RFC 1321 on whole arrays. A placement needs only the first
four bytes of the digest, which are ready three steps before the end. Names of more than 55 bytes are hashed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import md5
from math import sin
from string import ascii_lowercase, digits
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.core.placement import DATA_SOURCES, SHARDS_PER_SOURCE
from shoal_study.names import SHORT_BYTES, Amounts, NameBatch, Numbers, Words

NO_BUCKET = -1
"""Index of a name without a bucket at a level, such as a second letter that does not exist."""


class Level(NamedTuple):
    name: str
    labels: Sequence[str]
    """A label for each bucket: a letter or a number."""
    graph: str
    """The graph of the paper that shows the directories of all levels down to this one."""
    path: str
    """The name of the directories of all levels down to this one."""

    @property
    def buckets(self) -> int:
        return len(self.labels)


class LevelScheme(Protocol):
    """A scheme that assigns a name to one bucket on each of one to three levels of directories, by the name alone."""

    @property
    def key(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def levels(self) -> Sequence[Level]: ...

    def place(self, batch: NameBatch) -> Sequence[NDArray[np.intp]]:
        """Return one array for each level of directories: the bucket of each name, as an index of `labels`, or `NO_BUCKET`."""


class Loads:
    """The number of members in each bucket, and the sum of their activity."""

    def __init__(self, buckets: int) -> None:
        self.members: Numbers = np.zeros(buckets, np.int64)
        self.activity: Amounts = np.zeros(buckets)
        self.without = 0

    def add(self, buckets: NDArray[np.intp], activity: Amounts | None) -> None:
        placed = buckets >= 0
        if not placed.all():
            self.without += int(len(buckets) - placed.sum())
            buckets = buckets[placed]
            activity = None if activity is None else activity[placed]
        self.members += np.bincount(buckets, minlength=len(self.members))
        if activity is not None:
            self.activity += np.bincount(buckets, activity, minlength=len(self.members))

    def grouped(self, owners: NDArray[np.intp], servers: int) -> Loads:
        found = Loads(servers)
        found.members += np.bincount(owners, self.members, minlength=servers).astype(np.int64)
        found.activity += np.bincount(owners, self.activity, minlength=servers)
        return found


def joined(outer: NDArray[np.intp], inner: NDArray[np.intp], buckets: int) -> NDArray[np.intp]:
    """Combine the buckets of two levels into one number per name; `NO_BUCKET` for a name without a bucket at one of them."""
    found = outer * buckets + inner
    found[(outer < 0) | (inner < 0)] = NO_BUCKET
    return found


def numbered(buckets: int) -> Sequence[str]:
    return tuple(map(str, range(buckets)))


_AT_ONCE = 16_384
"""Names hashed per round, so that the arrays of a round fit into the L2 cache."""
_STEPS = 61
_A, _B, _C, _D = (np.uint32(value) for value in (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476))
_LENGTH_WORD = 14


class _Step(NamedTuple):
    word: int
    constant: np.uint32
    left: np.uint32
    right: np.uint32


def _step(number: int) -> _Step:
    md5_round, at = divmod(number, 16)
    word = (at, (5 * at + 1) % 16, (3 * at + 5) % 16, 7 * at % 16)[md5_round]
    shift = ((7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21))[md5_round][number % 4]
    return _Step(word, np.uint32(int(abs(sin(number + 1)) * (1 << 32))), np.uint32(shift), np.uint32(32 - shift))


_TABLE = tuple(_step(number) for number in range(_STEPS))


def first_words(batch: NameBatch) -> Words:
    """Return the first four bytes of each name's MD5 digest as a little-endian number."""
    found = np.empty(batch.size, np.uint32)
    if batch.lengths.max(initial=0) > SHORT_BYTES:
        digests = b"".join(md5(name, usedforsecurity=False).digest()[:4] for name in batch.encoded())
        found[:] = np.frombuffer(digests, "<u4")
        return found
    for begin in range(0, batch.size, _AT_ONCE):
        end = min(begin + _AT_ONCE, batch.size)
        found[begin:end] = _hashed(_message(batch, begin, end), end - begin)
    return found


def _message(batch: NameBatch, begin: int, end: int) -> list[Words | None]:
    lengths = batch.lengths[begin:end]
    mark = np.uint32(0x80) << (8 * (lengths & 3)).astype(np.uint32)
    last_word = lengths >> 2
    words: list[Words | None] = [None] * 16
    for at in range(int(last_word.max(initial=0)) + 1):
        marked = mark * (last_word == at)
        words[at] = marked | batch.words[at, begin:end] if at < len(batch.words) else marked
    words[_LENGTH_WORD] = (8 * lengths).astype(np.uint32)
    return words


def _hashed(message: list[Words | None], size: int) -> Words:
    """Compute the 64 steps of MD5. Operations write into existing arrays: allocating would cost more than the arithmetic."""
    a, b, c, d = (np.full(size, start, np.uint32) for start in (_A, _B, _C, _D))
    mixed, turned = np.empty(size, np.uint32), np.empty(size, np.uint32)
    for number, step in enumerate(_TABLE):
        _mix(number // 16, b, c, d, mixed)
        mixed += a
        mixed += step.constant
        word = message[step.word]
        if word is not None:
            mixed += word
        np.left_shift(mixed, step.left, out=turned)
        mixed >>= step.right
        mixed |= turned
        np.add(mixed, b, out=a)
        a, b, c, d = d, a, b, c
    b += _A
    return b


def _mix(md5_round: int, b: Words, c: Words, d: Words, out: Words) -> None:
    """Compute the round function of MD5 for three words (F, G, H or I of RFC 1321). F and G use forms with one operation less."""
    if md5_round == 0:
        np.bitwise_xor(c, d, out=out)
        out &= b
        out ^= d
    elif md5_round == 1:
        np.bitwise_xor(b, c, out=out)
        out &= d
        out ^= c
    elif md5_round == 2:
        np.bitwise_xor(b, c, out=out)
        out ^= d
    else:
        np.invert(d, out=out)
        out |= b
        out ^= c


CHARACTERS = digits + ascii_lowercase + "_"
"""The 37 characters of a user name, in the order of the paper."""
SUM_MODULI = 31, 33
MIDDLE = 64
"""Buckets of the second level of MD5."""

_OF_BYTE = np.full(256, NO_BUCKET, np.intp)
_OF_BYTE[np.frombuffer(CHARACTERS.encode(), np.uint8)] = np.arange(len(CHARACTERS))


class Letters:
    key = "letters"
    title = "Letters"
    levels: Sequence[Level] = tuple(
        Level(f"{place} letter", CHARACTERS, graph, path)
        for place, graph, path in (
            ("first", "D1", "first letter"),
            ("second", "D2", "two letters"),
            ("third", "D3", "three letters"),
        )
    )

    def place(self, batch: NameBatch) -> Sequence[NDArray[np.intp]]:
        """Return one array for each level of directories: the bucket of each name by its first, second or third character.

        A name that is too short for a level, or has a character outside `CHARACTERS` there, has `NO_BUCKET`.
        """
        first = batch.words[0]
        found = [_OF_BYTE.take((first >> np.uint32(shift)) & np.uint32(0xFF)) for shift in (0, 8, 16)]
        # A character outside ASCII has several bytes, so byte positions after it are not letter positions.
        for at in np.flatnonzero(first & np.uint32(0x00808080)):
            letters = batch.words[:, at].tobytes()[: batch.lengths[at]].decode()[:3].ljust(3, "\0")
            for level, character in zip(found, letters, strict=True):
                level[at] = CHARACTERS.find(character)
        return found


class AsciiSum:
    key = "ascii-sum"
    title = "ASCII sum"
    levels: Sequence[Level] = (
        Level("sum mod 31", numbered(SUM_MODULI[0]), "N1", "sum mod 31"),
        Level("rest mod 33", numbered(SUM_MODULI[1]), "N2", "31 x 33"),
    )

    def place(self, batch: NameBatch) -> Sequence[NDArray[np.intp]]:
        """Return two arrays, one for each level of directories, with the bucket of each name.

        The first bucket is the sum of the bytes of the name mod 31, the second the sum without the first byte mod 33.
        """
        whole = np.zeros(batch.size, np.uint32)
        halves = np.uint32(0x00FF00FF)
        for word in batch.words:
            # Add the bytes of each word in pairs. The sum of a pair has 16 bits, so it does not overflow.
            pairs = (word & halves) + ((word >> np.uint32(8)) & halves)
            whole += (pairs & np.uint32(0xFFFF)) + (pairs >> np.uint32(16))
        rest = whole - (batch.words[0] & np.uint32(0xFF))
        return [(part % np.uint32(by)).astype(np.intp) for part, by in zip((whole, rest), SUM_MODULI, strict=True)]


class Md5Levels:
    """A placement scheme: two hex digits of a name's MD5 digest for each level, mod 64, 64 and 128, as in `core.placement`."""

    key = "md5"
    title = "MD5"
    levels: Sequence[Level] = (
        Level("a: mod 64", numbered(DATA_SOURCES), "M1", "a: mod 64"),
        Level("b: mod 64", numbered(MIDDLE), "M2", "64 x 64"),
        Level("c: mod 128", numbered(SHARDS_PER_SOURCE), "M3", "64 x 64 x 128"),
    )

    def place(self, batch: NameBatch) -> Sequence[NDArray[np.intp]]:
        """Return one array for each level of directories: the bucket of each name by its MD5 digest."""
        words = first_words(batch)
        return [
            ((words >> np.uint32(8 * at)) & np.uint32(level.buckets - 1)).astype(np.intp)
            for at, level in enumerate(self.levels)
        ]

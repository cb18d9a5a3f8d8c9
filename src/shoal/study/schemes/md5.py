"""MD5 of many names at once: the same 61 steps on whole arrays, instead of a call for each name.

The digest's first four bytes are all that a placement needs, and they are ready three steps before the end. Names of more than
55 bytes do not fit one block and are hashed one by one. The steps and their constants are those of RFC 1321.
"""

from __future__ import annotations

from hashlib import md5
from math import sin
from typing import NamedTuple

import numpy as np

from shoal.study.names.batch import SHORT_BYTES, NameBatch, Words

_AT_ONCE = 16_384
"""Names hashed at a time: the arrays of one round fit the processor's second cache."""
_STEPS = 61
_A, _B, _C, _D = (np.uint32(value) for value in (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476))
_LENGTH_WORD = 14


class _Step(NamedTuple):
    word: int
    constant: np.uint32
    left: np.uint32
    right: np.uint32
    """The rotation: so far to the left, and the rest to the right."""


def _step(number: int) -> _Step:
    turn, at = divmod(number, 16)
    word = (at, (5 * at + 1) % 16, (3 * at + 5) % 16, 7 * at % 16)[turn]
    shift = ((7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21))[turn][number % 4]
    return _Step(word, np.uint32(int(abs(sin(number + 1)) * (1 << 32))), np.uint32(shift), np.uint32(32 - shift))


_TABLE = tuple(_step(number) for number in range(_STEPS))


def first_words(batch: NameBatch) -> Words:
    """Return the first four bytes of each name's MD5 digest as a number, the first byte lowest."""
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
    """Return the 16 words of the block of some names; a word that is 0 in all of them is None."""
    lengths = batch.lengths[begin:end]
    mark = np.uint32(0x80) << (8 * (lengths & 3)).astype(np.uint32)
    place = lengths >> 2
    words: list[Words | None] = [None] * 16
    for at in range(int(place.max(initial=0)) + 1):
        marked = mark * (place == at)
        words[at] = marked | batch.words[at, begin:end] if at < len(batch.words) else marked
    words[_LENGTH_WORD] = (8 * lengths).astype(np.uint32)
    return words


def _hashed(message: list[Words | None], size: int) -> Words:
    """Take the steps. All operations write into arrays that are there: making new ones would cost more than the arithmetic."""
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


def _mix(turn: int, b: Words, c: Words, d: Words, out: Words) -> None:
    """Write the round's function of three words: F, G, H or I of RFC 1321, F and G with one operation less."""
    if turn == 0:
        np.bitwise_xor(c, d, out=out)
        out &= b
        out ^= d
    elif turn == 1:
        np.bitwise_xor(b, c, out=out)
        out &= d
        out ^= c
    elif turn == 2:
        np.bitwise_xor(b, c, out=out)
        out ^= d
    else:
        np.invert(d, out=out)
        out |= b
        out ^= c

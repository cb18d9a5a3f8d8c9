"""Names packed into the columns of an array, so that a step of a hash or a sum is one operation over all of them.

Column `i` of `words` holds name `i` as UTF-8, four bytes to a row, the first byte lowest, and zeros behind its end. So the names
`ann` and `frunk` are the columns `(0x006e6e61, 0)` and `(0x6e757266, 0x6b)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.errors import InvalidInput

MOST_BYTES = 1_024
"""Bytes of the longest name that is studied: a longer line is no name."""
SHORT_BYTES = 55
"""Bytes that fit one block of MD5, with its mark and its length. Longer names travel in batches of their own."""

Words = NDArray[np.uint32]
Numbers = NDArray[np.int64]
Amounts = NDArray[np.float64]

_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], np.uint32)
_LINE_END = 10


class NameBatch(NamedTuple):
    """Some names, in lower case. All arrays have as many columns as there are names."""

    words: Words
    """Shape (rows, names): as many rows as the longest name needs."""
    lengths: Numbers
    """Bytes of each name: from 1, or from 0 where the batch was made of given names."""
    ordinals: Numbers
    """Position of each name in the list, from 0: the order in which members signed up."""
    activity: Amounts | None = None
    """How active each member is, in any unit; None where the source does not say."""

    @property
    def size(self) -> int:
        """How many names."""
        return len(self.lengths)

    def encoded(self) -> list[bytes]:
        """The names as UTF-8."""
        rows = np.ascontiguousarray(self.words.T)
        # NumPy cuts the zeros off the end; a name has none of its own.
        found: list[bytes] = rows.view(f"S{rows.shape[1] * 4}").ravel().tolist()
        return found


def batch_of(names: Sequence[str], first: int = 0) -> NameBatch:
    """Return the batch of these names, in lower case; an empty one is allowed. Raises `InvalidInput` for a name that is none."""
    lines = [name.lower().encode() for name in names]
    if any(b"\n" in line or b"\0" in line for line in lines):
        raise InvalidInput("a name has no line break and no zero byte in it")
    raw = b"".join(line + b"\n" for line in lines)
    starts, lengths = _lines_of(raw)
    return _packed(raw, starts, lengths, np.arange(first, first + len(lengths), dtype=np.int64), None)


def batches_of(raw: bytes, first: int, activity: Amounts | None = None) -> Iterator[NameBatch]:
    """Yield the names of whole lines in lower case, those of at most `SHORT_BYTES` first; empty lines are left out.

    `first` is the position of the first name, and `activity` has a number for each name. Raises `InvalidInput` for a line that
    is no name.
    """
    if b"\0" in raw:
        raise InvalidInput(f"near name {first + 1:,}: there are zero bytes, so this is no list of names")
    if any(space in raw for space in (b"\r", b"\t", b" ")):
        raw = b"".join(line.strip() + b"\n" for line in raw.split(b"\n"))
    starts, lengths = _lines_of(raw)
    chosen = np.flatnonzero(lengths)
    starts, lengths = starts[chosen], lengths[chosen]
    if len(lengths) and lengths.max() > MOST_BYTES:
        at = first + int(lengths.argmax()) + 1
        raise InvalidInput(f"name {at:,} has {lengths.max():,} bytes: a name has at most {MOST_BYTES:,}")
    ordinals = np.arange(first, first + len(lengths), dtype=np.int64)
    short = lengths <= SHORT_BYTES
    for some in (short, ~short):
        if some.any():
            yield _packed(
                raw, starts[some], lengths[some], ordinals[some], None if activity is None else activity[some]
            )


def _lines_of(raw: bytes) -> tuple[Numbers, Numbers]:
    """Where the lines begin, and how many bytes each has."""
    ends = np.flatnonzero(np.frombuffer(raw, np.uint8) == _LINE_END)
    starts = np.concatenate((np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1))
    return starts, ends - starts


def _packed(raw: bytes, starts: Numbers, lengths: Numbers, ordinals: Numbers, activity: Amounts | None) -> NameBatch:
    rows = max(1, (int(lengths.max(initial=0)) + 3) // 4)
    text = np.zeros(len(raw) + 4 * rows + 4, np.uint8)
    text[: len(raw)] = np.frombuffer(raw, np.uint8)
    # The four bytes from each place on, as a number.
    fours = np.ascontiguousarray(np.ndarray((len(text) - 3,), "<u4", text.data, strides=(1,)))
    words = np.empty((rows, len(lengths)), np.uint32)
    for row in range(rows):
        left = np.clip(lengths - 4 * row, 0, 4)
        # A word behind the end of its name is masked whole, wherever it was read.
        np.bitwise_and(fours.take(starts + 4 * row, mode="clip"), _MASKS.take(left), out=words[row])
    return NameBatch(words, lengths, ordinals, activity)

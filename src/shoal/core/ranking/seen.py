"""Memory of the posts that a member has seen: 32 bits each, the newest thousand, 4 KB at most.

An entry is 29 bits made of the id of a post, and how often it was seen, 1 to 7. Two posts share these bits once in 537 million
pairs: with a thousand posts in memory, one in 537,000 candidates is taken for seen although it was not.

    data after post 5 was seen, then 6, then 5 again: [5, twice] [6, once]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from shoal.core.ids import SPREAD

MOST = 1_000
"""Posts in memory."""
MOST_TIMES = 7
"""Highest number of times that is counted."""
_TIMES_BITS = 3

_Marks = npt.NDArray[np.uint32]


def add_seen(data: bytes, ids: Iterable[int]) -> bytes:
    """Return the memory after these posts were seen once more each, the last of them most recently."""
    times = dict(zip(*_entries(data), strict=True))
    latest = [int(mark) for mark in _marks(list(dict.fromkeys(ids)))]
    kept = {mark: min(times.get(mark, 0) + 1, MOST_TIMES) for mark in reversed(latest)}
    for mark, seen in times.items():
        kept.setdefault(mark, seen)
    packed = [mark << _TIMES_BITS | seen for mark, seen in kept.items()]
    return np.array(packed[:MOST], "<u4").tobytes()


def times_seen(data: bytes, ids: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return how often each post was seen, as far as that is remembered: shape (ids,)."""
    if not data or not ids:
        return np.zeros(len(ids))
    packed = np.frombuffer(data, "<u4")
    order = np.argsort(packed)
    known = packed[order] >> _TIMES_BITS
    marks = _marks(ids)
    at = np.minimum(np.searchsorted(known, marks), len(known) - 1)
    found: npt.NDArray[np.float64] = np.where(known[at] == marks, packed[order][at] & MOST_TIMES, 0).astype(np.float64)
    return found


def _marks(ids: Sequence[int]) -> _Marks:
    return (np.array(ids, np.uint64) * np.uint64(SPREAD) >> np.uint64(32 + _TIMES_BITS)).astype(np.uint32)


def _entries(data: bytes) -> tuple[list[int], list[int]]:
    packed = np.frombuffer(data, "<u4")
    return (packed >> _TIMES_BITS).tolist(), (packed & MOST_TIMES).tolist()

"""64-bit ids in Instagram's layout: 41 bits of milliseconds since 2024-01-01 UTC, 13 of logical shard, 10 of sequence.

Ids of a shard are ordered by creation time, need no coordination, and contain the shard of their object. They stay below 2**63
until 2058. Ids that are derived from a name (`named`) are negative, so they never equal an id that is derived from the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import md5

from shoal.core.placement import SHARDS, place

EPOCH_MS = 1_704_067_200_000
"""2024-01-01T00:00:00Z in Unix milliseconds."""

BACKDATED_UNTIL_MS = EPOCH_MS + 10 * 86_400_000
"""End of the ten days into which imports map all older objects: the time in an id before it may not be the true time."""

SHARD_BITS = 13
SEQUENCE_BITS = 10
BLOCK = 256
"""Number of ids per block (`IdMaker.block`): a shard has 4 blocks per millisecond."""
MAX_ID = 2**63 - 1

SPREAD = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio, for multiplicative hashing (Knuth, The Art of Computer Programming 3, 6.4).

The upper bits of a product with it depend on all bits of an id.
"""

_SEQUENCES = 1 << SEQUENCE_BITS
_TIME_SHIFT = SHARD_BITS + SEQUENCE_BITS
_SHARD_MASK = SHARDS - 1


def compose(milliseconds: int, shard: int, sequence: int = 0) -> int:
    """Return an id for Unix milliseconds (not before the epoch), a shard 0..8191 and a sequence 0..1023."""
    if milliseconds < EPOCH_MS:
        raise ValueError("an id cannot encode a time before 2024-01-01T00:00:00Z")
    return (milliseconds - EPOCH_MS) << _TIME_SHIFT | shard << SEQUENCE_BITS | sequence


def shard_of(id_: int) -> int:
    return id_ >> SEQUENCE_BITS & _SHARD_MASK


def milliseconds_of(id_: int) -> int:
    return (id_ >> _TIME_SHIFT) + EPOCH_MS


def floor_at(milliseconds: int) -> int:
    """Return the smallest possible id with this time, for use as a cursor: 0 before the epoch, `MAX_ID` from November 2058 on."""
    return min(max(0, milliseconds - EPOCH_MS) << _TIME_SHIFT, MAX_ID)


def named(space: str, name: str) -> int:
    """Return the id of an object that is identified only by its name, such as a tag. The id is negative, on the name's shard.

    The id consists of 50 bits of the MD5 digest of `space:name` and the 13 bits of the shard. Among a million names, two share an
    id with a probability of 1e-7.
    """
    spread = int.from_bytes(md5(f"{space}:{name}".encode(), usedforsecurity=False).digest()[:8])
    high, low = spread >> 24, spread & (_SEQUENCES - 1)
    bits = (high & (1 << 40) - 1) << _TIME_SHIFT | place(name).shard << SEQUENCE_BITS | low
    return bits - 2**63


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class IdMaker:
    """The id generator of a process; call it with a shard.

    Ids of a shard never repeat and never decrease, even if the clock is set back: the generator continues from its last id. If all
    1,024 ids of a millisecond are used, it continues with those of the next millisecond. Two generators, or one that was restarted
    after its clock was set back, can generate equal ids. The store refuses the second use (`graph.contract.Batch.fresh`), and the
    caller has to generate another id.
    """

    def __init__(self, clock: Callable[[], int] = now_ms, *, first: int = 0) -> None:
        self._clock = clock
        # The sequence number of the first id in each millisecond. Id makers with different numbers rarely generate equal ids.
        self._first = first
        # The last id of each shard, as milliseconds since the epoch * 1024 + sequence.
        self._last: dict[int, int] = {}
        self._now = 0

    def now(self) -> int:
        """Return the current time in Unix milliseconds. It never decreases, even if the clock is set back."""
        self._now = max(self._now, self._clock())
        return self._now

    def __call__(self, shard: int) -> int:
        ticks = self._last[shard] = self._next(shard)
        return _composed(ticks, shard)

    def block(self, shard: int) -> int:
        """Reserve `BLOCK` consecutive ids and return the first.

        Blocks are aligned, so two of them are equal or disjoint. If the caller creates an object with the first id, the store
        rejects a second object with that id, so no other caller can use the same block.
        """
        ticks = -(-self._next(shard) // BLOCK) * BLOCK
        self._last[shard] = ticks + BLOCK - 1
        return _composed(ticks, shard)

    def _next(self, shard: int) -> int:
        ticks = (self._clock() - EPOCH_MS) << SEQUENCE_BITS | self._first
        return max(ticks, self._last.get(shard, -1) + 1)


def _composed(ticks: int, shard: int) -> int:
    return ticks >> SEQUENCE_BITS << _TIME_SHIFT | shard << SEQUENCE_BITS | ticks & (_SEQUENCES - 1)

"""Contracts of the home timeline store and of the ranking cache, and counters for pushed and pulled entries.

A timeline is a set of entry ids (of posts and shares), ordered by id, with a `floor`. Above the floor, the timeline is complete
once all events are processed. At and below it there is no guarantee, and the reader continues by pull. A timeline that has been
created is *warm*; any other is *cold*, and a write to it has no effect. A timeline can be read after it has been filled: entries
posted between creation and fill are pushed, and earlier entries are pulled. Every write is idempotent, and writes commute.

For example, in memory, member 7's timeline holds three entries:

1. It is filled with 50, 60 and 70, which are complete above 45: the floor is 45.
2. 80 is pushed. There is no room for 50, so the timeline holds 60, 70 and 80, and its floor is 50.
3. 40 is pushed late. It is below the floor, so it is ignored: a reader that goes down that far pulls it.
4. A new follow merges 65, complete above 58. Of 60, 65, 70 and 80 only three fit: 60 is removed, and the floor is 60.
5. A reader of five entries gets 80, 70 and 65 from the timeline, and pulls the other two from 60 downwards.

Members are addressed by *slots*, packed integers that only the store interprets, for writes to many members at
once. A store may drop any timeline at any time. A store that several processes share raises `Unavailable` when it cannot be
reached.

A ranking cache keeps the order of the first page of a ranked feed for an hour, so that later pages neither repeat nor skip
entries. It may drop a ranking at any time; the feed is then ranked again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.graph.contract import Cursor

Slots = NDArray[np.signedinteger[Any]]
Ids = NDArray[np.int64]


class Window(NamedTuple):
    """A range of a timeline: ids in the requested order, and the floor of the timeline."""

    ids: list[int]
    floor: int


class Timelines(Protocol):
    @property
    def length(self) -> int: ...

    def slots(self, members: Sequence[int]) -> Slots:
        """Return the slots of those members whose timelines may be materialized, in no particular order."""
        ...

    async def create(self, member: int) -> None:
        """Create an empty timeline (floor 0) that is to be filled: writes reach it from now on. Idempotent."""
        ...

    async def fill(self, member: int, ids: Sequence[int], floor: int) -> None:
        """Merge entries that are complete above `floor` (see `union`), and make the timeline readable."""
        ...

    async def push(self, entry: int, slots: Slots) -> int:
        """Add an entry to the timelines in these slots, except those whose floor is above it; return how many were written."""
        ...

    async def remove(self, entry: int, slots: Slots) -> None: ...

    async def union(self, member: int, ids: Sequence[int], floor: int) -> None:
        """Merge entries that are complete above `floor`.

        The new floor of the timeline is `floor`, or higher if not all entries fit.
        """
        ...

    async def subtract(self, member: int, ids: Sequence[int]) -> None: ...

    async def read(self, member: int, at: Cursor) -> Window | None:
        """Return the entries above the floor that the cursor `at` selects; None if the timeline is cold or not filled."""
        ...

    async def floor(self, member: int) -> int | None:
        """Return the floor of a warm timeline; None if it is cold."""
        ...

    async def drop(self, members: Sequence[int]) -> None: ...

    async def drop_idle(self, seconds: float) -> None:
        """Drop timelines that were not read for this many seconds; they are rebuilt when they are read."""
        ...

    async def clear(self) -> None: ...

    async def members(self, most: int) -> list[int]:
        """Return up to `most` members whose timelines are warm, unordered."""
        ...


MARKED_SECONDS = 2.0
"""Seconds for which a demoted high-fan-out source stays marked after its entries are merged into the timelines of its followers.

So a page may read a timeline first and the marks up to this much later, instead of waiting for the marks.
"""
RETENTION_SECONDS = 3_600


class Readings(Protocol):
    """A cache of ranked feeds, encoded as bytes, by id. Raises `Unavailable` if processes share it and it cannot be reached."""

    async def keep(self, id_: int, data: bytes) -> None:
        """Store an encoded ranked feed for an hour."""
        ...

    async def get(self, id_: int) -> bytes | None: ...


class MemoryReadings:
    """A cache of ranked feeds in the memory of this process, up to `most_bytes` in total; the oldest are evicted."""

    def __init__(self, most_bytes: int = 16 << 20, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most_bytes
        self._clock = clock
        self._held: dict[int, tuple[float, bytes]] = {}
        self._bytes = 0

    async def keep(self, id_: int, data: bytes) -> None:
        self._forget(id_)
        self._held[id_] = (self._clock(), data)
        self._bytes += len(data)
        while self._bytes > self._most:
            self._forget(next(iter(self._held)))

    async def get(self, id_: int) -> bytes | None:
        stored_at, data = self._held.get(id_, (0.0, None))
        return data if self._clock() - stored_at < RETENTION_SECONDS else None

    def _forget(self, id_: int) -> None:
        if (reading := self._held.pop(id_, None)) is not None:
            self._bytes -= len(reading[1])


@dataclass(slots=True)
class PushCounter:
    """Counters of pushed entries and pulled lists in this process since its start."""

    pushed: int = 0
    pulled: int = 0
    """Lists of high-fan-out sources read for a page of a home timeline."""

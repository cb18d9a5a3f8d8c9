"""What a store of home timelines promises.

A timeline is a set of entry ids (of posts and shares), read in order of id, with a `floor`: above it the timeline is complete
once events are done, at and below it nothing is promised and the reader goes on by pull. A timeline that has been created
is *warm*; any other is *cold*, and writing to it is no effect. Every write is idempotent, and writes commute.

Members are addressed by *seats*, which only the store understands: packed integers, for writing to many at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.graph.contract import MAX_TIME

Seats = NDArray[np.int32]
Ids = NDArray[np.int64]


class Window(NamedTuple):
    """A part of a timeline: ids in the order asked for, and the floor above which it is complete."""

    ids: list[int]
    floor: int


class Timelines(Protocol):
    """Home timelines of many members."""

    def seats(self, members: Sequence[int]) -> Seats:
        """The seats of those members that are warm, in no promised order."""
        ...

    def warm(self, member: int) -> bool:
        """Whether the member's timeline is written to."""
        ...

    async def create(self, member: int) -> None:
        """Begin an empty timeline (floor 0), so that pushes reach it from now on; nothing happens to a warm one."""
        ...

    async def push(self, entry: int, seats: Seats) -> int:
        """Put an entry on many timelines; how many were written (those whose floor is above it are passed over)."""
        ...

    async def remove(self, entry: int, seats: Seats) -> None:
        """Take an entry off many timelines."""
        ...

    async def union(self, member: int, ids: Sequence[int], floor: int) -> None:
        """Merge entries that are complete above `floor`; the timeline's own floor rises to it, or past what no longer fits."""
        ...

    async def subtract(self, member: int, ids: Sequence[int]) -> None:
        """Take entries off one timeline."""
        ...

    async def read(
        self, member: int, *, before: int = MAX_TIME, after: int = 0, limit: int, oldest_first: bool = False
    ) -> Window | None:
        """Up to `limit` ids with `after < id < before`, above the floor, newest first (or oldest); None when cold."""
        ...

    async def floor(self, member: int) -> int | None:
        """The floor of a warm timeline; None when cold."""
        ...

    async def drop(self, members: Sequence[int]) -> None:
        """Make these timelines cold and forget them."""
        ...

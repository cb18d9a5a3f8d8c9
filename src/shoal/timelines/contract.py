"""The contract of a store of home timelines.

A timeline is a set of entry ids (of posts and shares), read in order of id, with a `floor`: above it the timeline is complete
once events are done, at and below it nothing is promised and the reader goes on by pull. A timeline that has been created
is *warm*; any other is *cold*, and writing to it is no effect. It can be read once it has been filled: what is posted between
the two is pushed, all that was there before is pulled. Every write is idempotent, and writes commute.

For example, in memory, member 7's timeline holds three entries:

1. It is filled with 50, 60 and 70, which are complete above 45: the floor is 45.
2. 80 is pushed. There is no room for 50, so the timeline holds 60, 70 and 80, and its floor is 50.
3. 40 is pushed, late. It is below the floor, so it is passed over: a reader who goes so far down pulls it.
4. A new follow merges 65, complete above 58. Of 60, 65, 70 and 80 only three fit: 60 goes, and the floor is 60.
5. A reader of five entries gets 80, 70 and 65 from here, and pulls the other two from 60 downwards.

Members are addressed by *seats*, which only the store understands: packed integers, for writing to many at once. A store may
forget any timeline at any time. One that several processes share raises `Unavailable` when it cannot be reached.

Glossary (`docs/glossary.md`): floor, seat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.graph.contract import Cursor

Seats = NDArray[np.signedinteger[Any]]
Ids = NDArray[np.int64]


class Window(NamedTuple):
    """A part of a timeline: ids in the order asked for, and the floor above which it is complete."""

    ids: list[int]
    floor: int


class Timelines(Protocol):
    """Home timelines of many members."""

    @property
    def length(self) -> int:
        """How many entries a timeline holds."""
        ...

    @property
    def seat_type(self) -> type[np.signedinteger[Any]]:
        """The integer type of seats."""
        ...

    def seats(self, members: Sequence[int]) -> Seats:
        """The seats of those members that may be warm, in no promised order."""
        ...

    async def create(self, member: int) -> None:
        """Begin an empty timeline (floor 0) that is to be filled: writes reach it from now on; nothing happens to a warm one."""
        ...

    async def fill(self, member: int, ids: Sequence[int], floor: int) -> None:
        """As `union`, and from now on the timeline can be read."""
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

    async def read(self, member: int, at: Cursor) -> Window | None:
        """Return this part of what is above the floor, in the cursor's direction; None when cold or not filled."""
        ...

    async def floor(self, member: int) -> int | None:
        """The floor of a warm timeline; None when cold."""
        ...

    async def drop(self, members: Sequence[int]) -> None:
        """Make these timelines cold and forget them."""
        ...

    async def drop_idle(self, seconds: float) -> None:
        """Make cold what nobody has read for so long."""
        ...

    async def clear(self) -> None:
        """Make every timeline cold."""
        ...

    async def members(self, most: int) -> list[int]:
        """Up to so many members whose timelines are warm, in no promised order."""
        ...

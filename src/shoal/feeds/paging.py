"""The one loop behind every page: rows of a list are read in batches that grow, sifted, and shown until the page is full.

Clients stop at an empty page. So a page without anything means the end of the list, however much had to be looked at; only a
page that has something may be cut short by a bound of work, and its cursor lies past what was looked at. Every turn moves past
at least one row of a list that is not endless, so the loop ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

from shoal.feeds.merging.pull import check_limit
from shoal.graph.contract import Cursor

Raw = TypeVar("Raw")
Row = TypeVar("Row")
Item = TypeVar("Item")

SLACK = 3
"""How many more rows than wanted are read, so that a few that fall away cost no second read."""
MOST_AT_ONCE = 1_000
"""The largest batch."""
MOST_SHOWN = 200
"""The most rows that are shown at once."""
ENOUGH = 20_000
"""After looking at this many rows, a page that has something is answered: a twentieth of a second, on SQLite."""

Fit = Callable[[Sequence[Item]], int]
"""How many of these, from the first, fit on a page."""


class Taking(Protocol[Row]):
    """Rows that are taken one part after the other."""

    async def take(self, n: int) -> list[Row]:
        """Return the next `n` rows; fewer where that would be too much work, an empty list only at the end."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing follows."""
        ...

    @property
    def drained(self) -> bool:
        """Whether all that was looked at has been taken."""
        ...

    @property
    def looked(self) -> int:
        """How many rows of the list were looked at."""
        ...

    @property
    def at(self) -> Cursor:
        """The part of the list behind what was looked at."""
        ...


class RowReader(Generic[Raw, Row]):
    """The rows of a list that are wanted, from a cursor on, in its direction.

    `read` gives up to `cursor.limit` raw rows, fewer only at the end of the list; `place` says where one of them stands in it;
    `sift` makes of some of them the rows that are wanted, in their order.
    """

    def __init__(
        self,
        cursor: Cursor,
        read: Callable[[Cursor], Awaitable[Sequence[Raw]]],
        sift: Callable[[Sequence[Raw]], Awaitable[Sequence[Row]]],
        place: Callable[[Raw], int],
    ) -> None:
        self._read = read
        self._sift = sift
        self._place = place
        self._cursor = cursor
        self._seen: Raw | None = None
        self._raw: Sequence[Raw] = ()
        self._ready: list[Row] = []
        self._at_end = False
        self._found = 0
        self.looked = 0
        """How many raw rows were looked at."""

    @property
    def at(self) -> Cursor:
        """The part of the list behind what was looked at."""
        return self._behind(self._seen)

    def _behind(self, last: Raw | None) -> Cursor:
        return self._cursor if last is None else self._cursor.past(self._place(last))

    @property
    def ended(self) -> bool:
        """Whether nothing follows."""
        return self._at_end and not self._raw and not self._ready

    @property
    def drained(self) -> bool:
        """Whether every row that was found has been taken."""
        return not self._ready

    async def take(self, n: int) -> list[Row]:
        """Return the next `n` rows: fewer at the end or once `ENOUGH` were looked at, none only at the end."""
        while len(self._ready) < n and not (self._at_end and not self._raw):
            if self._ready and self.looked >= ENOUGH:
                break
            await self._go_on(n - len(self._ready))
        taken, self._ready = self._ready[:n], self._ready[n:]
        return taken

    async def _go_on(self, missing: int) -> None:
        wanted = likely(missing, self.looked, self._found)
        if len(self._raw) < wanted and not self._at_end:
            if self.looked >= MOST_SHOWN:
                # Stores that are embedded answer at once: others get a turn.
                await asyncio.sleep(0)
            await self._refill(min(wanted + SLACK, MOST_AT_ONCE) - len(self._raw))
        part, self._raw = self._raw[:wanted], self._raw[wanted:]
        if part:
            found = await self._sift(part)
            self._ready += found
            self._found += len(found)
            self.looked += len(part)
            self._seen = part[-1]

    async def _refill(self, size: int) -> None:
        last = self._raw[-1] if self._raw else self._seen
        more = await self._read(self._behind(last).of(size))
        self._at_end = len(more) < size
        self._raw = [*self._raw, *more] if self._raw else more


async def unsifted(rows: Sequence[Raw]) -> Sequence[Raw]:
    """The sieve of a list all of whose rows are wanted."""
    return rows


def likely(missing: int, looked: int, found: int) -> int:
    """How many to look at to find what is missing, if it goes on as it went so far."""
    if not looked:
        return missing
    return min(missing * looked // max(found, 1) + 1, MOST_AT_ONCE)


async def read_items(
    cursor: Cursor,
    rows: Taking[Row],
    show: Callable[[Sequence[Row]], Awaitable[Sequence[Item]]],
    place: Callable[[Item], int],
    fits: Fit[Item] | None = None,
    *,
    at_once: int = 0,
) -> tuple[list[Item], int | None]:
    """The items of a page, always newest first, and the `before` of the page that follows; None at the end.

    `show` makes items of rows; some may fall away. A page has `cursor.limit` items, or as many as `fits` says, which is asked
    of all so far, read `at_once`. Raises `InvalidInput` for a limit below 1.
    """
    check_limit(cursor)
    step = at_once or cursor.limit + 1
    kept: list[Item] = []
    after: int | None = None
    taken = 0
    while True:
        # One more than is missing tells whether another page follows.
        missing = step - len(kept) if len(kept) < step else step
        part = await rows.take(min(likely(missing, taken, len(kept)), max(missing, MOST_SHOWN)))
        taken += len(part)
        if part:
            kept += await show(part)
        fit = min(len(kept), cursor.limit) if fits is None else fits(kept)
        if fit < len(kept):
            kept = kept[:fit]
            after = place(kept[-1])
            break
        if rows.ended or (kept and rows.looked >= ENOUGH and rows.drained):
            after = None if rows.ended else rows.at.before
            break
    if cursor.oldest_first:
        # The page that follows a page of the oldest is older than all of it.
        return kept[::-1], place(kept[0]) if kept else None
    return kept, after

"""Pagination: read bounded pages from one list or from the k-way merge of many lists.

Four readers share this module:

- `pull` returns the newest entries of many lists without reading any list to its end.
- `entries_page` and `objects_page` return pages of a list that needs no filtering.
- `look_through` returns pages of a list from which few entries match. It reads a bounded part of the list for each page; an empty
  page is not the end, because its cursor continues in either direction.
- `read_items` reads rows in growing batches, filters them and stops when the page is full. Clients stop at an empty page, so an
  empty page from `read_items` means the end of the list, however many rows were read. Only a page with at least one item may be
  cut short by the work limit, and its cursor lies past the rows that were read. Each iteration passes at least one row, so the
  loop ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from shoal.core.errors import InvalidInput
from shoal.core.model import Node
from shoal.graph.access import objects_of
from shoal.graph.contract import Assoc, Cursor, Reader
from shoal.graph.schema import AssocType

Sources = Mapping[AssocType, Sequence[int]]
"""Lists to merge: for each association type, the objects that own the lists."""


def check_limit(at: Cursor) -> None:
    """Raise `InvalidInput` for a limit below 1: an empty page would have no cursor to continue from."""
    if at.limit < 1:
        raise InvalidInput("limit: must be at least 1", field="limit")


async def pull(graph: Reader, sources: Sources, at: Cursor) -> list[int]:
    """Merge the lists in `sources` and return the first `at.limit` distinct times of their entries; two reads per association type.

    The times are newest first, unless the cursor `at` has `oldest_first`.

    The first read takes a few entries of every list. The `limit`-th of these entries bounds the result. The second read covers
    only lists whose few entries all lie within this bound, and reads them only up to it. The result is exact.
    """
    found: set[int] = set()
    for atype, id1s in sources.items():
        if id1s:
            found |= (await _pull(graph, atype, id1s, at)).keys()
    return sorted(found, reverse=not at.oldest_first)[: at.limit]


async def pull_entries(graph: Reader, atype: AssocType, id1s: Sequence[int], at: Cursor) -> list[Assoc]:
    """Merge lists of one type and return the first `at.limit` entries in the order of the cursor `at`; two reads.

    The order is newest first, unless the cursor has `oldest_first`. No two entries of the lists may have equal times.
    """
    found = await _pull(graph, atype, id1s, at)
    return [found[time] for time in sorted(found, reverse=not at.oldest_first)[: at.limit]]


async def _pull(graph: Reader, atype: AssocType, id1s: Sequence[int], at: Cursor) -> dict[int, Assoc]:
    few = min(at.limit, 2 + 2 * at.limit // len(id1s))
    lists = await graph.assoc_ranges(id1s, atype, at.of(few))
    times = _by_time(lists)
    bounded = at
    if len(times) >= at.limit:
        # Entries older than `bound` (with `oldest_first`: newer) cannot be in the result.
        bound = sorted(times, reverse=not at.oldest_first)[at.limit - 1]
        bounded = at._replace(before=bound) if at.oldest_first else at._replace(after=bound)
    more = [
        id1
        for id1, page in lists.items()
        if len(page) == few < at.limit and bounded.after < page[-1].time < bounded.before
    ]
    return times | _by_time(await graph.assoc_ranges(more, atype, bounded)) if more else times


def _by_time(lists: Mapping[int, Sequence[Assoc]]) -> dict[int, Assoc]:
    return {entry.time: entry for page in lists.values() for entry in page}


N = TypeVar("N", bound=Node)


async def entries_page(
    graph: Reader, owner: int, atype: AssocType, cursor: Cursor
) -> tuple[Sequence[Assoc], int | None]:
    """Return a page of list entries, and the `before` parameter of the next page; None at the end."""
    found = await graph.assoc_range(owner, atype, cursor.of(cursor.limit + 1))
    page = found[: cursor.limit]
    if cursor.oldest_first:
        return page[::-1], page[0].time if page else None
    return page, page[-1].time if len(found) > len(page) else None


async def objects_page(
    graph: Reader, owner: int, atype: AssocType, kind: type[N], cursor: Cursor
) -> tuple[list[N], int | None]:
    """Return a page of the objects of a kind in a list, and the `before` parameter of the next page; None at the end."""
    page, after = await entries_page(graph, owner, atype, cursor)
    return await objects_of(graph, kind, [entry.id2 for entry in page]), after


LOOKS = 25
"""Maximum reads per page: after that the page is short, and its cursor continues from there."""

Item = TypeVar("Item")


async def look_through(
    cursor: Cursor,
    at_once: int,
    read: Callable[[Cursor], Awaitable[Sequence[Assoc]]],
    sift: Callable[[Sequence[Assoc]], Awaitable[Sequence[Item]]],
    position_of: Callable[[Item], int],
) -> tuple[list[Item], int | None]:
    """Return a page of the items that `sift` returns, newest first, and the `before` parameter of the next page; None at the end.

    `read` returns `at_once` entries, more than the limit, and fewer only at the end of the list; `position_of` returns the position
    of an item. If a page has no item but the list has not ended, the position that was reached is returned, to continue there.
    Raises `InvalidInput` for a limit below 1.
    """
    check_limit(cursor)
    found: list[Item] = []
    at, ended = cursor, False
    for _ in range(LOOKS):
        listed = await read(at.of(at_once))
        found += await sift(listed)
        ended = len(listed) < at_once
        if ended or len(found) > cursor.limit:
            break
        at = at.past(listed[-1].time)
    here = found[: cursor.limit]
    reached = None if ended else at.after if cursor.oldest_first else at.before
    if cursor.oldest_first:
        return here[::-1], position_of(here[0]) if here else reached
    return here, position_of(here[-1]) if len(found) > cursor.limit else reached


Raw = TypeVar("Raw")
Row = TypeVar("Row")

SLACK = 3
"""Extra rows per read, so that a few filtered rows cost no second read."""
MOST_AT_ONCE = 1_000
"""Maximum rows per read."""
MOST_SHOWN = 200
"""Maximum rows hydrated together."""
ENOUGH = 20_000
"""Rows after which a page that has any item is returned: 50 ms on SQLite."""

Fit = Callable[[Sequence[Item]], int]
"""Returns how many of these items, from the first, fit on a page."""


class Taking(Protocol[Row]):
    """A source of rows that are read in parts."""

    async def take(self, n: int) -> list[Row]:
        """Return the next `n` rows, or fewer if more would be too expensive; an empty list only at the end."""

    @property
    def ended(self) -> bool:
        """Whether `take` has returned all rows."""

    @property
    def drained(self) -> bool:
        """Whether all rows that were read have been taken."""

    @property
    def looked(self) -> int:
        """Number of rows that were read, before filtering."""

    @property
    def at(self) -> Cursor:
        """The cursor at which reading would continue, after the rows that were read."""


class RowReader(Generic[Raw, Row]):
    """The filtered rows of a list, from a cursor on, in the cursor's direction.

    `read` returns up to `cursor.limit` raw rows, fewer only at the end of the list; `position_of` returns the position of a raw row
    in the list; `sift` filters and converts raw rows, keeping their order.
    """

    def __init__(
        self,
        cursor: Cursor,
        read: Callable[[Cursor], Awaitable[Sequence[Raw]]],
        sift: Callable[[Sequence[Raw]], Awaitable[Sequence[Row]]],
        position_of: Callable[[Raw], int],
    ) -> None:
        self._read = read
        self._sift = sift
        self._position_of = position_of
        self._cursor = cursor
        self._seen: Raw | None = None
        self._raw: Sequence[Raw] = ()
        self._ready: list[Row] = []
        self._at_end = False
        self._found = 0
        self.looked = 0

    @property
    def at(self) -> Cursor:
        return self._behind(self._seen)

    def _behind(self, last: Raw | None) -> Cursor:
        return self._cursor if last is None else self._cursor.past(self._position_of(last))

    @property
    def ended(self) -> bool:
        return self._at_end and not self._raw and not self._ready

    @property
    def drained(self) -> bool:
        return not self._ready

    async def take(self, n: int) -> list[Row]:
        """Return the next `n` rows, or fewer once `ENOUGH` unfiltered rows were read; an empty list only at the end."""
        while len(self._ready) < n and not (self._at_end and not self._raw):
            if self._ready and self.looked >= ENOUGH:
                break
            await self._go_on(n - len(self._ready))
        taken, self._ready = self._ready[:n], self._ready[n:]
        return taken

    async def _go_on(self, missing: int) -> None:
        needed = likely(missing, self.looked, self._found)
        if len(self._raw) < needed and not self._at_end:
            if self.looked >= MOST_SHOWN:
                # Embedded stores answer without suspending: yield to other tasks.
                await asyncio.sleep(0)
            await self._refill(min(needed + SLACK, MOST_AT_ONCE) - len(self._raw))
        part, self._raw = self._raw[:needed], self._raw[needed:]
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


def read_by_page(cursor: Cursor) -> Cursor:
    """Return the range that `read_items` reads first from a `RowReader` for a page at `cursor`."""
    return cursor.of(min(cursor.limit + 1 + SLACK, MOST_AT_ONCE))


async def unsifted(rows: Sequence[Raw]) -> Sequence[Raw]:
    return rows


def likely(missing: int, looked: int, found: int) -> int:
    """Estimate how many rows to read to find `missing` items, if the `looked` rows so far contained `found` items."""
    if not looked:
        return missing
    return min(missing * looked // max(found, 1) + 1, MOST_AT_ONCE)


async def read_items(
    cursor: Cursor,
    rows: Taking[Row],
    show: Callable[[Sequence[Row]], Awaitable[Sequence[Item]]],
    position_of: Callable[[Item], int],
    fits: Fit[Item] | None = None,
    *,
    at_once: int = 0,
) -> tuple[list[Item], int | None]:
    """Return the items of a page, always newest first, and the `before` parameter of the next page; None at the end.

    `show` converts rows to items, and may drop some. A page has `cursor.limit` items or, if `fits` is given, as many of the
    items read so far as `fits` returns. `at_once` is the number of items per read. Raises `InvalidInput` for a limit below 1.
    """
    check_limit(cursor)
    step = at_once or cursor.limit + 1
    collected: list[Item] = []
    after: int | None = None
    taken = 0
    while True:
        # Request one more item than is missing, which shows whether another page follows.
        missing = step - len(collected) if len(collected) < step else step
        part = await rows.take(min(likely(missing, taken, len(collected)), max(missing, MOST_SHOWN)))
        taken += len(part)
        if part:
            collected += await show(part)
        fit = min(len(collected), cursor.limit) if fits is None else fits(collected)
        if fit < len(collected):
            collected = collected[:fit]
            after = position_of(collected[-1])
            break
        if rows.ended or (collected and rows.looked >= ENOUGH and rows.drained):
            after = None if rows.ended else rows.at.before
            break
    if cursor.oldest_first:
        # The items were read oldest first. The next page has the items older than these.
        return collected[::-1], position_of(collected[0]) if collected else None
    return collected, after

"""Every feed: a skeleton of ids, looked at, filtered, hydrated in bulk, and refilled until the page is full."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from shoal.feeds.hydrate import Entry, Row, Sight, Wanted, sight
from shoal.feeds.paging import RowReader, read_items
from shoal.feeds.reads import Reads
from shoal.graph.contract import Cursor


class Page(NamedTuple):
    """Entries, always newest first. `next` is the `before` of the page that follows; None at the end."""

    entries: list[Entry]
    next: int | None


Skeleton = Callable[[Cursor], Awaitable[list[int]]]
"""Gives up to `cursor.limit` ids in the cursor's direction; fewer only at the end."""
Keep = Callable[[Sight, Sequence[Row]], Awaitable[list[Row]]]
"""The feed's own filter: which of the rows that the viewer may see belong to it."""


async def read_page(
    reads: Reads,
    viewer: int | None,
    cursor: Cursor,
    skeleton: Skeleton,
    keep: Keep | None = None,
    *,
    wanted: Wanted | None = None,
    unasked: bool = True,
) -> Page:
    """A page of what the viewer may see: `skeleton` proposes ids, of which `wanted` and `keep` leave out some before they cost
    more than a look.

    Whom the viewer mutes is left out of what comes `unasked`. Raises `InvalidInput` for a limit below 1.
    """
    seen = sight(reads.graph, viewer, unasked=unasked, lasting=reads.lasting)

    async def sift(ids: Sequence[int]) -> list[Row]:
        rows = await seen.look(ids, wanted)
        return rows if keep is None else await keep(seen, rows)

    rows = RowReader(cursor, skeleton, sift, itself)
    return Page(*await read_items(cursor, rows, seen.entries, entry_id))


def itself(id_: int) -> int:
    """The place of an id in a skeleton."""
    return id_


def entry_id(entry: Entry) -> int:
    """The place of an entry in a feed."""
    return entry.id

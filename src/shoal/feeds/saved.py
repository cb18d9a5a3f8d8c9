"""Posts that a member likes or keeps, in the order in which they came to."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from shoal.feeds.hydrate import Entry, hydrate
from shoal.feeds.paging import RowReader, read_items, unsifted
from shoal.feeds.reads import Reads
from shoal.graph.contract import Assoc, Cursor
from shoal.graph.schema import AssocType


class Kept(NamedTuple):
    """A page of posts with the cursor of each (the time of the association); `next` is None at the end."""

    entries: list[Entry]
    times: list[int]
    next: int | None


async def page(reads: Reads, member: int, atype: AssocType, cursor: Cursor) -> Kept:
    """A page of the posts that `LIKES` or `BOOKMARKS` of the member lead to; what they may no longer see is left out.

    Raises `InvalidInput` for a limit below 1.
    """

    async def read(at: Cursor) -> list[Assoc]:
        return await reads.graph.assoc_range(member, atype, at)

    async def show(found: Sequence[Assoc]) -> list[tuple[int, Entry]]:
        times = {assoc.id2: assoc.time for assoc in found}
        return [(times[entry.id], entry) for entry in await hydrate(reads.graph, member, list(times), unasked=False)]

    rows = RowReader(cursor, read, unsifted, _time)
    items, after = await read_items(cursor, rows, show, itemgetter(0))
    return Kept([entry for _, entry in items], [time for time, _ in items], after)


def _time(assoc: Assoc) -> int:
    return assoc.time

"""Lists of posts that a member keeps: what they liked, what they bookmarked, newest of these acts first."""

from __future__ import annotations

from typing import NamedTuple

from shoal.feeds.hydrate import Entry, hydrate
from shoal.feeds.pull import Cursor
from shoal.feeds.reads import Reads
from shoal.graph.schema import AssocType

_TURNS = 25


class Kept(NamedTuple):
    """A page of entries with the cursor of each (the time of the act); `next` is None at the end."""

    entries: list[Entry]
    times: list[int]
    next: int | None


async def page(reads: Reads, viewer: int, atype: AssocType, cursor: Cursor) -> Kept:
    """A page of the viewer's own list (`LIKES` or `BOOKMARKS`); posts that they may no longer see are left out."""
    kept: list[tuple[int, Entry]] = []
    at, ended = cursor, False
    for _ in range(_TURNS):
        found = await reads.graph.assoc_range(
            viewer, atype, before=at.before, after=at.after, limit=cursor.limit + 1, oldest_first=at.oldest_first
        )
        times = {assoc.id2: assoc.time for assoc in found}
        shown = await hydrate(reads.graph, viewer, list(times), unasked=False)
        kept += [(times[entry.id], entry) for entry in shown]
        ended = len(found) <= cursor.limit
        if ended or len(kept) > cursor.limit:
            break
        at = at.past(found[-1].time)
    more = len(kept) > cursor.limit or not ended
    kept = kept[: cursor.limit]
    if cursor.oldest_first:
        kept.reverse()
        more = bool(kept)
    return Kept(
        [entry for _, entry in kept],
        [time for time, _ in kept],
        kept[-1][0] if more and kept else None,
    )

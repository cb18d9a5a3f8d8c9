"""Posts that a member likes or keeps, in the order in which they came to."""

from __future__ import annotations

from typing import NamedTuple

from shoal.feeds.hydrate import Entry, hydrate
from shoal.feeds.pull import Cursor, check_limit
from shoal.feeds.reads import Reads
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
    check_limit(cursor)
    found = await reads.graph.assoc_range(
        member,
        atype,
        before=cursor.before,
        after=cursor.after,
        limit=cursor.limit + 1,
        oldest_first=cursor.oldest_first,
    )
    here = found[: cursor.limit]
    times = {assoc.id2: assoc.time for assoc in here}
    entries = await hydrate(reads.graph, member, list(times), unasked=False)
    if cursor.oldest_first:
        entries = entries[::-1]
        after = here[0].time if here else None
    else:
        after = here[-1].time if len(found) > len(here) else None
    return Kept(entries, [times[entry.id] for entry in entries], after)

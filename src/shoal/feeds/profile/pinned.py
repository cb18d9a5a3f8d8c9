"""The posts that a member pinned to their profile, the newest pin first."""

from __future__ import annotations

from shoal.feeds.hydrate import Entry, sight
from shoal.feeds.reads import Reads
from shoal.feeds.user import ALL, MemberFeedQuery
from shoal.graph.contract import Cursor
from shoal.graph.schema import PINS

_MOST = 100
"""Pins that are read at most: more than a member may have now, as the limit may have been higher once."""


_EVERYWHERE = Cursor()


async def pinned(
    reads: Reads, viewer: int | None, member: int, cursor: Cursor = _EVERYWHERE, query: MemberFeedQuery = ALL
) -> list[Entry]:
    """Return all wanted pins between the ids of the cursor that the viewer may see.

    The cursor's limit is not applied: a member has only a few pins.
    """
    pins = await reads.graph.assoc_range(member, PINS, Cursor(limit=_MOST))
    seen = sight(reads.graph, viewer, unasked=False)
    ids = [pin.id2 for pin in pins if cursor.after < pin.id2 < cursor.before]
    return await seen.entries(await seen.look(ids, query.admits))

"""What a member pinned to their profile, the newest pin first."""

from __future__ import annotations

from shoal.feeds.hydrate import Entry, hydrate
from shoal.feeds.reads import Reads
from shoal.graph.schema import PINS

_MOST = 100
"""More than a member may pin; some may have been pinned when the limit was higher."""


async def pinned(reads: Reads, viewer: int | None, member: int) -> list[Entry]:
    """All of it that the viewer may see."""
    pins = await reads.graph.assoc_range(member, PINS, limit=_MOST)
    return await hydrate(reads.graph, viewer, [pin.id2 for pin in pins], unasked=False)

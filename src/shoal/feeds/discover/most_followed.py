"""The most followed members: the same for everybody, and remembered for a minute."""

from __future__ import annotations

from collections import Counter
from functools import partial

from shoal.feeds.reads import Reads
from shoal.graph.cache.dependencies import compared
from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS

_ACTIVE = 2_000
"""Members who are considered, of those who want to be found, the latest posters first: in most networks all."""
_ASKED = 400
_ASKED_FOLLOWS = 50
"""Follows that are read of each of `_ASKED` active members, to find popular members in a larger network."""
_FOUND = 500
POPULAR = 100
"""Maximum of members who count as the most followed."""


async def most_followed(reads: Reads) -> list[int]:
    """Return the most followed members, whether they posted lately or not.

    The answer is the same for everybody. Three reads.
    """
    return await compared(partial(_latest, reads))


async def _latest(reads: Reads) -> list[int]:
    return await reads.popular.get(reads.tags.clock(), partial(_found, reads))


async def _found(reads: Reads) -> list[int]:
    active = await reads.search.directory("active", _ACTIVE)
    lists = await reads.graph.assoc_ranges(active[:_ASKED], FOLLOWS, Cursor(limit=_ASKED_FOLLOWS)) if active else {}
    often = Counter(entry.id2 for entries in lists.values() for entry in entries).most_common(_FOUND)
    known = list(dict.fromkeys([*active, *(id_ for id_, _ in often)]))
    followers = (await reads.graph.assoc_count(known, (FOLLOWED_BY,)))[FOLLOWED_BY] if known else {}
    return sorted(known, key=lambda id_: -followers.get(id_, 0))[:POPULAR]

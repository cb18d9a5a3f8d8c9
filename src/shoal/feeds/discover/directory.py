"""The directory of members who want to be found, by who posted or joined last."""

from __future__ import annotations

from functools import partial

from shoal.discovery.contract import Order
from shoal.discovery.rows import is_listed
from shoal.feeds.hydrate import Profile, profiles
from shoal.feeds.reads import Reads
from shoal.graph.access import members_by_id, relations
from shoal.graph.cache.dependencies import compared


async def page(reads: Reads, viewer: int | None, order: Order, limit: int, offset: int = 0) -> list[Profile]:
    """Part of the directory; whom the viewer mutes, and who has to do with them by a block, is left out of it. Three reads."""
    ids = await compared(partial(reads.search.directory, order, limit, offset))
    found = await members_by_id(reads.graph, ids)
    stands = await relations(reads.graph, viewer, found)
    # In the order of the index: members come in another one where some of them were in memory.
    shown = {
        id_: member
        for id_ in ids
        if (member := found.get(id_)) and is_listed(member) and not stands[id_].severed and not stands[id_].muting
    }
    return list((await profiles(reads.graph, shown, viewer, stands)).values())

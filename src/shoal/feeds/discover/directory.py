"""The directory of members who want to be found, by who posted or joined last."""

from __future__ import annotations

from shoal.discovery.contract import Order
from shoal.discovery.rows import is_listed
from shoal.feeds.hydrate import Profile, profiles
from shoal.feeds.reads import Reads
from shoal.graph.access import members_by_id, relations


async def page(reads: Reads, viewer: int | None, order: Order, limit: int, offset: int = 0) -> list[Profile]:
    """Part of the directory; whom the viewer mutes, and who has to do with them by a block, is left out of it. Three reads."""
    found = await members_by_id(reads.graph, await reads.search.directory(order, limit, offset))
    stands = await relations(reads.graph, viewer, found)
    shown = {
        id_: member
        for id_, member in found.items()
        if is_listed(member) and not stands[id_].severed and not stands[id_].muting
    }
    return list((await profiles(reads.graph, shown, viewer, stands)).values())

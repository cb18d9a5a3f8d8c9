"""The filters of a member, as both who changes them and who applies them must read them."""

from __future__ import annotations

from shoal.core.filters import Filter
from shoal.graph.contract import Cursor, Reader
from shoal.graph.schema import OWNS_FILTER

MAX_FILTERS = 100
"""Filters that one member may have."""


async def filters_of(graph: Reader, member_id: int) -> list[Filter]:
    """The member's filters, oldest first; expired ones too. One read for who has none, else two."""
    # One more than there may be: two made at the same time may both have found room.
    owned = await graph.assoc_range(member_id, OWNS_FILTER, Cursor(limit=2 * MAX_FILTERS))
    if not owned:
        return []
    nodes = await graph.obj_get([assoc.id2 for assoc in owned])
    return [node for assoc in reversed(owned) if isinstance(node := nodes.get(assoc.id2), Filter)]

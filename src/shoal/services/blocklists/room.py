"""Whether a blocklist of the whole network has room for one more block."""

from __future__ import annotations

from shoal.core.errors import Unfit
from shoal.graph.contract import Reader
from shoal.graph.schema import EVERYBODY, AssocType


async def check_room(graph: Reader, atype: AssocType, maximum: int) -> None:
    """Raise `Unfit` for a list that is full. Two who add at the same moment may both find the last place; that does no harm."""
    counted = await graph.assoc_count((EVERYBODY,), (atype,))
    if counted[atype].get(EVERYBODY, 0) >= maximum:
        raise Unfit(f"There are {maximum} such blocks already, which is the maximum")

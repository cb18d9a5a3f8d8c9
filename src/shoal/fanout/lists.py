"""Lists of members follow the graph: on a list are only those whom its owner follows, and nobody on one that is gone.

What is found on a list is read before the follow is looked at, and ended by its own time: whoever is put there anew stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from shoal.core.events import FollowChanged, ListChanged
from shoal.core.ids import shard_of
from shoal.core.model import MemberList
from shoal.fanout.effects import Effects
from shoal.graph.contract import MAX_TIME, Assoc, AssocOp, Batch
from shoal.graph.schema import FOLLOWS, LISTED_IN, LISTS, OWNS_LIST, is_tag

_LISTS = 1_000
"""More than anybody may have."""
_MEMBERS = 100
"""How many members of a list are looked at before other jobs have a turn."""


async def trim_all(effects: Effects, event: FollowChanged, mark: int) -> int | None:
    """Whoever is not followed any more leaves the lists of whoever followed."""
    owner, source = event.follower_id, event.source_id
    if is_tag(source) or source == owner:
        return None
    lists = await effects.graph.assoc_range(owner, OWNS_LIST, limit=_LISTS)
    found = await asyncio.gather(*[effects.graph.assoc_get(one.id2, (LISTS,), (source,)) for one in lists])
    on = {one.id2: held[LISTS][source] for one, held in zip(lists, found, strict=True) if held[LISTS]}
    if on and not (await effects.graph.assoc_get(owner, (FOLLOWS,), (source,)))[FOLLOWS]:
        for list_id, listed in on.items():
            await _take_off(effects, list_id, {source: listed})
    return None


async def trim(effects: Effects, event: ListChanged, mark: int) -> int | None:
    """Somebody may have been put on the list while they were unfollowed, or the list deleted."""
    page = await effects.graph.assoc_range(event.list_id, LISTS, before=mark or MAX_TIME, limit=_MEMBERS)
    listed = {assoc.id2: assoc for assoc in page}
    if not listed:
        return None
    if isinstance((await effects.graph.obj_get((event.list_id,))).get(event.list_id), MemberList):
        followed = (await effects.graph.assoc_get(event.owner_id, (FOLLOWS,), list(listed)))[FOLLOWS]
        listed = {id_: assoc for id_, assoc in listed.items() if id_ not in followed and id_ != event.owner_id}
    await _take_off(effects, event.list_id, listed)
    return page[-1].time if len(page) == _MEMBERS else None


async def _take_off(effects: Effects, list_id: int, members: Mapping[int, Assoc]) -> None:
    """End both ends of each, the list's own last: as long as that is there the work is found again."""
    for id_, listed in members.items():
        await _end(effects, AssocOp(id_, LISTED_IN.number, list_id, listed.time + 1, alive=False, plain=True))
        await _end(effects, AssocOp(list_id, LISTS.number, id_, listed.time + 1, alive=False, plain=True))


async def _end(effects: Effects, op: AssocOp) -> None:
    batch = Batch(shard_of(op.id1))
    batch.put(op)
    await effects.graph.commit(batch)

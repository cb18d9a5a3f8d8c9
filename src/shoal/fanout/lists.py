"""Keeping lists of members up to date: only members whom the owner follows stay on them, and nobody on a deleted list.

A list's members are read before the follow is looked at, and ended by their own times: whoever is added anew stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from shoal.core.events import FollowChanged, ListChanged
from shoal.core.ids import shard_of
from shoal.core.model import MemberList
from shoal.fanout.effects import Effects
from shoal.graph.contract import MAX_TIME, Assoc, AssocOp, Batch, Cursor
from shoal.graph.schema import FOLLOWS, LISTED_IN, LISTS, OWNS_LIST, is_tag

_LISTS = 1_000
"""More than anybody may have."""
_MEMBERS = 100
"""Members of a list that are checked before other jobs have a turn."""


async def trim_all(effects: Effects, event: FollowChanged, mark: int) -> int | None:
    """Take a source that was unfollowed off all lists of the member who followed it."""
    owner, source = event.follower_id, event.source_id
    if is_tag(source) or source == owner:
        return None
    lists = await effects.graph.assoc_range(owner, OWNS_LIST, Cursor(limit=_LISTS))
    found = await asyncio.gather(*[effects.graph.assoc_get(one.id2, (LISTS,), (source,)) for one in lists])
    on = {one.id2: held[LISTS][source] for one, held in zip(lists, found, strict=True) if held[LISTS]}
    if on and not (await effects.graph.assoc_get(owner, (FOLLOWS,), (source,)))[FOLLOWS]:
        for list_id, listed in on.items():
            await _take_off(effects, list_id, {source: listed})
    return None


async def trim(effects: Effects, event: ListChanged, mark: int) -> int | None:
    """Take members off a list whom its owner no longer follows, or all of them when it was deleted."""
    page = await effects.graph.assoc_range(event.list_id, LISTS, Cursor(before=mark or MAX_TIME, limit=_MEMBERS))
    listed = {assoc.id2: assoc for assoc in page}
    if not listed:
        return None
    if isinstance((await effects.graph.obj_get((event.list_id,))).get(event.list_id), MemberList):
        followed = (await effects.graph.assoc_get(event.owner_id, (FOLLOWS,), list(listed)))[FOLLOWS]
        listed = {id_: assoc for id_, assoc in listed.items() if id_ not in followed and id_ != event.owner_id}
    await _take_off(effects, event.list_id, listed)
    return page[-1].time if len(page) == _MEMBERS else None


async def _take_off(effects: Effects, list_id: int, members: Mapping[int, Assoc]) -> None:
    """End both ends of each, the list's own last: while that is there, a repeated run finds the work again."""
    for id_, listed in members.items():
        await _end(effects, AssocOp(id_, LISTED_IN.number, list_id, listed.time + 1, alive=False, plain=True))
        await _end(effects, AssocOp(list_id, LISTS.number, id_, listed.time + 1, alive=False, plain=True))


async def _end(effects: Effects, op: AssocOp) -> None:
    batch = Batch(shard_of(op.id1))
    batch.put(op)
    await effects.graph.commit(batch)

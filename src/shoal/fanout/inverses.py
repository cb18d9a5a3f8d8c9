"""Inverses that another store was owed reach it."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.events import FollowChanged, InverseOwed, PostCreated, PostUpdated
from shoal.core.ids import shard_of
from shoal.fanout.effects import Effects
from shoal.graph.contract import AssocOp, Batch
from shoal.graph.schema import ASSOC_TYPES, TAGGED, AssocType, following


async def settle_inverse(effects: Effects, event: InverseOwed, mark: int) -> int | None:
    """Apply it where it belongs; it keeps its time, so a second time changes nothing."""
    await _put(effects, AssocOp(*event.op))
    return None


async def settle_follow(effects: Effects, event: FollowChanged, mark: int) -> int | None:
    """A follower is among the followers before entries are merged: else those that are pushed meanwhile would be missed."""
    await _settle(effects, event.follower_id, following(event.source_id), (event.source_id,))
    return None


async def settle_tags(effects: Effects, event: PostCreated, mark: int) -> int | None:
    """A post stands in the lists of its tags before it is pushed: else those who read the list meanwhile would miss it."""
    await _settle(effects, event.post_id, TAGGED, event.tag_ids)
    return None


async def settle_added_tags(effects: Effects, event: PostUpdated, mark: int) -> int | None:
    """The same of the tags that an edit brought."""
    await _settle(effects, event.post_id, TAGGED, event.tags_added)
    return None


async def _settle(effects: Effects, id1: int, atype: AssocType, id2s: Sequence[int]) -> None:
    """Apply the inverses that have not arrived; two reads when all have."""
    if not id2s:
        return
    held = (await effects.graph.assoc_get(id1, (atype,), id2s))[atype]
    times = [assoc.time for assoc in held.values()]
    if not times:
        return
    # All of them have one time: that of the post, or of the one follow. One that has another is applied in vain.
    arrived = await effects.graph.assoc_ranges(
        list(held), ASSOC_TYPES[atype.inverse], after=times[0] - 1, before=times[0] + 1, limit=1
    )
    for id2 in held.keys() - arrived.keys():
        time, data = held[id2].time, held[id2].data
        await _put(effects, AssocOp(id2, atype.inverse, id1, time, alive=True, data=data))


async def _put(effects: Effects, op: AssocOp) -> None:
    batch = Batch(shard_of(op.id1))
    batch.put(op._replace(plain=True))
    await effects.graph.commit(batch)

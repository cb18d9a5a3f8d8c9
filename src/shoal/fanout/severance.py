"""A block ends the follows of both: that of the blocked, which is theirs and so lies on their shard, comes later."""

from __future__ import annotations

from shoal.core.events import Blocked, FollowChanged
from shoal.core.ids import shard_of
from shoal.fanout.effects import Effects
from shoal.graph.contract import Batch
from shoal.graph.schema import BLOCKS, FOLLOWS, AssocType, is_tag


async def end_follows(effects: Effects, event: Blocked, mark: int) -> int | None:
    """The blocked follows the blocker no longer, unless the block was taken back meanwhile."""
    await _end_if_blocked(effects, event.blocked_id, event.blocker_id)
    return None


async def end_blocked_follow(effects: Effects, event: FollowChanged, mark: int) -> int | None:
    """A follow that began while the block was being made ends too: one of the two events comes after both commits."""
    if not is_tag(event.source_id):
        await _end_if_blocked(effects, event.follower_id, event.source_id)
    return None


async def _end_if_blocked(effects: Effects, member: int, source: int) -> None:
    if not await _stands(effects, member, FOLLOWS, source):
        return
    if not (await _stands(effects, source, BLOCKS, member) or await _stands(effects, member, BLOCKS, source)):
        return
    batch = Batch(shard_of(member))
    batch.assoc_del(member, FOLLOWS, source, effects.new_id(batch.shard))
    batch.emit(FollowChanged(follower_id=member, source_id=source))
    await effects.graph.commit(batch)


async def _stands(effects: Effects, id1: int, atype: AssocType, id2: int) -> bool:
    return id2 in (await effects.graph.assoc_get(id1, (atype,), (id2,)))[atype]

"""A block ends the follow of the blocked, which is theirs and so lies on their shard."""

from __future__ import annotations

from shoal.core.events import Blocked, FollowChanged
from shoal.core.ids import shard_of
from shoal.fanout.effects import Effects
from shoal.graph.contract import Batch
from shoal.graph.schema import BLOCKS, FOLLOWS


async def end_follows(effects: Effects, event: Blocked, mark: int) -> int | None:
    """The blocked follows the blocker no longer, unless the block was taken back meanwhile."""
    blocks = (await effects.graph.assoc_get(event.blocker_id, (BLOCKS,), (event.blocked_id,)))[BLOCKS]
    if not blocks:
        return None
    batch = Batch(shard_of(event.blocked_id))
    batch.assoc_del(event.blocked_id, FOLLOWS, event.blocker_id, effects.new_id(batch.shard))
    batch.emit(FollowChanged(follower_id=event.blocked_id, source_id=event.blocker_id))
    await effects.graph.commit(batch)
    return None

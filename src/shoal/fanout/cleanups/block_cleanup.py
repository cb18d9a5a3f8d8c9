"""Ending what depends on something else: follows and requests end with a block, watching and endorsing with a follow.

A part of them belongs to another member than the one who acted, and so lies on another shard: it is ended later.
"""

from __future__ import annotations

from shoal.core.events import Blocked, FollowChanged, RequestChanged
from shoal.core.ids import shard_of
from shoal.fanout.effects import Effects
from shoal.graph.access import association
from shoal.graph.contract import Assoc, AssocOp, Batch
from shoal.graph.schema import BLOCKS, ENDORSES, FOLLOWS, REQUESTS, WATCHED_BY, WATCHES, AssocType, is_tag


async def end_follows(effects: Effects, event: Blocked, mark: int) -> int | None:
    """End the blocked member's follow, or follow request, to the blocker, unless the block is gone by now."""
    await _end_if_blocked(effects, event.blocked_id, event.blocker_id)
    await _end_request(effects, event.blocked_id, event.blocker_id)
    return None


async def end_blocked_follow(effects: Effects, event: FollowChanged, mark: int) -> int | None:
    """End a follow that began while the block was being made: one of the two events comes after both commits."""
    if not is_tag(event.source_id):
        await _end_if_blocked(effects, event.follower_id, event.source_id)
    return None


async def end_vain_request(effects: Effects, event: RequestChanged, mark: int) -> int | None:
    """End a follow request that was made during a block, or while the other member accepted."""
    await _end_request(effects, event.member_id, event.other_id)
    return None


async def end_bonds(effects: Effects, event: FollowChanged, mark: int) -> int | None:
    """End watching and endorsing when there is no follow any more, and the request when there is one."""
    member, source = event.follower_id, event.source_id
    if is_tag(source):
        return None
    await _end_request(effects, member, source)
    # Looked at before the follow is: what is found here began before, and what may begin later is left alone.
    watches, endorses = await _held(effects, member, WATCHES, source), await _held(effects, member, ENDORSES, source)
    if (watches is None and endorses is None) or await _held(effects, member, FOLLOWS, source):
        return None
    if endorses is not None:
        await _end_just(effects, AssocOp(member, ENDORSES.number, source, endorses.time, alive=False))
    if watches is not None:
        # The far end first: as long as the near one is there, the work is found again.
        await _end_just(effects, AssocOp(source, WATCHED_BY.number, member, watches.time, alive=False))
        await _end_just(effects, AssocOp(member, WATCHES.number, source, watches.time, alive=False))
    return None


async def _end_just(effects: Effects, op: AssocOp) -> None:
    """End an association that has this time; one that began later stays."""
    batch = Batch(shard_of(op.id1))
    batch.put(op._replace(time=op.time + 1, plain=True))
    await effects.graph.commit(batch)


async def _end_if_blocked(effects: Effects, member: int, source: int) -> None:
    if not await _held(effects, member, FOLLOWS, source) or not await _severed(effects, member, source):
        return
    batch = Batch(shard_of(member))
    batch.assoc_del(member, FOLLOWS, source, effects.new_id(batch.shard))
    batch.emit(FollowChanged(follower_id=member, source_id=source))
    await effects.graph.commit(batch)


async def _end_request(effects: Effects, member: int, other: int) -> None:
    if not await _held(effects, member, REQUESTS, other):
        return
    if not (await _held(effects, member, FOLLOWS, other) or await _severed(effects, member, other)):
        return
    batch = Batch(shard_of(member))
    batch.assoc_del(member, REQUESTS, other, effects.new_id(batch.shard))
    batch.emit(RequestChanged(member_id=member, other_id=other))
    await effects.graph.commit(batch)


async def _severed(effects: Effects, one: int, other: int) -> bool:
    return bool(await _held(effects, one, BLOCKS, other) or await _held(effects, other, BLOCKS, one))


async def _held(effects: Effects, id1: int, atype: AssocType, id2: int) -> Assoc | None:
    return await association(effects.graph, id1, atype, id2)

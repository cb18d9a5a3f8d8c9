"""Delivery of inverses that are owed to another store.

Glossary (`docs/glossary.md`): owed.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.events import FollowChanged, InverseOwed, PostCreated, PostUpdated, RequestChanged
from shoal.core.ids import shard_of
from shoal.fanout.cleanups.cleanup import clear_late
from shoal.fanout.effects import Effects
from shoal.graph.access import association
from shoal.graph.contract import Assoc, AssocOp, Batch, Cursor
from shoal.graph.schema import ASSOC_TYPES, REQUESTS, TAGGED, AssocType, following


async def settle_inverse(effects: Effects, event: InverseOwed, mark: int) -> int | None:
    """Apply the inverse in its own store. It keeps its time, so a second time changes nothing.

    The post or poll may have been deleted since, and all that led to it cleared: this has to be cleared too then.
    """
    await _put(effects, AssocOp(*event.op))
    await clear_late(effects, event.op)
    return None


async def settle_follow(effects: Effects, event: FollowChanged, mark: int) -> int | None:
    """Make both ends of a follow agree before anything is made of it: either may have been written first.

    Otherwise entries that are pushed while older ones are merged would be missed.
    """
    await _settle_ends(effects, event.follower_id, following(event.source_id), event.source_id)
    return None


async def settle_request(effects: Effects, event: RequestChanged, mark: int) -> int | None:
    """Make both ends of a follow request agree: either may have been written first."""
    await _settle_ends(effects, event.member_id, REQUESTS, event.other_id)
    return None


async def settle_tags(effects: Effects, event: PostCreated, mark: int) -> int | None:
    """Put a post into the lists of its tags before it is pushed, or those who read a list meanwhile would miss it.

    With a single store, its commit has done so already.
    """
    await _settle(effects, event.post_id, TAGGED, event.tag_ids)
    return None


async def settle_added_tags(effects: Effects, event: PostUpdated, mark: int) -> int | None:
    """Put an edited post into the lists of the tags that were added, before it is pushed."""
    await _settle(effects, event.post_id, TAGGED, event.tags_added)
    return None


async def settle_links(effects: Effects, id1: int, atype: AssocType, id2s: Sequence[int]) -> None:
    """Apply those inverses of an object's associations that have not arrived, whatever their times; one read when alone."""
    if not id2s or not effects.across:
        return
    for id2, assoc in (await effects.graph.assoc_get(id1, (atype,), id2s))[atype].items():
        await _put(effects, AssocOp(id2, atype.inverse, id1, assoc.time, alive=True, data=assoc.data))


async def _settle(effects: Effects, id1: int, atype: AssocType, id2s: Sequence[int]) -> None:
    """Apply inverses that have not arrived; two reads when all have."""
    if not id2s or not effects.across:
        return
    held = (await effects.graph.assoc_get(id1, (atype,), id2s))[atype]
    times = [assoc.time for assoc in held.values()]
    if not times:
        return
    # All of them have one time: that of the post. One that has another is applied in vain.
    arrived = await effects.graph.assoc_ranges(
        list(held), ASSOC_TYPES[atype.inverse], Cursor(before=times[0] + 1, after=times[0] - 1, limit=1)
    )
    for id2 in held.keys() - arrived.keys():
        time, data = held[id2].time, held[id2].data
        await _put(effects, AssocOp(id2, atype.inverse, id1, time, alive=True, data=data))


async def _settle_ends(effects: Effects, id1: int, atype: AssocType, id2: int) -> None:
    """Compare both ends, one read each.

    An end that is alive alone has not reached the other, or the other was ended since.
    """
    inverse = ASSOC_TYPES[atype.inverse]
    here, there = await _held(effects, id1, atype, id2), await _held(effects, id2, inverse, id1)
    if here is not None and there is None:
        await _settle_other(effects, AssocOp(id1, atype.number, id2, here.time, alive=True, data=here.data), inverse)
    elif there is not None and here is None:
        await _settle_other(effects, AssocOp(id2, inverse.number, id1, there.time, alive=True, data=there.data), atype)


async def _settle_other(effects: Effects, op: AssocOp, other: AssocType) -> None:
    """Copy this end to the other, which refuses it if it was ended later: then end this one too."""
    await _put(effects, op._replace(id1=op.id2, atype=other.number, id2=op.id1))
    if await _held(effects, op.id2, other, op.id1) is None:
        # Just so late that this association ends, and none that began after it.
        await _put(effects, op._replace(time=op.time + 1, alive=False, data=b"", silent=True))


async def _held(effects: Effects, id1: int, atype: AssocType, id2: int) -> Assoc | None:
    return await association(effects.graph, id1, atype, id2)


async def _put(effects: Effects, op: AssocOp) -> None:
    batch = Batch(shard_of(op.id1))
    batch.put(op._replace(plain=True))
    await effects.graph.commit(batch)

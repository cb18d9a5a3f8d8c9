"""Keep both ends of relationships consistent across shards, and delete the relationships that depend on others.

Pending inverses are written to their own store. A block deletes follows and follow requests; an unfollow deletes the association of
a watched or endorsed member, and list memberships. Part of these associations belong to the other member, and so are on another
shard.

The entries of a list are read before the follow, and deleted with the times that were read. So a member who is added to the list
again in between stays on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from shoal.consumers.cleanup import clear_late
from shoal.consumers.context import Effects
from shoal.core import events
from shoal.core.ids import shard_of
from shoal.core.model import MemberList
from shoal.graph.access import association, page_of
from shoal.graph.contract import Assoc, AssocOp, Batch, Cursor, find_object
from shoal.graph.schema import (
    ASSOC_TYPES,
    BLOCKS,
    ENDORSES,
    FOLLOWS,
    LISTED_IN,
    LISTS,
    OWNS_LIST,
    REQUESTS,
    TAGGED,
    WATCHED_BY,
    WATCHES,
    AssocType,
    following,
    is_tag,
)


async def settle_inverse(effects: Effects, event: events.InversePending, mark: int) -> None:
    """Write the inverse of an association to its store, with the time of the association, so that repeating this has no effect.

    If the post or poll of the association was deleted and cleaned up in between, the inverse is deleted again.
    """
    await _put(effects, AssocOp(*event.op))
    await clear_late(effects, event.op)


async def settle_follow(effects: Effects, event: events.FollowChanged, mark: int) -> None:
    """Make a follow and its inverse agree before other consumers read them, because either may be written first.

    Otherwise an entry that is pushed while older entries are merged could be missing in the timeline.
    """
    await _settle_ends(effects, event.follower_id, following(event.source_id), event.source_id)


async def settle_request(effects: Effects, event: events.RequestChanged, mark: int) -> None:
    await _settle_ends(effects, event.member_id, REQUESTS, event.other_id)


async def settle_tags(effects: Effects, event: events.PostCreated, mark: int) -> None:
    """Add a post to the lists of its tags before it is pushed, so that concurrent readers of these lists do not miss it.

    With a single store, the commit of the post has already done this.
    """
    await _settle(effects, event.post_id, TAGGED, event.tag_ids)


async def settle_added_tags(effects: Effects, event: events.PostUpdated, mark: int) -> None:
    await _settle(effects, event.post_id, TAGGED, event.tags_added)


async def settle_links(effects: Effects, id1: int, atype: AssocType, id2s: Sequence[int]) -> None:
    """Write the missing inverses of an object's associations of a type, whatever their times.

    Takes only one read if the object has no such associations.
    """
    if not id2s or not effects.across:
        return
    for assoc in (await effects.graph.assoc_get(id1, (atype,), id2s))[atype].values():
        await _put_inverse(effects, id1, atype, assoc)


async def _settle(effects: Effects, id1: int, atype: AssocType, id2s: Sequence[int]) -> None:
    """Write the missing inverses of a post's associations. Takes two reads if none is missing."""
    if not id2s or not effects.across:
        return
    stored = (await effects.graph.assoc_get(id1, (atype,), id2s))[atype]
    times = [assoc.time for assoc in stored.values()]
    if not times:
        return
    # All these associations have the time of the post, so look only for inverses with this time. An inverse with another time is
    # not found and is written again, which has no effect.
    arrived = await effects.graph.assoc_ranges(
        list(stored), ASSOC_TYPES[atype.inverse], Cursor(before=times[0] + 1, after=times[0] - 1, limit=1)
    )
    for id2 in stored.keys() - arrived.keys():
        await _put_inverse(effects, id1, atype, stored[id2])


async def _settle_ends(effects: Effects, id1: int, atype: AssocType, id2: int) -> None:
    """Make an association and its inverse agree: write the missing one, or delete both.

    If only one of them exists, the other has not been written yet or was deleted later.
    """
    inverse = ASSOC_TYPES[atype.inverse]
    here = await association(effects.graph, id1, atype, id2)
    there = await association(effects.graph, id2, inverse, id1)
    if here is not None and there is None:
        await _settle_other(effects, AssocOp(id1, atype.number, id2, here.time, alive=True, data=here.data), inverse)
    elif there is not None and here is None:
        await _settle_other(effects, AssocOp(id2, inverse.number, id1, there.time, alive=True, data=there.data), atype)


async def _settle_other(effects: Effects, op: AssocOp, other: AssocType) -> None:
    """Write the other direction of an association.

    If the store refuses it, because it was deleted later than `op`, the association of `op` is deleted too.
    """
    await _put(effects, op._replace(id1=op.id2, atype=other.number, id2=op.id1))
    if await association(effects.graph, op.id2, other, op.id1) is None:
        # A deletion with this time deletes the association that was read, but none that was created later.
        await _put(effects, op._replace(time=op.time + 1, alive=False, data=b"", silent=True))


async def _put_inverse(effects: Effects, id1: int, atype: AssocType, assoc: Assoc) -> None:
    await _put(effects, AssocOp(assoc.id2, atype.inverse, id1, assoc.time, alive=True, data=assoc.data))


async def _put(effects: Effects, op: AssocOp) -> None:
    batch = Batch(shard_of(op.id1))
    batch.put(op._replace(plain=True))
    await effects.graph.commit(batch)


async def end_follows(effects: Effects, event: events.Blocked, mark: int) -> None:
    """Delete the blocked member's follow or follow request to the blocker, unless the block was removed."""
    await _end_if_blocked(effects, event.blocked_id, event.blocker_id)
    await _end_request(effects, event.blocked_id, event.blocker_id)


async def end_blocked_follow(effects: Effects, event: events.FollowChanged, mark: int) -> None:
    """Delete a follow that began concurrently with a block.

    Both the follow and the block emit an event, and the later of the two is processed after both commits.
    """
    if not is_tag(event.source_id):
        await _end_if_blocked(effects, event.follower_id, event.source_id)


async def delete_obsolete_request(effects: Effects, event: events.RequestChanged, mark: int) -> None:
    """Delete a follow request that was created during a block, or concurrently with its authorization."""
    await _end_request(effects, event.member_id, event.other_id)


async def end_bonds(effects: Effects, event: events.FollowChanged, mark: int) -> None:
    """Delete the watching and endorsing associations if there is no follow, and the follow request if there is a follow."""
    member, source = event.follower_id, event.source_id
    if is_tag(source):
        return
    await _end_request(effects, member, source)
    # Read these associations before the follow. If the follow is missing then, they belong to an earlier follow; associations that
    # are created later belong to a new one and are kept.
    watches = await association(effects.graph, member, WATCHES, source)
    endorses = await association(effects.graph, member, ENDORSES, source)
    if (watches is None and endorses is None) or await association(effects.graph, member, FOLLOWS, source):
        return
    if endorses is not None:
        await _end(effects, member, ENDORSES, source, endorses.time)
    if watches is not None:
        # Delete the inverse first. While the association itself exists, a repeated run of this consumer finds and finishes the
        # work.
        await _end(effects, source, WATCHED_BY, member, watches.time)
        await _end(effects, member, WATCHES, source, watches.time)


async def _end(effects: Effects, id1: int, atype: AssocType, id2: int, time: int) -> None:
    """Delete an association if its time is `time`; an association that began later is kept."""
    await _put(effects, AssocOp(id1, atype.number, id2, time + 1, alive=False))


async def _end_if_blocked(effects: Effects, member: int, source: int) -> None:
    if not await association(effects.graph, member, FOLLOWS, source) or not await _severed(effects, member, source):
        return
    batch = Batch(shard_of(member))
    batch.assoc_del(member, FOLLOWS, source, effects.new_id(batch.shard))
    batch.emit(events.FollowChanged(follower_id=member, source_id=source))
    await effects.graph.commit(batch)


async def _end_request(effects: Effects, member: int, other: int) -> None:
    if not await association(effects.graph, member, REQUESTS, other):
        return
    if not (await association(effects.graph, member, FOLLOWS, other) or await _severed(effects, member, other)):
        return
    batch = Batch(shard_of(member))
    batch.assoc_del(member, REQUESTS, other, effects.new_id(batch.shard))
    batch.emit(events.RequestChanged(member_id=member, other_id=other))
    await effects.graph.commit(batch)


async def _severed(effects: Effects, one: int, other: int) -> bool:
    return bool(
        await association(effects.graph, one, BLOCKS, other) or await association(effects.graph, other, BLOCKS, one)
    )


_LISTS = 1_000
"""Maximum number of lists to read; no member may have as many."""
_MEMBERS = 100
"""Number of list members that are checked before other jobs run."""


async def trim_lists(effects: Effects, event: events.FollowChanged, mark: int) -> None:
    owner, source = event.follower_id, event.source_id
    if is_tag(source) or source == owner:
        return
    lists = await effects.graph.assoc_range(owner, OWNS_LIST, Cursor(limit=_LISTS))
    found = await asyncio.gather(*[effects.graph.assoc_get(list_.id2, (LISTS,), (source,)) for list_ in lists])
    on = {
        member_list.id2: entries[LISTS][source]
        for member_list, entries in zip(lists, found, strict=True)
        if entries[LISTS]
    }
    if on and not (await effects.graph.assoc_get(owner, (FOLLOWS,), (source,)))[FOLLOWS]:
        for list_id, listed in on.items():
            await _take_off_list(effects, list_id, {source: listed})


async def trim_list(effects: Effects, event: events.ListChanged, mark: int) -> int | None:
    """Remove the members whom the owner of a list no longer follows, or all members if the list was deleted."""
    page, next_mark = await page_of(effects.graph, event.list_id, LISTS, mark, _MEMBERS)
    listed = {assoc.id2: assoc for assoc in page}
    if not listed:
        return None
    if await find_object(effects.graph, MemberList, event.list_id) is not None:
        followed = (await effects.graph.assoc_get(event.owner_id, (FOLLOWS,), list(listed)))[FOLLOWS]
        listed = {id_: assoc for id_, assoc in listed.items() if id_ not in followed and id_ != event.owner_id}
    await _take_off_list(effects, event.list_id, listed)
    return next_mark


async def _take_off_list(effects: Effects, list_id: int, members: Mapping[int, Assoc]) -> None:
    """Delete list memberships: first the member's association with the list, then its inverse.

    If this is interrupted, the next run finds the remaining memberships by the inverse, from the list.
    """
    for id_, listed in members.items():
        await _end(effects, id_, LISTED_IN, list_id, listed.time)
        await _end(effects, list_id, LISTS, id_, listed.time)

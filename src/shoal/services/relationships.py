"""Who follows, blocks and mutes whom. Every verb may be repeated: the second time changes nothing."""

from __future__ import annotations

from shoal.core.errors import NotAllowed
from shoal.core.events import Blocked, FollowChanged
from shoal.core.ids import shard_of
from shoal.core.text import check_tag
from shoal.core.visibility import Relation
from shoal.graph.access import access_member, relation
from shoal.graph.contract import Batch
from shoal.graph.schema import BLOCKS, FOLLOWS, FOLLOWS_TAG, MUTES, AssocType, following, tag_id
from shoal.services.writes import Writes

MAX_FOLLOWED_TAGS = 1_000


async def follow(writes: Writes, member_id: int, other_id: int) -> Relation:
    """Posts of the other come to the member's home. Raises `NotAllowed` for oneself, and where one has blocked the other."""
    await access_member(writes.graph, other_id)
    stand = await relation(writes.graph, member_id, other_id)
    if member_id == other_id or stand.severed:
        raise NotAllowed("This action is not allowed")
    if not stand.following:
        await _begin(writes, member_id, FOLLOWS, other_id)
    return await relation(writes.graph, member_id, other_id)


async def unfollow(writes: Writes, member_id: int, other_id: int) -> Relation:
    """Posts of the other leave the member's home."""
    await _end(writes, member_id, FOLLOWS, other_id)
    return await relation(writes.graph, member_id, other_id)


async def follow_tag(writes: Writes, member_id: int, name: str) -> str:
    """Public posts under a tag come to the member's home; the canonical form of the tag."""
    tag = check_tag(name)
    held = await writes.graph.assoc_count((member_id,), (FOLLOWS_TAG,))
    if held[FOLLOWS_TAG].get(member_id, 0) >= MAX_FOLLOWED_TAGS:
        raise NotAllowed(f"a member follows at most {MAX_FOLLOWED_TAGS} tags")
    if not await _stands(writes, member_id, FOLLOWS_TAG, tag_id(tag)):
        await _begin(writes, member_id, FOLLOWS_TAG, tag_id(tag), tag.encode())
    return tag


async def unfollow_tag(writes: Writes, member_id: int, name: str) -> str:
    """Posts under a tag leave the member's home, unless somebody they follow wrote them."""
    tag = check_tag(name)
    await _end(writes, member_id, FOLLOWS_TAG, tag_id(tag))
    return tag


async def block(writes: Writes, member_id: int, other_id: int) -> Relation:
    """Neither sees the other any more; follows end both ways."""
    await access_member(writes.graph, other_id)
    stand = await relation(writes.graph, member_id, other_id)
    if member_id == other_id:
        raise NotAllowed("This action is not allowed")
    if not stand.blocking:
        batch = Batch(shard_of(member_id))
        batch.assoc_add(member_id, BLOCKS, other_id, writes.new_id(batch.shard))
        batch.assoc_del(member_id, FOLLOWS, other_id, writes.new_id(batch.shard))
        batch.emit(FollowChanged(follower_id=member_id, source_id=other_id))
        batch.emit(Blocked(blocker_id=member_id, blocked_id=other_id))
        await writes.graph.commit(batch)
    return await relation(writes.graph, member_id, other_id)


async def unblock(writes: Writes, member_id: int, other_id: int) -> Relation:
    """The block ends; follows do not come back."""
    await _end(writes, member_id, BLOCKS, other_id)
    return await relation(writes.graph, member_id, other_id)


async def mute(writes: Writes, member_id: int, other_id: int) -> Relation:
    """Posts of the other come to no timeline of the member; the other does not learn of it."""
    await access_member(writes.graph, other_id)
    if member_id == other_id:
        raise NotAllowed("This action is not allowed")
    if not await _stands(writes, member_id, MUTES, other_id):
        await _begin(writes, member_id, MUTES, other_id)
    return await relation(writes.graph, member_id, other_id)


async def unmute(writes: Writes, member_id: int, other_id: int) -> Relation:
    """The mute ends."""
    await _end(writes, member_id, MUTES, other_id)
    return await relation(writes.graph, member_id, other_id)


async def _stands(writes: Writes, member_id: int, atype: AssocType, other_id: int) -> bool:
    return other_id in (await writes.graph.assoc_get(member_id, (atype,), (other_id,)))[atype]


async def _begin(writes: Writes, member_id: int, atype: AssocType, other_id: int, data: bytes = b"") -> None:
    batch = Batch(shard_of(member_id))
    batch.assoc_add(member_id, atype, other_id, writes.new_id(batch.shard), data)
    await _commit(writes, batch, member_id, atype, other_id)


async def _end(writes: Writes, member_id: int, atype: AssocType, other_id: int) -> None:
    if await _stands(writes, member_id, atype, other_id):
        batch = Batch(shard_of(member_id))
        batch.assoc_del(member_id, atype, other_id, writes.new_id(batch.shard))
        await _commit(writes, batch, member_id, atype, other_id)


async def _commit(writes: Writes, batch: Batch, member_id: int, atype: AssocType, other_id: int) -> None:
    if atype is following(other_id):
        batch.emit(FollowChanged(follower_id=member_id, source_id=other_id))
    await writes.graph.commit(batch)

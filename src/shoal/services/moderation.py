"""Moderation: posts are taken out of sight, and members are suspended; either can be undone.

The operator acts here: who may do so is for the caller to know.
"""

from __future__ import annotations

from msgspec.structs import replace

from shoal.core.errors import Conflict, NotFound
from shoal.core.events import PostHidden, SuspensionChanged
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import HIDDEN_BY_MODERATION, Member, Post
from shoal.graph.contract import Batch
from shoal.graph.tag_uses import hidden_batch
from shoal.services.writes import Writes

_TRIES = 8


async def hide(writes: Writes, post_id: int) -> Post:
    """Take a post out of everybody's sight but its author's. Its tags do not count any more. Raises `NotFound`."""
    return await _set_hidden(writes, post_id, hidden=True)


async def reveal(writes: Writes, post_id: int) -> Post:
    """Undo `hide`. Raises `NotFound`."""
    return await _set_hidden(writes, post_id, hidden=False)


async def _set_hidden(writes: Writes, post_id: int, *, hidden: bool) -> Post:
    for _ in range(_TRIES):
        post = (await writes.graph.obj_get((post_id,))).get(post_id)
        if not isinstance(post, Post):
            raise NotFound("Record not found")
        why = post.hidden | HIDDEN_BY_MODERATION if hidden else post.hidden & ~HIDDEN_BY_MODERATION
        if why == post.hidden:
            return post
        after, batch = hidden_batch(post, why, milliseconds_of(writes.new_id(shard_of(post_id))))
        if hidden:
            batch.emit(PostHidden(post_id=post_id))
        try:
            await writes.graph.commit(batch)
        except Conflict:
            continue
        return after
    raise Conflict("the post is being changed from elsewhere; repeat")


async def suspend(writes: Writes, member_id: int) -> Member:
    """From now on nobody sees the member or what they posted, and they cannot act. Their posts stop to count soon after."""
    return await _set_suspended(writes, member_id, suspended=True)


async def restore(writes: Writes, member_id: int) -> Member:
    """Undo `suspend`."""
    return await _set_suspended(writes, member_id, suspended=False)


async def _set_suspended(writes: Writes, member_id: int, *, suspended: bool) -> Member:
    for _ in range(_TRIES):
        member = (await writes.graph.obj_get((member_id,))).get(member_id)
        if not isinstance(member, Member):
            raise NotFound("Record not found")
        if member.suspended is suspended:
            return member
        after = replace(member, suspended=suspended, version=member.version + 1)
        batch = Batch(shard_of(member_id))
        batch.obj_set(after)
        batch.emit(SuspensionChanged(member_id=member_id))
        try:
            await writes.graph.commit(batch)
        except Conflict:
            continue
        return after
    raise Conflict("the member is being changed from elsewhere; repeat")

"""Changes to a member's conversations: mark as read or unread, and remove."""

from __future__ import annotations

from shoal.commands.context import Writes
from shoal.core.errors import NotFound
from shoal.core.ids import shard_of
from shoal.graph.access import association
from shoal.graph.contract import Assoc, AssocOp, Batch
from shoal.graph.payloads.conversations import ended_talk, read_or_not, talk_id, talk_of
from shoal.graph.schema import CONVERSES


async def mark(writes: Writes, member_id: int, root_id: int, *, unread: bool) -> None:
    """Mark a conversation as read up to its newest post, or as unread. Raises `NotFound` if the member's list does not have it."""
    conversation = await _own_conversation(writes, member_id, root_id)
    if talk_of(conversation).unread is not unread:
        await _put(writes, read_or_not(member_id, conversation, unread=unread))


async def remove(writes: Writes, member_id: int, root_id: int) -> None:
    """Remove a conversation from the member's list until its next post. Raises `NotFound` if the list does not have it."""
    await _put(writes, ended_talk(member_id, await _own_conversation(writes, member_id, root_id)))


async def _own_conversation(writes: Writes, member_id: int, root_id: int) -> Assoc:
    conversation = await association(writes.graph, member_id, CONVERSES, talk_id(root_id))
    if conversation is None:
        raise NotFound("Record not found")
    return conversation


async def _put(writes: Writes, op: AssocOp) -> None:
    batch = Batch(shard_of(op.id1))
    batch.put(op)
    await writes.graph.commit(batch)

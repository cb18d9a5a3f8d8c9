"""Add direct posts to the conversations of the author and the mentioned members."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

from shoal.consumers.context import Effects
from shoal.consumers.notifications import is_welcome
from shoal.core import events
from shoal.core.errors import Conflict
from shoal.core.ids import shard_of
from shoal.core.model import Post, Visibility
from shoal.graph.access import association
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Assoc, Batch, find_object
from shoal.graph.payloads.conversations import knows, root_of, talk_id, went_on
from shoal.graph.schema import CONVERSES
from shoal.streaming import updates


async def go_on(effects: Effects, event: events.PostCreated | events.PostNarrowed, mark: int) -> None:
    """Add a direct post to the conversation of each participant: as read for its author, as unread for the mentioned members."""
    if event.visibility is Visibility.DIRECT:
        await _tell(effects, event.post_id, {event.author_id, *event.mention_ids})


async def draw_in(effects: Effects, event: events.PostUpdated, mark: int) -> None:
    if event.visibility is Visibility.DIRECT and event.mentions_added:
        await _tell(effects, event.post_id, event.mentions_added)


async def _tell(effects: Effects, post_id: int, members: Iterable[int]) -> None:
    post = await find_object(effects.graph, Post, post_id)
    if post is not None:
        there = {post.author_id, *(mention.id for mention in post.mentions)}
        await asyncio.gather(*(_tell_one(effects, post, member) for member in there.intersection(members)))


async def _tell_one(effects: Effects, post: Post, member_id: int) -> None:
    if member_id != post.author_id and not await is_welcome(effects, member_id, post.author_id, post):
        return
    await retry_on_conflict(partial(_add, effects, post, member_id))
    await effects.channel.publish(updates.encode(updates.ConversationChanged(member_id, root_of(post))))


async def _add(effects: Effects, post: Post, member_id: int) -> None:
    """Add the post to the member's conversation, and read the conversation again to verify that it includes the post.

    Only one of two concurrent additions takes effect; the other raises `Conflict` and is retried.
    """
    conversation = await _conversation(effects, post, member_id)
    if conversation is not None and knows(conversation, post):
        return
    batch = Batch(shard_of(member_id))
    batch.put(went_on(member_id, post, conversation))
    await effects.graph.commit(batch)
    now = await _conversation(effects, post, member_id)
    # If `now` is None, the member has removed the conversation in between.
    if now is not None and not knows(now, post):
        raise Conflict("the conversation changed concurrently")


async def _conversation(effects: Effects, post: Post, member_id: int) -> Assoc | None:
    id_ = talk_id(root_of(post))
    return await association(effects.graph, member_id, CONVERSES, id_)

"""Whoever is connected is told at once: what came, changed or went, and who listens to what now, goes to the channel.

They are told before timelines are written, which may take a while: whoever hears of an entry reads it from the graph, where it
is already. Told twice or late does no harm.
"""

from __future__ import annotations

from shoal.core.events import (
    FiltersChanged,
    FollowChanged,
    ListChanged,
    PostCreated,
    PostDeleted,
    PostHidden,
    PostUpdated,
    SessionsEnded,
    ShareCreated,
    ShareDeleted,
    SuspensionChanged,
)
from shoal.core.model import Member, Post
from shoal.fanout.effects import Effects
from shoal.graph.schema import tag_id
from shoal.streaming import updates


async def tell_post(effects: Effects, event: PostCreated, mark: int) -> int | None:
    """A post was written."""
    update = updates.PostCreated(event.post_id, event.author_id, event.visibility, event.tag_ids, event.mention_ids)
    await _tell(effects, update)
    return None


async def tell_edit(effects: Effects, event: PostUpdated, mark: int) -> int | None:
    """A post was edited: also those are told who have it by a tag that it kept, or lost. One that is gone needs no more telling."""
    post = (await effects.graph.obj_get((event.post_id,))).get(event.post_id)
    if not isinstance(post, Post):
        return None
    tags = tuple({*map(tag_id, post.tags), *event.tags_added, *event.tags_removed})
    left = event.tags_removed
    await _tell(effects, updates.PostEdited(post.id, post.author_id, post.visibility, tags, event.mention_ids, left))
    return None


async def tell_deletion(effects: Effects, event: PostDeleted, mark: int) -> int | None:
    """A post was deleted."""
    update = updates.PostDeleted(event.post_id, event.author_id, event.visibility, event.tag_ids, event.mention_ids)
    await _tell(effects, update)
    return None


async def tell_hiding(effects: Effects, event: PostHidden, mark: int) -> int | None:
    """A post was taken out of sight, and may be back by now: whoever hears of it looks."""
    post = (await effects.graph.obj_get((event.post_id,))).get(event.post_id)
    if isinstance(post, Post):
        tags = tuple(map(tag_id, post.tags))
        mentions = tuple(mention.id for mention in post.mentions)
        await _tell(effects, updates.PostHidden(post.id, post.author_id, post.visibility, tags, mentions))
    return None


async def tell_share(effects: Effects, event: ShareCreated, mark: int) -> int | None:
    """A post was shared."""
    await _tell(effects, updates.ShareCreated(event.share_id, event.author_id))
    return None


async def tell_unshare(effects: Effects, event: ShareDeleted, mark: int) -> int | None:
    """A share was taken back, or its post deleted."""
    await _tell(effects, updates.ShareDeleted(event.share_id, event.author_id))
    return None


async def tell_follow(effects: Effects, event: FollowChanged, mark: int) -> int | None:
    """What somebody follows is to be read again."""
    await _tell(effects, updates.FollowChanged(event.follower_id, event.source_id))
    return None


async def tell_list(effects: Effects, event: ListChanged, mark: int) -> int | None:
    """Who is in a list is to be read again."""
    await _tell(effects, updates.ListChanged(event.list_id, event.owner_id))
    return None


async def tell_filters(effects: Effects, event: FiltersChanged, mark: int) -> int | None:
    """What a member filters is to be read again."""
    await _tell(effects, updates.FiltersChanged(event.member_id))
    return None


async def end_sessions(effects: Effects, event: SessionsEnded, mark: int) -> int | None:
    """Whoever listens with one of these tokens hears nothing more."""
    await _tell(effects, updates.SessionsEnded(event.member_id, event.token_ids))
    return None


async def end_listening(effects: Effects, event: SuspensionChanged, mark: int) -> int | None:
    """A member who is suspended hears nothing more."""
    member = (await effects.graph.obj_get((event.member_id,))).get(event.member_id)
    if not isinstance(member, Member) or member.suspended:
        await _tell(effects, updates.MemberSuspended(event.member_id))
    return None


async def _tell(effects: Effects, update: updates.AnyUpdate) -> None:
    await effects.channel.publish(updates.encode(update))

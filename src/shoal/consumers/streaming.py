"""Publish changes to connected clients: posts, shares, follows, lists, named feeds, filters and sessions.

These consumers run before the consumers that write timelines, which may take a while. A client reads a new entry from the graph,
which already contains it. Duplicate and late updates are harmless.
"""

from __future__ import annotations

from shoal.consumers.context import Effects
from shoal.core import events
from shoal.core.model import Member, Post, Visibility
from shoal.graph.contract import find_object
from shoal.graph.payloads.posts import list_ids
from shoal.graph.schema import tag_id
from shoal.streaming import updates


async def tell_post(effects: Effects, event: events.PostCreated, mark: int) -> None:
    await _tell(effects, updates.PostCreated(*_facts_of(event), event.mention_ids))


async def tell_edit(effects: Effects, event: events.PostUpdated, mark: int) -> None:
    """Publish an edit, also to viewers of the feeds of its added and removed tags and places.

    If the post was deleted, these viewers get the deletion, because its own update has only the last tags and places of the post.
    """
    post = await find_object(effects.graph, Post, event.post_id)
    if post is None:
        left = (*event.tags_added, *event.tags_removed, *event.lists_removed)
        if left:
            deletion = updates.PostDeleted(event.post_id, event.author_id, event.visibility, left, event.mention_ids)
            await _tell(effects, deletion)
        return
    lists = {*map(tag_id, post.tags), *list_ids(post), *event.tags_added, *event.tags_removed, *event.lists_removed}
    update = updates.PostEdited(
        post.id, post.author_id, post.visibility, tuple(lists), event.mention_ids, event.tags_removed
    )
    await _tell(effects, update)


async def tell_reaction(effects: Effects, event: events.ReactionChanged, mark: int) -> None:
    """Publish a change of a post's emoji reactions as an edit of the post."""
    post = await find_object(effects.graph, Post, event.post_id)
    if post is not None:
        await _tell(effects, updates.PostEdited(*_facts(post), content=False))


async def tell_deletion(effects: Effects, event: events.PostDeleted, mark: int) -> None:
    await _tell(effects, updates.PostDeleted(*_facts_of(event), event.mention_ids))


async def tell_hiding(effects: Effects, event: events.PostHidden, mark: int) -> None:
    """Publish that a post was hidden. Receivers check whether the post is still hidden."""
    post = await find_object(effects.graph, Post, event.post_id)
    if post is not None:
        await _tell(effects, updates.PostHidden(*_facts(post)))


def _facts(post: Post) -> tuple[int, int, Visibility, tuple[int, ...], tuple[int, ...]]:
    mentions = tuple(mention.id for mention in post.mentions)
    return post.id, post.author_id, post.visibility, (*map(tag_id, post.tags), *list_ids(post)), mentions


def _facts_of(event: events.PostCreated | events.PostDeleted) -> tuple[int, int, Visibility, tuple[int, ...]]:
    return event.post_id, event.author_id, event.visibility, (*event.tag_ids, *event.list_ids)


async def tell_narrowing(effects: Effects, event: events.PostNarrowed, mark: int) -> None:
    lists = (*event.tag_ids, *event.list_ids)
    update = updates.PostNarrowed(event.post_id, event.author_id, event.before, lists, event.mention_ids)
    await _tell(effects, update)


async def tell_share(effects: Effects, event: events.ShareCreated, mark: int) -> None:
    await _tell(effects, updates.ShareCreated(event.share_id, event.author_id))


async def tell_unshare(effects: Effects, event: events.ShareDeleted, mark: int) -> None:
    await _tell(effects, updates.ShareDeleted(event.share_id, event.author_id))


async def tell_follow(effects: Effects, event: events.FollowChanged, mark: int) -> None:
    await _tell(effects, updates.FollowChanged(event.follower_id, event.source_id))


async def tell_list(effects: Effects, event: events.ListChanged, mark: int) -> None:
    await _tell(effects, updates.ListChanged(event.list_id, event.owner_id))


async def tell_feed(effects: Effects, event: events.NamedFeedChanged, mark: int) -> None:
    await _tell(effects, updates.NamedFeedChanged(event.feed_id, event.time))


async def tell_filters(effects: Effects, event: events.FiltersChanged, mark: int) -> None:
    await _tell(effects, updates.FiltersChanged(event.member_id))


async def end_sessions(effects: Effects, event: events.SessionsEnded, mark: int) -> None:
    """Publish that these tokens were revoked, which closes their connections."""
    await _tell(effects, updates.SessionsEnded(event.member_id, event.token_ids))


async def end_listening(effects: Effects, event: events.SuspensionChanged, mark: int) -> None:
    """Publish that a member was suspended, which closes their connections."""
    member = await find_object(effects.graph, Member, event.member_id)
    if member is None or member.suspended:
        await _tell(effects, updates.MemberSuspended(event.member_id))


async def _tell(effects: Effects, update: updates.AnyUpdate) -> None:
    await effects.channel.publish(updates.encode(update))

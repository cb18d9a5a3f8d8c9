"""Likes, shares, bookmarks, pins, muted threads, and reactions with emoji or declared names. Every command is idempotent.

A reaction is one commit on the member's shard, which also removes another reaction of its group. The first use of an emoji or name
on a post first assigns a position in the post's list of emoji, in a separate commit (see `graph/payloads/posts.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from shoal.commands.context import Claim, Writes, add_node, serialized
from shoal.core.emoji import checked_emoji
from shoal.core.errors import Conflict, InvalidInput, NotFound
from shoal.core.events import LikeChanged, ReactionChanged, ShareCreated, ShareImported
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Post, Share, Visibility
from shoal.core.reactions import is_name, is_named
from shoal.core.visibility import may_share
from shoal.graph.access import (
    access_post,
    association,
    count_of,
    declared_reactions,
    get_object,
    own_post,
    post_by_id,
)
from shoal.graph.cache.coherence import another_request, foreseen_change
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import AssocExists, Batch, KeyTaken, Missing, find_object
from shoal.graph.payloads.posts import (
    EmojiPosition,
    chosen_of,
    emoji_positions,
    encode_position,
    put_reactions,
    relist,
    unshare_batch,
)
from shoal.graph.schema import (
    EMOJI_PUT_BY,
    LIKES,
    MUTES_THREAD,
    PINS,
    POSTED,
    REACTS,
    SHARES,
    SHOWS_EMOJI,
    AssocType,
    Key,
    PostMark,
    emoji_id_key,
    emoji_position_key,
    import_key,
    share_key,
)


async def like(writes: Writes, member_id: int, post_id: int) -> Post:
    """Like the post, or the original if the id is that of a share. Raises `NotFound` if the member may not see it."""
    return await _begin(writes, member_id, LIKES, post_id)


async def unlike(writes: Writes, member_id: int, post_id: int) -> Post:
    return await _end(writes, member_id, LIKES, post_id)


async def mark(writes: Writes, member_id: int, post_id: int, mark: PostMark) -> Post:
    """Mark the post, for example with a bookmark. Only the member can see the mark."""
    return await _begin(writes, member_id, mark.atype, post_id)


async def unmark(writes: Writes, member_id: int, post_id: int, mark: PostMark) -> Post:
    """Remove the member's mark from a post, even if the member may no longer see the post."""
    return await _end(writes, member_id, mark.atype, post_id)


async def share(
    writes: Writes,
    member_id: int,
    post_id: int,
    visibility: Visibility = Visibility.PUBLIC,
    *,
    id_: int = 0,
    record: str = "",
) -> Share:
    """Share the post with the member's followers. A repeated request returns the existing share.

    An import may pass its own `id_` and the unique name of its `record`; no member is notified. Raises `NotFound` if
    the post may not be shared or the share of the record was deleted, and `IdTaken` if another object has the id.
    """
    post = await access_post(writes.graph, member_id, post_id)
    if not may_share(member_id, post):
        raise NotFound("Record not found")
    found = await association(writes.graph, member_id, SHARES, post.id)
    if found is not None:
        return await get_object(writes.graph, Share, int.from_bytes(found.data))
    shard = shard_of(member_id)

    def build(new_id: int) -> tuple[Share, Batch]:
        made = Share(
            id=id_ or new_id,
            author_id=member_id,
            post_id=post.id,
            post_author_id=post.author_id,
            visibility=visibility if post.visibility is not Visibility.FOLLOWERS else post.visibility,
        )
        batch = Batch(shard)
        batch.obj_add(made)
        batch.assoc_add(member_id, POSTED, made.id, made.id)
        relist(batch, None, made, made.id)
        batch.assoc_add(member_id, SHARES, post.id, new_id, made.id.to_bytes(8), aggregate_id=post.author_id)
        # This key allows only one share per member and post. Of two concurrent requests, the second finds it taken.
        batch.key_add(share_key(member_id, shard, post.id), made.id)
        batch.expect(post.id)
        shared_id = post.id if post.author_id != member_id else 0
        if record:
            batch.key_add(import_key(shard, record), made.id)
        event = ShareImported if record else ShareCreated
        batch.emit(event(share_id=made.id, author_id=member_id, shared_id=shared_id))
        return made, batch

    try:
        return await add_node(writes, shard, build)
    except KeyTaken as error:
        return await get_object(writes.graph, Share, error.id)


async def unshare(writes: Writes, member_id: int, post_id: int) -> Post:
    """Delete the member's share of a post, given the id of the share or of the post. The share is removed from timelines."""
    post = await post_by_id(writes.graph, post_id)
    found = await association(writes.graph, member_id, SHARES, post.id)
    share = await find_object(writes.graph, Share, int.from_bytes(found.data)) if found is not None else None
    if share is not None:
        batch = unshare_batch(share, writes.new_id(shard_of(member_id)))
        # Another request may have deleted this share concurrently, and the member may have shared the post again. Then the
        # commit raises `Missing`, and the new share is kept.
        with contextlib.suppress(Missing):
            await writes.graph.commit(batch)
    return post


async def pin(writes: Writes, member_id: int, post_id: int) -> Post:
    """Pin the member's post to the profile. Raises `InvalidInput` for a share or a direct post, and for too many pins."""
    node = (await writes.graph.obj_get((post_id,))).get(post_id)
    if isinstance(node, Share) and node.author_id == member_id:
        raise InvalidInput("a share cannot be pinned")
    post = node if isinstance(node, Post) else None
    if post is None or post.author_id != member_id:
        # Raise `NotFound` if the member may not see the post, to hide that it exists.
        await access_post(writes.graph, member_id, post_id)
        raise InvalidInput("Someone else's post cannot be pinned")
    if post.visibility is Visibility.DIRECT:
        raise InvalidInput("Posts that are only visible to mentioned users cannot be pinned")
    await serialized(writes, member_id, lambda claim: _pin(writes, member_id, post.id, claim))
    return post


async def _pin(writes: Writes, member_id: int, post_id: int, claim: Claim) -> None:
    if await association(writes.graph, member_id, PINS, post_id) is not None:
        return
    if await count_of(writes.graph, member_id, PINS) >= writes.limits.pins:
        raise InvalidInput("You have already pinned the maximum number of posts")
    batch = Batch(shard_of(member_id))
    claim(batch)
    batch.assoc_add(member_id, PINS, post_id, writes.new_id(batch.shard))
    batch.expect(post_id)
    await writes.commit(batch)


async def unpin(writes: Writes, member_id: int, post_id: int) -> Post:
    """Remove the member's post from the pinned posts. Raises `NotFound` for another member's post."""
    post = await own_post(writes.graph, member_id, post_id)
    await _end_own(writes, member_id, PINS, post.id)
    return post


async def mute_thread(writes: Writes, member_id: int, post_id: int) -> Post:
    post = await access_post(writes.graph, member_id, post_id)
    root = post.root_id or post.id
    if await association(writes.graph, member_id, MUTES_THREAD, root) is None:
        batch = Batch(shard_of(member_id))
        batch.assoc_add(member_id, MUTES_THREAD, root, writes.new_id(batch.shard))
        await writes.graph.commit(batch)
    return post


async def unmute_thread(writes: Writes, member_id: int, post_id: int) -> Post:
    post = await access_post(writes.graph, member_id, post_id)
    await _end_own(writes, member_id, MUTES_THREAD, post.root_id or post.id)
    return post


async def _end_own(writes: Writes, member_id: int, atype: AssocType, id_: int) -> None:
    if await association(writes.graph, member_id, atype, id_) is not None:
        batch = Batch(shard_of(member_id))
        batch.assoc_del(member_id, atype, id_, writes.new_id(batch.shard))
        await writes.graph.commit(batch)


async def _begin(writes: Writes, member_id: int, atype: AssocType, post_id: int) -> Post:
    with foreseen_change(member_id, of=post_id):
        post = await access_post(writes.graph, member_id, post_id)
        batch = Batch(shard_of(member_id))
        now = writes.new_id(batch.shard)
        batch.assoc_add(member_id, atype, post.id, now, aggregate_id=post.author_id, must_be_new=True)
        batch.expect(post.id)
        batch.presumed_new = True
        _tell(batch, atype, member_id, post, now)
        with contextlib.suppress(AssocExists):
            await writes.commit(batch)
    return post


async def _end(writes: Writes, member_id: int, atype: AssocType, post_id: int) -> Post:
    """Remove the member's like or mark from a post, even if the member may no longer see the post."""
    with foreseen_change(member_id, of=post_id):
        post = await post_by_id(writes.graph, post_id)
        if await association(writes.graph, member_id, atype, post.id) is not None:
            batch = Batch(shard_of(member_id))
            batch.assoc_del(member_id, atype, post.id, writes.new_id(batch.shard), aggregate_id=post.author_id)
            _tell(batch, atype, member_id, post)
            await writes.graph.commit(batch)
            return post
    return await access_post(writes.graph, member_id, post.id)


def _tell(batch: Batch, atype: AssocType, member_id: int, post: Post, began: int = 0) -> None:
    """Emit an event for a like. Marks of other types, such as bookmarks, are private and emit no event."""
    if atype is LIKES:
        batch.emit(LikeChanged(member_id=member_id, post_id=post.id, author_id=post.author_id, at=began))


_NEW_MS = 120_000
"""Age in milliseconds from which an emoji position without reactions counts as unused. It exceeds the clock differences."""


async def react(writes: Writes, member_id: int, post_id: int, text: str) -> Post:
    """Add a reaction of the member to a post, or to the original of a share: an emoji, or a declared reaction by its name.

    A declared reaction replaces the member's other one of its group. Raises `NotFound` for a post that the member may not see, and
    for a reaction that is not declared. Raises `InvalidInput` for an invalid emoji, too many emoji by the member or on the post,
    and a reaction that is retired or does not apply to the post.
    """
    name = text if is_name(text) else checked_emoji(text)
    post = await access_post(writes.graph, member_id, post_id)
    await serialized(writes, member_id, lambda claim: _react(writes, member_id, post, name, claim))
    return post


async def unreact(writes: Writes, member_id: int, post_id: int, text: str) -> Post:
    """Remove a reaction of the member from a post, even if the member may no longer see the post, or the reaction is retired.

    If the member has no such reaction, raises `NotFound` for a post that the member may not see and for a reaction that is not
    declared.
    """
    name = text if is_name(text) else checked_emoji(text)
    post = await post_by_id(writes.graph, post_id)
    if await serialized(writes, member_id, lambda claim: _unreact(writes, member_id, post, name, claim)):
        return post
    await access_post(writes.graph, member_id, post.id)
    if is_name(name):
        (await declared_reactions(writes.graph)).get(name)
    return post


async def _excluded(writes: Writes, post: Post, name: str) -> frozenset[str]:
    """Return the reactions that this one replaces. Raises the errors of `react` if members cannot add it to the post."""
    if not is_named(name):
        return frozenset()
    declared = await declared_reactions(writes.graph)
    return declared.excluded_by(declared.usable(name, post.kind))


async def _react(writes: Writes, member_id: int, post: Post, name: str, claim: Claim) -> None:
    # Read the declarations after the version of `claim`: if another reaction of the group was declared since, and the member
    # added it in another process, the commit conflicts.
    excluded = await _excluded(writes, post, name)
    there = (await emoji_positions(writes.graph, (post.id,))).get(post.id, [])
    before = await _chosen(writes, member_id, post.id)
    # Leave out emoji that were deleted as unused while the member was reacting with them.
    chosen = [position for position in before if position in there]
    kept = [position for position in chosen if position.emoji not in excluded]
    added: tuple[EmojiPosition, ...] = ()
    if all(position.emoji != name for position in kept):
        most = writes.limits.emoji_of_member
        if not is_named(name) and sum(not is_named(position.emoji) for position in kept) >= most:
            raise InvalidInput(f"You can react to a post with at most {most} emoji", field="emoji")
        added = (await _position_of(writes, post, name),)
    elif kept == chosen:
        return
    batch = Batch(shard_of(member_id))
    claim(batch)
    now = writes.new_id(batch.shard)
    put_reactions(batch, member_id, post.id, now, had=before, has=(*kept, *added))
    batch.expect(post.id)
    for replaced in chosen:
        if replaced not in kept:
            batch.emit(_changed(member_id, post, replaced))
    for position in added:
        batch.emit(_changed(member_id, post, position, now))
    await writes.commit(batch)


async def _unreact(writes: Writes, member_id: int, post: Post, name: str, claim: Claim) -> bool:
    chosen = await _chosen(writes, member_id, post.id)
    left = [position for position in chosen if position.emoji != name]
    if len(left) == len(chosen):
        return False
    batch = Batch(shard_of(member_id))
    claim(batch)
    put_reactions(batch, member_id, post.id, writes.new_id(batch.shard), had=chosen, has=left)
    if left:
        # Otherwise, the rest would stay if the post is deleted at the same time.
        batch.expect(post.id)
    for position in chosen:
        if position not in left:
            batch.emit(_changed(member_id, post, position))
    await writes.commit(batch)
    return True


def _changed(member_id: int, post: Post, position: EmojiPosition, put: int = 0) -> ReactionChanged:
    return ReactionChanged(
        member_id=member_id,
        post_id=post.id,
        author_id=post.author_id,
        place_id=position.id,
        emoji=position.emoji,
        at=put,
    )


async def _chosen(writes: Writes, member_id: int, post_id: int) -> tuple[EmojiPosition, ...]:
    return chosen_of(await association(writes.graph, member_id, REACTS, post_id))


async def _position_of(writes: Writes, post: Post, emoji: str) -> EmojiPosition:
    async def attempt() -> EmojiPosition:
        with another_request():
            return await _found_or_made(writes, post, emoji)

    return await retry_on_conflict(attempt)


async def _found_or_made(writes: Writes, post: Post, emoji: str) -> EmojiPosition:
    shard = shard_of(post.id)
    # Emoji share a limited number of positions. A declared reaction has its own.
    positions: Sequence[int | str] = (emoji,) if is_named(emoji) else range(writes.limits.emoji_of_post)
    keys = {emoji_position_key(shard, post.id, position): position for position in positions}
    # Read the keys before the emoji. If another request adds an emoji between the two reads, either it is the same emoji and is
    # found below, or this request chooses the same key and its commit conflicts.
    taken = await writes.graph.key_get(list(keys))
    there = (await emoji_positions(writes.graph, (post.id,))).get(post.id, [])
    for position in there:
        if position.emoji == emoji:
            return position
    if len(taken) == len(keys):
        if is_named(emoji):
            raise Conflict("the reaction is being added by another request; try again")
        taken = await _without_unused(writes, post, [each for each in there if not is_named(each.emoji)], taken)
    made = EmojiPosition(writes.new_id(shard), emoji)
    batch = Batch(shard)
    # Take the first free emoji key of the post. Of two concurrent attempts, the second conflicts, and its retry finds the emoji
    # that the first added.
    key = next(key for key in keys if key not in taken)
    batch.key_add(key, made.id)
    batch.key_add(emoji_id_key(shard, made.id), made.id)
    batch.fresh.add(made.id)
    batch.assoc_add(post.id, SHOWS_EMOJI, made.id, made.id, encode_position(keys[key], emoji))
    batch.expect(post.id)
    await writes.commit(batch)
    return made


async def _without_unused(
    writes: Writes, post: Post, there: Sequence[EmojiPosition], taken: Mapping[Key, int]
) -> dict[Key, int]:
    """Delete the emoji of the post that have no reactions, and release their keys.

    Returns the entries of `taken`, the keys of all emoji of the post, without the released keys. Raises
    `InvalidInput` if every emoji has reactions or was just added.
    """
    counts = (await writes.graph.assoc_count([position.id for position in there], (EMOJI_PUT_BY,)))[EMOJI_PUT_BY]
    # Keep new emoji: the reaction for which one was added may not be committed yet.
    made_before = writes.new_id.now() - _NEW_MS
    unused = {
        position.id for position in there if position.id not in counts and milliseconds_of(position.id) <= made_before
    }
    if not unused:
        raise InvalidInput(f"A post cannot have more than {len(taken)} different emoji reactions", field="emoji")
    batch = Batch(shard_of(post.id))
    for key, position in taken.items():
        if position in unused:
            batch.key_del(key, position)
            batch.key_del(emoji_id_key(batch.shard, position), position)
            batch.assoc_del(post.id, SHOWS_EMOJI, position, writes.new_id(batch.shard))
    await writes.graph.commit(batch)
    return {key: position for key, position in taken.items() if position not in unused}

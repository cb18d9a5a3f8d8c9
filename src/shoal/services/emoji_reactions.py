"""Reactions with an emoji: a member puts one or several on a post, and takes them off again.

A reaction is one commit on the member's shard. The first use of an emoji on a post also gives it a place there, in a
commit of its own before (see `graph/payloads/emoji.py`). Every verb may be repeated: the second time changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.core.emoji import checked_emoji
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.events import ReactionChanged
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Post
from shoal.graph.access import access_post, association, post_by_id
from shoal.graph.cache.coherence import another_request
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, Missing
from shoal.graph.payloads.posts import EmojiPlace, chosen_of, emoji_places, encode_chosen, encode_place
from shoal.graph.schema import EMOJI_PUT_BY, PUTS_EMOJI, REACTS, SHOWS_EMOJI, Key, emoji_id_key, emoji_place_key
from shoal.services.maxima import Claim, in_turn
from shoal.services.writes import Writes

_NEW_MS = 120_000
"""A place that was made for a reaction and has none after this time is unused. Clocks differ by less."""


async def react(writes: Writes, member_id: int, post_id: int, text: str) -> Post:
    """Put an emoji on the post (or on the post that a share shows).

    Raises `NotFound` for a post that the member may not see, and `InvalidInput` for what is no emoji, or one too many.
    """
    emoji = checked_emoji(text)
    post = await access_post(writes.graph, member_id, post_id)
    await in_turn(writes, member_id, lambda claim: _react(writes, member_id, post, emoji, claim))
    return post


async def unreact(writes: Writes, member_id: int, post_id: int, text: str) -> Post:
    """Take an emoji off a post, also off one that the member may no longer see: they may take back what is theirs."""
    emoji = checked_emoji(text)
    post = await post_by_id(writes.graph, post_id)
    if await in_turn(writes, member_id, lambda claim: _unreact(writes, member_id, post, emoji, claim)):
        return post
    return await access_post(writes.graph, member_id, post.id)


async def _react(writes: Writes, member_id: int, post: Post, emoji: str, claim: Claim) -> None:
    there = (await emoji_places(writes.graph, (post.id,))).get(post.id, [])
    before = await _chosen(writes, member_id, post.id)
    # A place may have been ended as unused at the moment when the member came to it.
    chosen = [place for place in before if place in there]
    if any(place.emoji == emoji for place in chosen):
        return
    if len(chosen) >= writes.limits.emoji_of_member:
        raise InvalidInput(f"You cannot put more than {writes.limits.emoji_of_member} emoji on a post", field="emoji")
    place = await _place(writes, post, emoji)
    batch = Batch(shard_of(member_id))
    claim(batch)
    now = writes.new_id(batch.shard)
    batch.assoc_add(member_id, REACTS, post.id, now, encode_chosen((*chosen, place)))
    # A place does not know its post: this tells whether the post is still there when the inverse arrives.
    batch.assoc_add(member_id, PUTS_EMOJI, place.id, now, post.id.to_bytes(8))
    for ended in before:
        if ended not in there:
            batch.assoc_del(member_id, PUTS_EMOJI, ended.id, now)
    batch.expect(post.id)
    batch.emit(_changed(member_id, post, place, now))
    try:
        await writes.graph.commit(batch)
    except Missing as error:
        raise NotFound("Record not found") from error


async def _unreact(writes: Writes, member_id: int, post: Post, emoji: str, claim: Claim) -> bool:
    """Return whether the member had put the emoji on the post."""
    chosen = await _chosen(writes, member_id, post.id)
    left = [place for place in chosen if place.emoji != emoji]
    if len(left) == len(chosen):
        return False
    batch = Batch(shard_of(member_id))
    claim(batch)
    now = writes.new_id(batch.shard)
    if left:
        batch.assoc_add(member_id, REACTS, post.id, now, encode_chosen(left))
    else:
        batch.assoc_del(member_id, REACTS, post.id, now)
    for place in chosen:
        if place.emoji == emoji:
            batch.assoc_del(member_id, PUTS_EMOJI, place.id, now)
            batch.emit(_changed(member_id, post, place))
    await writes.graph.commit(batch)
    return True


def _changed(member_id: int, post: Post, place: EmojiPlace, put: int = 0) -> ReactionChanged:
    return ReactionChanged(
        member_id=member_id, post_id=post.id, author_id=post.author_id, place_id=place.id, emoji=place.emoji, at=put
    )


async def _chosen(writes: Writes, member_id: int, post_id: int) -> tuple[EmojiPlace, ...]:
    return chosen_of(await association(writes.graph, member_id, REACTS, post_id))


async def _place(writes: Writes, post: Post, emoji: str) -> EmojiPlace:
    """Return the place of the emoji on the post, which is made if there is none."""

    async def attempt() -> EmojiPlace:
        with another_request():
            return await _found_or_made(writes, post, emoji)

    return await retry_on_conflict(attempt)


async def _found_or_made(writes: Writes, post: Post, emoji: str) -> EmojiPlace:
    shard = shard_of(post.id)
    keys = [emoji_place_key(shard, post.id, number) for number in range(writes.limits.emoji_of_post)]
    # The keys first: of a place that is made between the two reads, the emoji is seen and the key is found taken.
    taken = await writes.graph.key_get(keys)
    there = (await emoji_places(writes.graph, (post.id,))).get(post.id, [])
    for place in there:
        if place.emoji == emoji:
            return place
    if len(taken) == len(keys):
        taken = await _without_unused(writes, post, there, taken)
    made = EmojiPlace(writes.new_id(shard), emoji)
    batch = Batch(shard)
    # The first free one: of two that look at once for a place the second finds it taken, and sees what the first did.
    number, key = next((number, key) for number, key in enumerate(keys) if key not in taken)
    batch.key_add(key, made.id)
    batch.key_add(emoji_id_key(shard, made.id), made.id)
    batch.fresh.add(made.id)
    batch.assoc_add(post.id, SHOWS_EMOJI, made.id, made.id, encode_place(number, emoji))
    batch.expect(post.id)
    try:
        await writes.graph.commit(batch)
    except Missing as error:
        raise NotFound("Record not found") from error
    return made


async def _without_unused(
    writes: Writes, post: Post, there: Sequence[EmojiPlace], taken: Mapping[Key, int]
) -> dict[Key, int]:
    """End the places of emoji that nobody has on the post any more. Raises `InvalidInput` when there are none."""
    counts = (await writes.graph.assoc_count([place.id for place in there], (EMOJI_PUT_BY,)))[EMOJI_PUT_BY]
    # Somebody may be about to come to a new one.
    made_before = milliseconds_of(writes.new_id(shard_of(post.id))) - _NEW_MS
    unused = {place.id for place in there if place.id not in counts and milliseconds_of(place.id) <= made_before}
    if not unused:
        raise InvalidInput(f"A post cannot have more than {len(taken)} different emoji", field="emoji")
    batch = Batch(shard_of(post.id))
    for key, place in taken.items():
        if place in unused:
            batch.key_del(key, place)
            batch.key_del(emoji_id_key(batch.shard, place), place)
            batch.assoc_del(post.id, SHOWS_EMOJI, place, writes.new_id(batch.shard))
    await writes.graph.commit(batch)
    return {key: place for key, place in taken.items() if place not in unused}

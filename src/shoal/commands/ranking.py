"""A member's settings for ranked feeds: recipe, on/off switch, interests, "more/less like this" feedback, and seen posts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from shoal.commands.context import Writes, add_node
from shoal.core.errors import InvalidInput
from shoal.core.ids import MAX_ID
from shoal.core.model import Post
from shoal.core.ranking.preferences import (
    NO_FEEDBACK,
    Feedback,
    FeedPreferences,
    SeenPosts,
    add_seen,
    check_picked,
    encode_feedback,
    fitting,
    folded,
    tapped,
)
from shoal.core.ranking.recipes import Recipe
from shoal.core.text import canonical_tag, check_tag
from shoal.graph.access import access_post
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch
from shoal.graph.payloads.members import personalization_of
from shoal.graph.schema import Key, preferences_key, seen_key

N = TypeVar("N", FeedPreferences, SeenPosts)


class FeedbackChange(NamedTuple):
    before: Feedback
    after: Feedback


MOST_SEEN_AT_ONCE = 200


async def set_recipe(writes: Writes, member_id: int, recipe: Recipe | None) -> FeedPreferences:
    """Set the member's ranking recipe; None selects the server's recipe."""
    document = b"" if recipe is None else msgspec.json.encode(recipe)
    return await _change_preferences(
        writes, member_id, lambda feed_preferences: replace(feed_preferences, document=document)
    )


async def switch(writes: Writes, member_id: int, *, off: bool) -> FeedPreferences:
    return await _change_preferences(writes, member_id, lambda feed_preferences: replace(feed_preferences, off=off))


async def pick_tags(writes: Writes, member_id: int, names: Sequence[str]) -> tuple[str, ...]:
    """Replace the tags that the member picked as interests, and return them in canonical form.

    Raises `InvalidInput` for more than 50 tags or 4,096 bytes, and for an invalid tag.
    """
    picked = tuple(dict.fromkeys(check_tag(name) for name in names))
    check_picked(picked)
    await _change_feedback(writes, member_id, lambda feedback: replace(feedback, picked=picked))
    return picked


async def tap_author(writes: Writes, member_id: int, author_id: int, step: int) -> FeedbackChange:
    """Count one "more like this" (`step` 1) or "less like this" (-1) for an author, or clear the author's count (0)."""
    return await _change_feedback(
        writes, member_id, lambda feedback: replace(feedback, authors=tapped(feedback.authors, author_id, step))
    )


async def tap_tag(writes: Writes, member_id: int, tag: str, step: int) -> FeedbackChange:
    """Count one "more like this" (`step` 1) or "less like this" (-1) for a canonical tag, or clear the tag's count (0)."""
    return await _change_feedback(
        writes, member_id, lambda feedback: replace(feedback, tags=tapped(feedback.tags, tag, step))
    )


async def forget_taps(writes: Writes, member_id: int) -> None:
    await _change_feedback(writes, member_id, lambda feedback: replace(feedback, authors={}, tags={}))


async def fold_tags(writes: Writes, member_id: int) -> None:
    """Convert the tags of the member's feedback to their canonical form."""
    await _change_feedback(writes, member_id, folded)


async def add_seen_posts(writes: Writes, member_id: int, post_ids: Sequence[int]) -> None:
    """Count one more view of each of these posts by the member. Ids of other objects are accepted.

    Makes at most two commits. Raises `InvalidInput` for more than 200 ids.
    """
    if len(post_ids) > MOST_SEEN_AT_ONCE:
        raise InvalidInput(f"ids: at most {MOST_SEEN_AT_ONCE} ids", field="ids")
    if not all(0 < id_ <= MAX_ID for id_ in post_ids):
        raise InvalidInput("ids: expected ids of posts", field="ids")
    if not post_ids:
        return

    async def attempt() -> SeenPosts:
        before = (await personalization_of(writes.graph, member_id)).seen or SeenPosts(id=0, member_id=member_id)
        after = replace(before, memory=add_seen(before.memory, post_ids))
        return await _put(writes, seen_key(member_id), before, after)

    await retry_on_conflict(attempt)


async def _change_preferences(
    writes: Writes, member_id: int, change: Callable[[FeedPreferences], FeedPreferences]
) -> FeedPreferences:
    async def attempt() -> FeedPreferences:
        before = (await personalization_of(writes.graph, member_id)).feed_preferences or FeedPreferences(
            id=0, member_id=member_id
        )
        return await _put(writes, preferences_key(member_id), before, change(before))

    return await retry_on_conflict(attempt)


async def _change_feedback(writes: Writes, member_id: int, change: Callable[[Feedback], Feedback]) -> FeedbackChange:
    before = NO_FEEDBACK

    def changed(feed_preferences: FeedPreferences) -> FeedPreferences:
        # After a conflict, this runs again: keep the value of the last attempt, which is the one stored.
        nonlocal before
        before = feed_preferences.feedback
        feedback = fitting(change(before))
        return replace(feed_preferences, said=b"" if feedback == NO_FEEDBACK else encode_feedback(feedback))

    after = await _change_preferences(writes, member_id, changed)
    return FeedbackChange(before, after.feedback)


async def _put(writes: Writes, key: Key, before: N, after: N) -> N:
    """Store a changed object: create it under the key if its id is 0, otherwise update it. Raises `Conflict`."""
    if after == before:
        return before
    if before.id:
        after = replace(after, version=before.version + 1)
        batch = Batch(key.shard)
        batch.obj_set(after)
        await writes.graph.commit(batch)
        return after

    def build(id_: int) -> tuple[N, Batch]:
        node, batch = replace(after, id=id_), Batch(key.shard)
        batch.obj_add(node)
        batch.key_add(key, id_)
        return node, batch

    return await add_node(writes, key.shard, build)


class Tapped(NamedTuple):
    """The result of "more/less like this": the post, its tag ("" for its author), and the feedback before and after."""

    post: Post
    tag: str
    before: Feedback
    after: Feedback


async def tap_post(writes: Writes, member_id: int, post_id: int, step: int, tag: str = "") -> Tapped:
    """Count one "more like this" (`step` 1) or "less like this" (-1) for a post, or clear the count (0).

    The feedback is for the tag, or for the author if the tag is empty. Raises `NotFound` for a post that the member may not see,
    and `InvalidInput` for a tag that the post does not have and for the author of the member's own post.
    """
    post = await access_post(writes.graph, member_id, post_id)
    # Posts created by Shoal 0.2 may still have tags in a former canonical form.
    if tag and (tag := check_tag(tag)) not in map(canonical_tag, post.tags):
        allowed = ", ".join(post.tags) or "none, as it has no tags"
        raise InvalidInput(f"tag: must be a tag of the post: {allowed}", field="tag")
    if not tag and post.author_id == member_id:
        raise InvalidInput("tag: feedback on your own post must be about one of its tags", field="tag")
    if tag:
        return Tapped(post, tag, *await tap_tag(writes, member_id, tag, step))
    return Tapped(post, tag, *await tap_author(writes, member_id, post.author_id, step))

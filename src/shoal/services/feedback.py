"""One tap for more or less like a post: by its author, or under one of its tags."""

from __future__ import annotations

from typing import NamedTuple

from shoal.core.errors import InvalidInput
from shoal.core.model import Post
from shoal.core.ranking.preferences import Wishes
from shoal.core.text import canonical_tag, check_tag
from shoal.graph.access import access_post
from shoal.services import tastes
from shoal.services.writes import Writes


class Tapped(NamedTuple):
    """A tap that was counted: the post, the tag of it that was meant ("" for its author), and the wishes before and after."""

    post: Post
    tag: str
    before: Wishes
    after: Wishes


async def tap(writes: Writes, member_id: int, post_id: int, step: int, tag: str = "") -> Tapped:
    """Count one tap for more (`step` 1) or less (-1) like a post, or forget what was said (0): of its author, or of a tag of it.

    Raises `NotFound` for a post that the member may not see, and `InvalidInput` for a tag that it does not have, and for the
    author of an own post.
    """
    post = await access_post(writes.graph, member_id, post_id)
    # A post of Shoal 0.2 may still have its tags in a former form.
    if tag and (tag := check_tag(tag)) not in map(canonical_tag, post.tags):
        allowed = ", ".join(post.tags) or "none, as it has no tags"
        raise InvalidInput(f"tag: one of those of the post: {allowed}", field="tag")
    if not tag and post.author_id == member_id:
        raise InvalidInput("tag: one of those of the post, as your own posts are not ranked for you", field="tag")
    if tag:
        return Tapped(post, tag, *await tastes.tap_tag(writes, member_id, tag, step))
    return Tapped(post, tag, *await tastes.tap_author(writes, member_id, post.author_id, step))

"""The talk around a post: what it answers, and what answers it."""

from __future__ import annotations

from typing import NamedTuple

from shoal.core.model import Post
from shoal.feeds.hydrate import Entry, hydrate
from shoal.feeds.reads import Reads
from shoal.graph.access import access_post
from shoal.graph.schema import COMMENTED_BY

_PER_POST = 200
"""Direct comments of one post that a thread shows."""


class Thread(NamedTuple):
    """`above`: root first. `below`: each post before its comments, oldest first among sisters."""

    above: list[Entry]
    below: list[Entry]


async def thread(reads: Reads, viewer: int | None, post_id: int, *, above: int, below: int) -> Thread:
    """The thread of a post, up to so many entries above and below. Raises `NotFound` when the viewer may not see the post."""
    post = await access_post(reads.graph, viewer, post_id)
    up = await _ancestors(reads, post, above)
    down = await _descendants(reads, post.id, below)
    return Thread(
        await hydrate(reads.graph, viewer, up, unasked=False),
        await hydrate(reads.graph, viewer, down),
    )


async def _ancestors(reads: Reads, post: Post, limit: int) -> list[int]:
    """One read a step: a thread is a chain, and only its next link is known."""
    chain: list[int] = []
    while post.parent_id and len(chain) < limit:
        parent = (await reads.graph.obj_get((post.parent_id,))).get(post.parent_id)
        if not isinstance(parent, Post):
            break
        chain.append(parent.id)
        post = parent
    return chain[::-1]


async def _descendants(reads: Reads, post_id: int, limit: int) -> list[int]:
    """One read a level; then laid out depth first."""
    children: dict[int, list[int]] = {}
    level, count = [post_id], 0
    while level and count < limit:
        lists = await reads.graph.assoc_ranges(level, COMMENTED_BY, limit=min(_PER_POST, limit), oldest_first=True)
        for id_, page in lists.items():
            children[id_] = [comment.id2 for comment in page]
        level = [comment for page in lists.values() for comment in (assoc.id2 for assoc in page)]
        count += len(level)
    ordered: list[int] = []
    waiting = children.get(post_id, [])[::-1]
    while waiting and len(ordered) < limit:
        at = waiting.pop()
        ordered.append(at)
        waiting += children.get(at, [])[::-1]
    return ordered

"""The talk around a post: what it answers, and what answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from shoal.core.model import Post
from shoal.feeds.hydrate import Entry, hydrate
from shoal.feeds.reads import Reads
from shoal.graph.access import access_post
from shoal.graph.schema import COMMENTED_ASIDE_BY, COMMENTED_BY

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


async def _comments(reads: Reads, post_ids: Sequence[int], limit: int) -> dict[int, list[int]]:
    """The oldest comments on each, those that everybody may find and the others."""
    pages = await asyncio.gather(
        *(
            reads.graph.assoc_ranges(post_ids, atype, limit=limit, oldest_first=True)
            for atype in (COMMENTED_BY, COMMENTED_ASIDE_BY)
        )
    )
    found: dict[int, list[int]] = {}
    for page in pages:
        for id_, comments in page.items():
            found.setdefault(id_, []).extend(comment.id2 for comment in comments)
    return {id_: sorted(comments)[:limit] for id_, comments in found.items()}


async def _descendants(reads: Reads, post_id: int, limit: int) -> list[int]:
    """Two reads a level; then laid out depth first."""
    children: dict[int, list[int]] = {}
    level, count = [post_id], 0
    while level and count < limit:
        lists = await _comments(reads, level, min(_PER_POST, limit))
        children.update(lists)
        level = list(chain.from_iterable(lists.values()))
        count += len(level)
    ordered: list[int] = []
    waiting = children.get(post_id, [])[::-1]
    while waiting and len(ordered) < limit:
        at = waiting.pop()
        ordered.append(at)
        waiting += children.get(at, [])[::-1]
    return ordered

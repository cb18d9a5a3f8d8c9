"""A thread around a post: what it answers, and what answers it, each as far to the side as it is below."""

from __future__ import annotations

import msgspec

from shoal.core.model import Post
from shoal.queries.threads import Thread
from shoal.web.views.posts import PostView, post_of
from shoal.web.visit import Visit

DEEPEST = 4
"""Beyond, comments stand below each other: a line must stay wide enough to read."""


class ThreadView(msgspec.Struct, frozen=True):
    """Posts above and below a post."""

    above: tuple[PostView, ...]
    below: tuple[PostView, ...]
    more: str
    """Where further comments are; empty where all are here."""


def thread_of(visit: Visit, post: Post, found: Thread) -> ThreadView:
    """Return the thread of a post as its page shows it."""
    depths = {post.id: -1}
    below = []
    for entry in found.below:
        depth = depths[entry.post.id] = depths.get(entry.post.parent_id, -1) + 1
        below.append(post_of(visit, entry, depth=min(depth, DEEPEST)))
    above = tuple(post_of(visit, entry) for entry in found.above)
    return ThreadView(above, tuple(below), visit.url(f"/posts/{post.id}/comments") if found.more else "")

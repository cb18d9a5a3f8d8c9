"""Places of comments in their threads: the root leads to every comment below it, with its parent and its author.

So a whole thread is read in one range, however deep it is. The list belongs to the root's id, and stays when the root is deleted.
"""

from __future__ import annotations

from typing import NamedTuple

from shoal.core.model import Post
from shoal.graph.contract import Assoc, Batch
from shoal.graph.schema import IN_THREAD


class ThreadPlace(NamedTuple):
    """A comment in a thread."""

    id: int
    parent_id: int
    author_id: int
    """0 where that is not known without reading the comment."""


def enter_thread(batch: Batch, post: Post) -> None:
    """Add a new comment to its thread, in the commit that makes it."""
    if post.root_id:
        batch.assoc_add(post.id, IN_THREAD, post.root_id, post.id, place_of(post))


def leave_thread(batch: Batch, post: Post, now: int) -> None:
    """Remove a deleted comment from its thread; `now` is an id of the moment."""
    if post.root_id:
        batch.assoc_del(post.id, IN_THREAD, post.root_id, now)


def place_of(post: Post) -> bytes:
    """Return the data of a comment's association with its thread: its parent and its author, 16 bytes."""
    return post.parent_id.to_bytes(8) + post.author_id.to_bytes(8)


def placed(assoc: Assoc) -> ThreadPlace:
    """Decode a comment from the list of its thread."""
    return ThreadPlace(assoc.id2, int.from_bytes(assoc.data[:8]), int.from_bytes(assoc.data[8:]))

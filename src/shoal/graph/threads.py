"""Where comments stand in their threads: the root leads to every comment below it, with what it answers and who wrote it.

So a whole thread is read in one range, however deep it is. The list belongs to the root's id, and stays when the root is deleted.
"""

from __future__ import annotations

from typing import NamedTuple

from shoal.core.model import Post
from shoal.graph.contract import Assoc, Batch
from shoal.graph.schema import IN_THREAD


class Placed(NamedTuple):
    """A comment in a thread."""

    id: int
    parent_id: int
    author_id: int
    """0 where that is not known without reading the comment."""


def enter_thread(batch: Batch, post: Post) -> None:
    """A new comment comes into its thread, in the commit that makes it."""
    if post.root_id:
        batch.assoc_add(post.id, IN_THREAD, post.root_id, post.id, place_of(post))


def leave_thread(batch: Batch, post: Post, now: int) -> None:
    """A comment that is deleted goes; `now` is an id of the moment."""
    if post.root_id:
        batch.assoc_del(post.id, IN_THREAD, post.root_id, now)


def place_of(post: Post) -> bytes:
    """What the association of a comment with its thread says: 16 bytes."""
    return post.parent_id.to_bytes(8) + post.author_id.to_bytes(8)


def placed(assoc: Assoc) -> Placed:
    """A comment as the list of its thread has it."""
    return Placed(assoc.id2, int.from_bytes(assoc.data[:8]), int.from_bytes(assoc.data[8:]))

"""The cells in whose lists a post stands: the one rule, for all who change posts.

A post that is public and has a place is in the lists of the cells of its place, whoever may see it now: those who read a list
leave out what is hidden, as in the list of a tag.
"""

from __future__ import annotations

from shoal.core.cells import cells_of
from shoal.core.model import Post, Visibility
from shoal.graph.contract import Batch
from shoal.graph.schema import PLACED_IN, cell_id


def cell_ids(post: Post | None) -> frozenset[int]:
    """Return the ids of the cells that a post is listed in; none for a post without a place."""
    if post is None or post.place is None or post.visibility is not Visibility.PUBLIC:
        return frozenset()
    return frozenset(map(cell_id, cells_of(post.place)))


def move_between_cells(batch: Batch, before: Post | None, after: Post | None) -> None:
    """Move a post to its cells in the commit that changes it. A new post has no `before`, a deleted one no `after`.

    Its time in a list is its id, as under a tag; the data, the version of the post, tell changes apart.
    """
    had, has = cell_ids(before), cell_ids(after)
    post = after or before
    if post is None or had == has:
        return
    version = (after.version if after else post.version + 1).to_bytes(4)
    for cell in has - had:
        batch.assoc_add(post.id, PLACED_IN, cell, post.id, version)
    for cell in had - has:
        batch.assoc_del(post.id, PLACED_IN, cell, post.id, version)

"""Former wordings of edited posts."""

from __future__ import annotations

from shoal.core.model import Revision
from shoal.graph.access import access_post
from shoal.graph.contract import Cursor, Reader
from shoal.graph.schema import REVISED

MAX_REVISIONS = 1_000
"""Revisions that are shown; the oldest wordings of a post with more are left out."""


async def revisions(graph: Reader, viewer: int | None, post_id: int) -> list[Revision]:
    """Return the former wordings of a post (or of the post that a share shows), oldest first: the last `MAX_REVISIONS`.

    The present wording is not among them. Raises `NotFound` when the viewer may not see the post.
    """
    post = await access_post(graph, viewer, post_id)
    newest_first = await graph.assoc_range(post.id, REVISED, Cursor(limit=MAX_REVISIONS))
    nodes = await graph.obj_get([assoc.id2 for assoc in newest_first])
    return [node for assoc in reversed(newest_first) if isinstance(node := nodes.get(assoc.id2), Revision)]

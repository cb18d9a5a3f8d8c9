"""Former wordings of edited posts."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from shoal.core.model import Media, Node, Post, Revision
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


def media_then(wording: Revision | Post, media: Mapping[int, Node]) -> dict[int, Media]:
    """Return the media of a wording by their ids, in order, described as they were then; those that are gone are left out."""
    former = wording.descriptions if isinstance(wording, Revision) else ()
    described = dict(zip(wording.media, former, strict=False))
    return {
        id_: structs.replace(node, description=described.get(id_, node.description))
        for id_ in wording.media
        if isinstance(node := media.get(id_), Media)
    }

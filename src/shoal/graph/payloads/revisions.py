"""Former wordings of posts."""

from __future__ import annotations

from shoal.core.model import Post, Revision
from shoal.graph.contract import Batch
from shoal.graph.schema import REVISED


def keep_wording(batch: Batch, post: Post, id_: int, options: tuple[str, ...], descriptions: tuple[str, ...]) -> None:
    """Store the wording of a post before an edit, with the options of its poll and the descriptions of its media."""
    batch.obj_add(
        Revision(
            id=id_,
            post_id=post.id,
            text=post.text,
            spoiler=post.spoiler,
            sensitive=post.sensitive,
            media=post.media,
            descriptions=descriptions,
            options=options,
            written=post.edited_at or post.created_at,
        )
    )
    batch.assoc_add(post.id, REVISED, id_, id_)

"""Keeping albums up to date: the photos of a deleted post leave them, and a deleted album keeps none.

Albums, their photos and the posts of these are all of one member, so each commit here is one on the member's shard.
"""

from __future__ import annotations

from shoal.core.events import AlbumDeleted, PostDeleted
from shoal.core.ids import shard_of
from shoal.fanout.effects import Effects
from shoal.graph.access import association
from shoal.graph.contract import Batch, Cursor
from shoal.graph.payloads.members import collected_of
from shoal.graph.schema import COLLECTED_IN, COLLECTS

_PAGE = 15
"""Photos that leave with one commit: a transaction of DynamoDB changes 100 items, and a photo takes up to six."""
_ALBUMS = 1_000
"""More than a member may have."""


async def drop_photos(effects: Effects, event: PostDeleted, mark: int) -> int | None:
    """Take the photos of a deleted post out of all albums. Another post that has them too may have brought them there."""
    for media_id in event.media_ids:
        there = await effects.graph.assoc_range(media_id, COLLECTED_IN, Cursor(limit=_ALBUMS))
        batch = Batch(shard_of(media_id))
        for assoc in there:
            held = await association(effects.graph, assoc.id2, COLLECTS, media_id)
            if held is None or collected_of(held).post_id == event.post_id:
                batch.assoc_del(assoc.id2, COLLECTS, media_id, effects.new_id(batch.shard))
        if batch.assocs:
            await effects.graph.commit(batch)
    return None


async def empty(effects: Effects, event: AlbumDeleted, mark: int) -> int | None:
    """Take the photos out of a deleted album, a page at a time."""
    page = await effects.graph.assoc_range(event.album_id, COLLECTS, Cursor(limit=_PAGE))
    batch = Batch(shard_of(event.album_id))
    for assoc in page:
        batch.assoc_del(event.album_id, COLLECTS, assoc.id2, effects.new_id(batch.shard))
    if page:
        await effects.graph.commit(batch)
    return 1 if len(page) == _PAGE else None

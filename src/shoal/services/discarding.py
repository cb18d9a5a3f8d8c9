"""Delete media that no post has, had or will have."""

from __future__ import annotations

from shoal.core.errors import Unfit
from shoal.core.model import Post
from shoal.graph import media as life
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Cursor
from shoal.graph.schema import ATTACHED
from shoal.services.media import own_media
from shoal.services.scheduling import planned_media
from shoal.services.writes import Writes

_MOST_POSTS = 1_000
"""In how many posts media are looked for."""


async def discard(writes: Writes, owner_id: int, media_id: int) -> None:
    """Delete media and their files.

    Raises `NotFound` for anybody else's, `Unfit` for what a scheduled post names, and for what a post has, or had before an edit:
    its history shows it.
    """

    async def attempt() -> None:
        # Posts and plans are read after the media: one that comes later gives the media a new version, and this is a `Conflict`.
        media = await own_media(writes, owner_id, media_id)
        put = [assoc.id2 for assoc in await writes.graph.assoc_range(media_id, ATTACHED, Cursor(limit=_MOST_POSTS))]
        if any(isinstance(node, Post) for node in (await writes.graph.obj_get(put)).values()):
            raise Unfit("Media attachment is currently used by a status")
        if media_id in await planned_media(writes, owner_id):
            raise Unfit("Media attachment is currently used by a scheduled status")
        await life.delete(writes.graph, writes.new_id, media)

    await retry_on_conflict(attempt)

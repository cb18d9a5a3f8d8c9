"""The public timeline: what everybody posts for everybody, newest first; comments on others and shares are not in it.

Posts stand in a list for each data source, from the commit that makes them to the one that deletes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.model import Post
from shoal.core.visibility import may_list_publicly
from shoal.feeds.hydrate import Row, Sight
from shoal.feeds.merging.pull import pull
from shoal.feeds.pipeline import Page, read_page
from shoal.feeds.reads import Reads
from shoal.graph.contract import Cursor
from shoal.graph.schema import PUBLIC_LISTS, PUBLISHED


async def page(reads: Reads, viewer: int | None, cursor: Cursor, *, only_media: bool = False) -> Page:
    """A page of it, as the viewer may have it."""

    async def skeleton(at: Cursor) -> list[int]:
        return await pull(reads.graph, {PUBLISHED: PUBLIC_LISTS}, at)

    async def keep(seen: Sight, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if listed_publicly(seen, row[1])]

    def wanted(row: Row) -> bool:
        return row[1].published and bool(row[1].media or not only_media)

    return await read_page(reads, viewer, cursor, skeleton, keep, wanted=wanted)


def listed_publicly(seen: Sight, post: Post) -> bool:
    """Whether a post that was looked at, and that the viewer may have listed, is for the timelines of everybody."""
    author = post.author_id
    return may_list_publicly(seen.viewer, post, seen.members[author], seen.stands[author])

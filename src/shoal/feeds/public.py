"""The public timeline: what everybody posts for everybody, newest first; comments on others and shares are not in it.

Posts stand in a list for each data source, from the commit that makes them to the one that deletes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.visibility import may_list_publicly
from shoal.feeds.hydrate import Entry
from shoal.feeds.pipeline import Page, read_page
from shoal.feeds.pull import Cursor, pull
from shoal.feeds.reads import Reads
from shoal.graph.schema import PUBLIC_LISTS, PUBLISHED


async def page(reads: Reads, viewer: int | None, cursor: Cursor, *, only_media: bool = False) -> Page:
    """A page of it, as the viewer may have it."""

    async def skeleton(at: Cursor) -> list[int]:
        return await pull(reads.graph, {PUBLISHED: PUBLIC_LISTS}, at)

    async def keep(found: Sequence[Entry]) -> list[Entry]:
        return [
            entry
            for entry in found
            if entry.post.published and listed_publicly(viewer, entry) and (entry.media or not only_media)
        ]

    return await read_page(reads.graph, viewer, cursor, skeleton, keep)


def listed_publicly(viewer: int | None, entry: Entry) -> bool:
    """Whether a post that the viewer may have listed is for the timelines of everybody."""
    return may_list_publicly(viewer, entry.post, entry.author.member, entry.relation)

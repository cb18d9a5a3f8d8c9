"""The timeline of a tag: public posts under it, newest first."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.model import Visibility
from shoal.feeds.hydrate import Entry
from shoal.feeds.pipeline import Page, read_page
from shoal.feeds.pull import Cursor
from shoal.feeds.reads import Reads
from shoal.graph.schema import TAG_OF, tag_id


async def page(reads: Reads, viewer: int | None, tag: str, cursor: Cursor, *, only_media: bool = False) -> Page:
    """A page of the public posts under a tag, by its canonical form."""

    async def skeleton(at: Cursor) -> list[int]:
        found = await reads.graph.assoc_range(
            tag_id(tag), TAG_OF, before=at.before, after=at.after, limit=at.limit, oldest_first=at.oldest_first
        )
        return [entry.id2 for entry in found]

    async def keep(found: Sequence[Entry]) -> list[Entry]:
        return [
            entry
            for entry in found
            # The list may be behind an edit that took the tag away; the post itself is not.
            if entry.post.visibility is Visibility.PUBLIC and tag in entry.post.tags and (entry.media or not only_media)
        ]

    return await read_page(reads.graph, viewer, cursor, skeleton, keep)

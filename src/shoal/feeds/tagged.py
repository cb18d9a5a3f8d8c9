"""The timeline of a tag, or of several: public posts under them, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.feeds.hydrate import Row, Sight
from shoal.feeds.merging.pull import pull
from shoal.feeds.pipeline import Page, read_page
from shoal.feeds.public import listed_publicly
from shoal.feeds.reads import Reads
from shoal.graph.contract import Cursor
from shoal.graph.schema import TAG_OF, tag_id


@dataclass(frozen=True, slots=True)
class TagQuery:
    """Which posts are wanted: under one of `any_of` at least, under each of `all_of`, under none of `none_of` (canonical)."""

    any_of: frozenset[str]
    all_of: frozenset[str] = frozenset()
    none_of: frozenset[str] = frozenset()
    only_media: bool = False

    def admits(self, row: Row) -> bool:
        """Whether an entry is wanted. A tag's list may be behind an edit that took the tag away; the post itself is not."""
        tags = frozenset(row[1].tags)
        if not tags & self.any_of or tags & self.none_of or self.all_of - tags:
            return False
        return bool(row[1].media) or not self.only_media


async def page(reads: Reads, viewer: int | None, query: TagQuery, cursor: Cursor) -> Page:
    """A page of the public posts that are wanted."""
    sources = [tag_id(tag) for tag in query.any_of]

    async def skeleton(at: Cursor) -> list[int]:
        if len(sources) > 1:
            return await pull(reads.graph, {TAG_OF: sources}, at)
        found = await reads.graph.assoc_range(sources[0], TAG_OF, at)
        return [entry.id2 for entry in found]

    async def keep(seen: Sight, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if listed_publicly(seen, row[1])]

    return await read_page(reads, viewer, cursor, skeleton, keep, wanted=query.admits)

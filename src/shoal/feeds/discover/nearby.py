"""The newest public posts from around a place, by the lists of the cells that cover a disk."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.places import Disk, cover
from shoal.feeds.hydrate import Row, Sight
from shoal.feeds.merging.pull import pull
from shoal.feeds.pipeline import Page, read_page
from shoal.feeds.public import listed_publicly
from shoal.feeds.reads import Reads
from shoal.graph.contract import Cursor
from shoal.graph.schema import CELL_OF, cell_id


async def newest(reads: Reads, disk: Disk, limit: int) -> list[int]:
    """Return the ids of the newest posts of the cells that cover the disk: some lie a little beyond it."""
    return await pull(reads.graph, {CELL_OF: [cell_id(cell) for cell in cover(disk)]}, Cursor(limit=limit))


async def page(reads: Reads, viewer: int | None, disk: Disk, cursor: Cursor, *, only_media: bool = False) -> Page:
    """A page of the public posts whose place lies in the disk, newest first."""
    cells = [cell_id(cell) for cell in cover(disk)]

    async def skeleton(at: Cursor) -> list[int]:
        return await pull(reads.graph, {CELL_OF: cells}, at)

    async def keep(seen: Sight, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if listed_publicly(seen, row[1])]

    def wanted(row: Row) -> bool:
        # Cells reach beyond the disk, and their lists may be behind an edit that moved the post.
        return disk.has(row[1].place) and bool(row[1].media or not only_media)

    return await read_page(reads, viewer, cursor, skeleton, keep, wanted=wanted)

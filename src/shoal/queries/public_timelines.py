"""Public timelines: the newest public posts on the server, under one or more tags, or near a location.

Comments on the posts of other members and shares are not part of the public timeline. Its posts are in one list for
each data source, from the commit that creates a post to the commit that deletes it. Nearby posts come from the lists of
the map cells that cover a circular area (`Disk`), or the towns of a country.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from shoal import gazetteer
from shoal.core.model import Post
from shoal.core.places import MAX_RADIUS_KM, MIN_RADIUS_KM, Disk, Location, Place, cover
from shoal.core.visibility import may_list_publicly
from shoal.graph.contract import Cursor
from shoal.graph.schema import CELL_OF, PUBLIC_LISTS, PUBLISHED, TAG_OF, cell_id, tag_id
from shoal.queries.context import Reads
from shoal.queries.hydration import Row, ViewerState
from shoal.queries.pagination import Sources, pull
from shoal.queries.pipeline import Page, read_page


async def public_page(reads: Reads, viewer: int | None, cursor: Cursor, *, only_media: bool = False) -> Page:
    def row_filter(row: Row) -> bool:
        return row[1].published and bool(row[1].media or not only_media)

    skeleton = partial(pull, reads.graph, {PUBLISHED: PUBLIC_LISTS})
    return await read_page(reads, viewer, cursor, skeleton, listed, row_filter=row_filter)


async def listed(seen: ViewerState, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if listed_publicly(seen, row[1])]


def listed_publicly(seen: ViewerState, post: Post) -> bool:
    """Return whether a post read by `ViewerState.look` may appear in public timelines for the viewer."""
    author = post.author_id
    return may_list_publicly(seen.viewer, post, seen.members[author], seen.relationships[author])


@dataclass(frozen=True, slots=True)
class TagQuery:
    """A filter of posts by canonical tags: at least one of `any_of`, each of `all_of`, none of `none_of`."""

    any_of: frozenset[str]
    all_of: frozenset[str] = frozenset()
    none_of: frozenset[str] = frozenset()
    only_media: bool = False

    def admits(self, row: Row) -> bool:
        """Return whether a row matches. Some rows do not, because the list of a tag lags behind edits of its posts."""
        tags = frozenset(row[1].tags)
        if not tags & self.any_of or tags & self.none_of or self.all_of - tags:
            return False
        return bool(row[1].media) or not self.only_media


async def tag_page(reads: Reads, viewer: int | None, query: TagQuery, cursor: Cursor) -> Page:
    sources = [tag_id(tag) for tag in query.any_of]

    async def skeleton(at: Cursor) -> list[int]:
        if len(sources) > 1:
            return await pull(reads.graph, {TAG_OF: sources}, at)
        found = await reads.graph.assoc_range(sources[0], TAG_OF, at)
        return [entry.id2 for entry in found]

    return await read_page(reads, viewer, cursor, skeleton, listed, row_filter=query.admits)


async def newest_around(reads: Reads, place: Place | None, near_km: float, limit: int) -> list[int]:
    """Return the ids of the newest posts within about `near_km` of a place; none if the place is None.

    The distance is limited to the allowed radius of a `Disk`. Posts come from the map cells that cover this circle, so some lie
    slightly outside.
    """
    if place is None:
        return []
    disk = Disk(*place, min(max(near_km, MIN_RADIUS_KM), MAX_RADIUS_KM))
    return await pull(reads.graph, _cells_of(disk), Cursor(limit=limit))


async def newest_in_country(reads: Reads, location: Location | None, limit: int) -> list[int]:
    """Return the ids of the newest posts in the map cells of the largest towns of a location's country.

    The cells extend beyond the borders. Empty if the location is None, or if the server has no list of towns.
    """
    if location is None or (towns := gazetteer.installed()) is None:
        return []
    return await pull(reads.graph, {CELL_OF: list(map(cell_id, towns.cells(location.country)))}, Cursor(limit=limit))


def in_country(post: Post, location: Location | None) -> bool:
    """Return whether a post is from the country of a location; False if either is unknown."""
    if location is None or post.place is None or (towns := gazetteer.installed()) is None:
        return False
    return towns.country_of(post.place) == location.country


def _cells_of(disk: Disk) -> Sources:
    return {CELL_OF: [cell_id(cell) for cell in cover(disk)]}


async def nearby_page(
    reads: Reads, viewer: int | None, disk: Disk, cursor: Cursor, *, only_media: bool = False
) -> Page:
    """Return a page of the public posts within a circular area on the map, newest first."""

    def row_filter(row: Row) -> bool:
        # The map cells extend beyond the disk, and their lists may not reflect the latest edit of a post yet.
        return disk.has(row[1].place) and bool(row[1].media or not only_media)

    skeleton = partial(pull, reads.graph, _cells_of(disk))
    return await read_page(reads, viewer, cursor, skeleton, listed, row_filter=row_filter)

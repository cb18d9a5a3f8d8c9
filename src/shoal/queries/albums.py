"""Albums of a member and their photos, as a viewer may see them.

A photo has the visibility of its post. For other viewers an album exists only if it has a photo that they may see, so the title
of a followers-only album is not revealed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from shoal.core.errors import NotFound
from shoal.core.model import Album, Media
from shoal.core.visibility import is_sensitive
from shoal.graph.access import access_member, get_object, objects_of
from shoal.graph.contract import Assoc, Cursor
from shoal.graph.payloads.members import MOST_PHOTOS, collected_of, in_order
from shoal.graph.schema import COLLECTED_IN, COLLECTS, OWNS_ALBUM, REPORTS_POST
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, Profile, Row, ViewerState, profiles_by_id, viewer_state
from shoal.queries.pagination import check_limit

PAGE = 12
PHOTOS = 40
_COVERS = 4


class Cover(msgspec.Struct, frozen=True):
    """An album as shown in a list: how many of its photos the viewer may see, and the first few of them."""

    album: Album
    photos: int
    first: tuple[Media, ...] = ()
    covered: bool = False
    """Whether all photos that the viewer may see are sensitive, so that `first` is hidden by default."""


class Albums(NamedTuple):
    """A page of albums, newest first. `next` is the `before` parameter of the next page; None at the end."""

    covers: list[Cover]
    next: int | None


class AlbumPhoto(msgspec.Struct, frozen=True):
    media: Media
    entry: Entry


class AlbumPage(msgspec.Struct, frozen=True):
    album: Album
    owner: Profile
    total: int
    """Number of photos that the viewer may see."""
    photos: list[AlbumPhoto]
    next: int | None
    """The `offset` of the next page; None at the end."""


class _Shown(NamedTuple):
    media: Media
    row: Row


async def of_member(reads: Reads, viewer: int | None, member_id: int, before: int, limit: int = PAGE) -> Albums:
    """Return a page of a member's albums, with eight reads. Raises `NotFound` for an unknown member, `Gone` for a suspended one."""
    check_limit(Cursor(limit=limit))
    member = await access_member(reads.graph, member_id)
    listed = await reads.graph.assoc_range(member.id, OWNS_ALBUM, Cursor(before=before, limit=limit))
    albums = await objects_of(reads.graph, Album, [assoc.id2 for assoc in listed])
    collected = await reads.graph.assoc_ranges(
        [own_album.id for own_album in albums], COLLECTS, Cursor(limit=MOST_PHOTOS)
    )
    seen, shown = await _look(reads, viewer, collected)
    covers = [_cover(seen, album, shown.get(album.id, [])) for album in albums]
    found = [cover for cover in covers if cover.photos or viewer == member.id]
    return Albums(found, listed[-1].time if len(listed) == limit else None)


async def page(reads: Reads, viewer: int | None, album_id: int, offset: int = 0, limit: int = PHOTOS) -> AlbumPage:
    """Return a page of the photos of an album, in the album's order, with at most thirteen reads.

    Raises `NotFound` for another member's album in which the viewer may see no photo, and `Gone` if its owner is suspended.
    """
    check_limit(Cursor(limit=limit))
    album = await get_object(reads.graph, Album, album_id)
    owner = await access_member(reads.graph, album.owner_id)
    collected = await reads.graph.assoc_range(album.id, COLLECTS, Cursor(limit=MOST_PHOTOS))
    seen, found = await _look(reads, viewer, {album.id: collected})
    shown = found.get(album.id, [])
    if not shown and viewer != owner.id:
        raise NotFound("Record not found")
    part = shown[offset : offset + limit]
    rows = {photo.row[0]: photo.row for photo in part}
    entries = {entry.id: entry for entry in await seen.entries(list(rows.values()))}
    profile = (await profiles_by_id(reads.graph, viewer, (owner.id,)))[0]
    after = offset + limit
    photos = [AlbumPhoto(photo.media, entries[photo.row[0]]) for photo in part if photo.row[0] in entries]
    return AlbumPage(album, profile, len(shown), photos, after if after < len(shown) else None)


async def with_media(reads: Reads, owner_id: int, media_ids: Sequence[int]) -> frozenset[int]:
    """Return the ids of the owner's albums that contain all of these media; an empty set if no media are given."""
    if not media_ids:
        return frozenset()
    lists = await reads.graph.assoc_ranges(list(media_ids), COLLECTED_IN, Cursor(limit=MOST_PHOTOS))
    there = [{assoc.id2 for assoc in lists.get(id_, ())} for id_ in media_ids]
    nodes = await reads.graph.obj_get(list(set.intersection(*there)))
    return frozenset(id_ for id_, node in nodes.items() if isinstance(node, Album) and node.owner_id == owner_id)


async def owned(reads: Reads, member_id: int) -> list[Album]:
    """Return all albums of a member, newest first, without reading their photos; two reads."""
    listed = await reads.graph.assoc_range(member_id, OWNS_ALBUM, Cursor(limit=MOST_PHOTOS))
    return await objects_of(reads.graph, Album, [assoc.id2 for assoc in listed])


async def _look(
    reads: Reads, viewer: int | None, collected: Mapping[int, Sequence[Assoc]]
) -> tuple[ViewerState, dict[int, list[_Shown]]]:
    """Return for each album the photos that the viewer may see, in the album's order."""
    seen = viewer_state(reads.graph, viewer, unasked=False, lasting=reads.lasting)
    posts = dict.fromkeys(collected_of(assoc).post_id for listed in collected.values() for assoc in listed)
    rows = {row[0]: row for row in await seen.look(list(posts))} if posts else {}
    if rows and viewer is not None:
        # Posts that the viewer reported are hidden. `look` does not remove them.
        for id_ in (await reads.graph.assoc_get(viewer, (REPORTS_POST,), list(rows)))[REPORTS_POST]:
            del rows[id_]
    found: dict[int, list[_Shown]] = {}
    for album_id, listed in collected.items():
        for assoc in in_order(listed):
            row = rows.get(collected_of(assoc).post_id)
            media = next((file for file in seen.media(row[1]) if file.id == assoc.id2), None) if row else None
            if row and media:
                found.setdefault(album_id, []).append(_Shown(media, row))
    return seen, found


def _cover(seen: ViewerState, album: Album, shown: Sequence[_Shown]) -> Cover:
    author = seen.members.get(album.owner_id)
    open_ones = [
        photo for photo in shown if author and not (is_sensitive(photo.row[1], author) or photo.row[1].spoiler)
    ]
    first = tuple(photo.media for photo in (open_ones or shown)[:_COVERS] if photo.media.preview_key)
    return Cover(album, len(shown), first, covered=bool(shown) and not open_ones)

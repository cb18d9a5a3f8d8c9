"""Albums of photos: a member's own, and those of others as a viewer may see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from shoal.commands import albums
from shoal.core.model import Album
from shoal.graph.contract import MAX_TIME
from shoal.library.acting import AnyMember, Seeing
from shoal.library.arguments import AnyMedia, AnyPost, id_of, post_id
from shoal.queries import albums as feed
from shoal.queries.albums import AlbumPage, Albums, Cover
from shoal.wiring import Network

AnyAlbum: TypeAlias = Album | Cover | int


class SeesAlbums(Seeing):
    """Albums as a viewer sees them."""

    async def albums_of(self, who: AnyMember, before: int | None = None, limit: int = feed.PAGE) -> Albums:
        """A page of a member's albums in which the viewer may see something, newest first.

        Raises `NotFound`, `Gone`, and `InvalidInput` for a limit below 1.
        """
        at = before if before is not None else MAX_TIME
        return await feed.of_member(self._reads, self._viewer, await self._resolve(who), at, limit)

    async def album(self, which: AnyAlbum, offset: int = 0, limit: int = feed.PHOTOS) -> AlbumPage:
        """A part of an album, in its order. Raises `NotFound`, `Gone`, and `InvalidInput` for a limit below 1."""
        return await feed.page(self._reads, self._viewer, _id(which), offset, limit)


class OwnAlbums:
    """The albums of a member."""

    def __init__(self, network: Network, owner: int) -> None:
        self._writes = network.writes
        self._reads = network.reads
        self._owner = owner

    async def all(self) -> list[Album]:
        """All albums, newest first. Raises `Unavailable`."""
        return await feed.owned(self._reads, self._owner)

    async def create(self, title: str, description: str = "") -> Album:
        """Make an album without photos. Raises `InvalidInput` for one too many, an empty title, a text that is too long."""
        return await albums.create(self._writes, self._owner, title, description)

    async def update(self, which: AnyAlbum, *, title: str | None = None, description: str | None = None) -> Album:
        """Change the given values of an album. Raises `NotFound`, and `InvalidInput` as `create`."""
        return await albums.update(self._writes, self._owner, _id(which), title=title, description=description)

    async def delete(self, which: AnyAlbum) -> None:
        """Delete an album; the posts stay. Raises `NotFound`."""
        await albums.delete(self._writes, self._owner, _id(which))

    async def put_in(self, which: AnyAlbum, post: AnyPost, media: Sequence[AnyMedia] = ()) -> None:
        """Put photos of an own post at the end of an album: those named, or all.

        Raises `NotFound`, and `InvalidInput` for a direct post, a post without media, and one photo too many.
        """
        ids = [id_of(one) for one in media]
        await albums.put_in(self._writes, self._owner, _id(which), post_id(post), ids)

    async def take_out(self, which: AnyAlbum, *media: AnyMedia) -> None:
        """Take photos out of an album; those that are not in it do no harm. Raises `NotFound`."""
        await albums.take_out(self._writes, self._owner, _id(which), [id_of(one) for one in media])

    async def arrange(self, which: AnyAlbum, *media: AnyMedia) -> None:
        """Put photos of an album first, in this order; the others follow as they stood. Raises `NotFound`."""
        await albums.arrange(self._writes, self._owner, _id(which), [id_of(one) for one in media])


def _id(which: AnyAlbum) -> int:
    return which.album.id if isinstance(which, Cover) else which if isinstance(which, int) else which.id

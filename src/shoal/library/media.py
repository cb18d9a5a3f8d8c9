"""Pictures, videos and sounds of a member for use in posts, and albums of photos."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from shoal.app.network import Network
from shoal.commands import albums, media
from shoal.commands.scheduled_posts import discard_media
from shoal.core.model import Album, Media
from shoal.graph.access import own_object
from shoal.graph.contract import MAX_TIME
from shoal.library.acting import Acting, AnyMedia, AnyMember, AnyPost, Seeing, id_of, post_id
from shoal.queries import albums as feed
from shoal.queries.albums import AlbumPage, Albums, Cover


class Uploads(Acting):
    """The media of one member: upload, describe, delete."""

    async def upload(
        self,
        file: bytes,
        *,
        description: str = "",
        focus: tuple[float, float] = (0.0, 0.0),
        thumbnail: bytes | None = None,
    ) -> Media:
        """Store a picture, video or sound. A picture is ready at once; `state` tells the progress of videos and sounds.

        `focus` is the point that a crop keeps, x and y in -1..1; `thumbnail` the picture of a video or sound.
        Raises `InvalidInput`: `TooLarge`, and `Unsupported` for a kind of file that is not taken; and `StorageFull`.
        """
        return await media.upload(
            self._writes, self.id, file, description=description, focus=focus, thumbnail=thumbnail
        )

    async def media(self, which: AnyMedia) -> Media:
        """Return one of the member's media as it is now. Raises `NotFound`."""
        return await own_object(self._writes.graph, self.id, id_of(which), Media)

    async def describe(
        self,
        which: AnyMedia,
        *,
        description: str | None = None,
        focus: tuple[float, float] | None = None,
        thumbnail: bytes | None = None,
    ) -> Media:
        """Change values of one of the member's media. Raises `NotFound`, and `InvalidInput` (`TooLarge`, `Unsupported`)."""
        return await media.describe(
            self._writes, self.id, id_of(which), description=description, focus=focus, thumbnail=thumbnail
        )

    async def discard(self, which: AnyMedia) -> None:
        """Delete media with their files. Raises `NotFound`, and `Unfit` for media that a post has or is to have."""
        await discard_media(self._writes, self.id, id_of(which))


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

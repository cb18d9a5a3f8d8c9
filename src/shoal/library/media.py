"""Pictures, videos and sounds of a member for use in posts, and albums of photos."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from shoal.commands import albums, media
from shoal.commands.scheduled_posts import discard_media
from shoal.core.model import Album, Media
from shoal.graph.access import own_object
from shoal.graph.contract import MAX_TIME
from shoal.library.acting import Acting, AnyMedia, AnyMember, AnyPost, Owned, Seeing, id_of, post_id
from shoal.queries import albums as feed
from shoal.queries.albums import AlbumPage, Albums, Cover


class Uploads(Acting):
    """The media of a member: upload, describe, delete."""

    async def upload(
        self,
        file: bytes,
        *,
        description: str = "",
        focus: tuple[float, float] = (0.0, 0.0),
        thumbnail: bytes | None = None,
        shows_details: bool | None = None,
    ) -> Media:
        """Store a picture, video or sound. A picture is ready at once; `state` is the progress of a video or sound.

        `focus` is the point that a crop keeps, x and y in -1..1; `thumbnail` is the picture of a video or sound. With
        `shows_details`, everyone who sees a photo also sees its `details`: camera, lens, exposure and date; None applies the
        member's `shows_photo_details`. Raises `InvalidInput` (`TooLarge`, `Unsupported` for an unsupported file type) and
        `StorageFull`.
        """
        return await media.upload(
            self._writes,
            self.id,
            file,
            description=description,
            focus=focus,
            thumbnail=thumbnail,
            shows_details=shows_details,
        )

    async def media(self, which: AnyMedia) -> Media:
        """Return one of the member's media. Raises `NotFound`."""
        return await own_object(self._writes.graph, Media, self.id, id_of(which))

    async def describe(
        self,
        which: AnyMedia,
        *,
        description: str | None = None,
        focus: tuple[float, float] | None = None,
        shows_details: bool | None = None,
        thumbnail: bytes | None = None,
    ) -> Media:
        """Change the given values of the member's own media. Raises `NotFound`, and `InvalidInput` (`TooLarge`, `Unsupported`)."""
        return await media.describe(
            self._writes,
            self.id,
            id_of(which),
            description=description,
            focus=focus,
            shows_details=shows_details,
            thumbnail=thumbnail,
        )

    async def discard(self, which: AnyMedia) -> None:
        """Delete media with their files. Raises `NotFound`, and `Unfit` for media that a post or scheduled post uses."""
        await discard_media(self._writes, self.id, id_of(which))


AnyAlbum: TypeAlias = Album | Cover | int


class SeesAlbums(Seeing):
    """Albums as a viewer sees them."""

    async def albums_of(self, who: AnyMember, before: int | None = None, limit: int = feed.PAGE) -> Albums:
        """Return a page of a member's albums with photos that the viewer may see, newest first.

        Raises `NotFound`, `Gone`, and `InvalidInput` for a limit below 1.
        """
        at = before if before is not None else MAX_TIME
        return await feed.of_member(self._reads, self._viewer, await self._resolve(who), at, limit)

    async def album(self, which: AnyAlbum, offset: int = 0, limit: int = feed.PHOTOS) -> AlbumPage:
        """Return up to `limit` photos of an album in its order, from position `offset` on.

        Raises `NotFound`, `Gone`, and `InvalidInput` for a limit below 1.
        """
        return await feed.page(self._reads, self._viewer, _id(which), offset, limit)


class OwnAlbums(Owned):
    """The albums of a member."""

    async def all(self) -> list[Album]:
        """Return all albums, newest first. Raises `Unavailable`."""
        return await feed.owned(self._reads, self._owner)

    async def create(self, title: str, description: str = "") -> Album:
        """Create an empty album. Raises `InvalidInput` for too many albums, an empty title, or a text that is too long."""
        return await albums.create(self._writes, self._owner, title, description)

    async def update(self, which: AnyAlbum, *, title: str | None = None, description: str | None = None) -> Album:
        """Change the given values of an album; None keeps a value. Raises `NotFound`, and `InvalidInput` for an invalid value."""
        return await albums.update(self._writes, self._owner, _id(which), title=title, description=description)

    async def delete(self, which: AnyAlbum) -> None:
        """Delete an album; the posts stay. Raises `NotFound`."""
        await albums.delete(self._writes, self._owner, _id(which))

    async def put_in(self, which: AnyAlbum, post: AnyPost, media: Sequence[AnyMedia] = ()) -> None:
        """Append photos of the member's post to an album: the given ones, or all.

        Raises `NotFound`, and `InvalidInput` for a direct post, a post without media, or too many photos.
        """
        ids = [id_of(file) for file in media]
        await albums.put_in(self._writes, self._owner, _id(which), post_id(post), ids)

    async def take_out(self, which: AnyAlbum, *media: AnyMedia) -> None:
        """Remove photos from an album. Photos that are not in it are ignored. Raises `NotFound`."""
        await albums.take_out(self._writes, self._owner, _id(which), [id_of(file) for file in media])

    async def arrange(self, which: AnyAlbum, *media: AnyMedia) -> None:
        """Move these photos to the beginning of an album, in this order. Raises `NotFound`."""
        await albums.arrange(self._writes, self._owner, _id(which), [id_of(file) for file in media])


def _id(which: AnyAlbum) -> int:
    return which.album.id if isinstance(which, Cover) else which if isinstance(which, int) else which.id

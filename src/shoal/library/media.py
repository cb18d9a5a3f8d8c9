"""Pictures, videos and sounds of a member, to be used in posts."""

from __future__ import annotations

from shoal.commands import media
from shoal.commands.scheduled_posts import discard_media
from shoal.core.model import Media
from shoal.library.acting import Acting
from shoal.library.arguments import AnyMedia, id_of


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
        return await media.own_media(self._writes, self.id, id_of(which))

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

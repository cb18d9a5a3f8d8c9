"""Pictures, videos and sounds of a member, to be used in posts.

Made from `shoal.library.media` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from shoal.core.model import Media
from shoal.library import media as awaited
from shoal.library.acting import AnyMedia
from shoal.sync.calling import Acting


class Uploads(Acting):
    """The media of one member: upload, describe, delete."""

    _awaited: awaited.Uploads

    def upload(
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
        return self._loop.call(self._awaited.upload(file, description=description, focus=focus, thumbnail=thumbnail))

    def media(self, which: AnyMedia) -> Media:
        """Return one of the member's media as it is now. Raises `NotFound`."""
        return self._loop.call(self._awaited.media(which))

    def describe(
        self,
        which: AnyMedia,
        *,
        description: str | None = None,
        focus: tuple[float, float] | None = None,
        thumbnail: bytes | None = None,
    ) -> Media:
        """Change values of one of the member's media. Raises `NotFound`, and `InvalidInput` (`TooLarge`, `Unsupported`)."""
        return self._loop.call(self._awaited.describe(which, description=description, focus=focus, thumbnail=thumbnail))

    def discard(self, which: AnyMedia) -> None:
        """Delete media with their files. Raises `NotFound`, and `Unfit` for media that a post has or is to have."""
        self._loop.call(self._awaited.discard(which))

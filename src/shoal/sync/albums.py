"""Albums of photos: a member's own, and those of others as a viewer may see them.

Made from `shoal.library.media` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.model import Album
from shoal.library import media as awaited
from shoal.library.acting import AnyMedia, AnyMember, AnyPost
from shoal.library.media import AnyAlbum
from shoal.queries import albums as feed
from shoal.queries.albums import AlbumPage, Albums
from shoal.sync.calling import Calling


class SeesAlbums(Calling):
    """Albums as a viewer sees them."""

    _awaited: awaited.SeesAlbums

    def albums_of(self, who: AnyMember, before: int | None = None, limit: int = feed.PAGE) -> Albums:
        """A page of a member's albums in which the viewer may see something, newest first.

        Raises `NotFound`, `Gone`, and `InvalidInput` for a limit below 1.
        """
        return self._loop.call(self._awaited.albums_of(who, before, limit))

    def album(self, which: AnyAlbum, offset: int = 0, limit: int = feed.PHOTOS) -> AlbumPage:
        """A part of an album, in its order. Raises `NotFound`, `Gone`, and `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.album(which, offset, limit))


class OwnAlbums(Calling):
    """The albums of a member."""

    _awaited: awaited.OwnAlbums

    def all(self) -> list[Album]:
        """All albums, newest first. Raises `Unavailable`."""
        return self._loop.call(self._awaited.all())

    def create(self, title: str, description: str = "") -> Album:
        """Make an album without photos. Raises `InvalidInput` for one too many, an empty title, a text that is too long."""
        return self._loop.call(self._awaited.create(title, description))

    def update(self, which: AnyAlbum, *, title: str | None = None, description: str | None = None) -> Album:
        """Change the given values of an album. Raises `NotFound`, and `InvalidInput` as `create`."""
        return self._loop.call(self._awaited.update(which, title=title, description=description))

    def delete(self, which: AnyAlbum) -> None:
        """Delete an album; the posts stay. Raises `NotFound`."""
        self._loop.call(self._awaited.delete(which))

    def put_in(self, which: AnyAlbum, post: AnyPost, media: Sequence[AnyMedia] = ()) -> None:
        """Put photos of an own post at the end of an album: those named, or all.

        Raises `NotFound`, and `InvalidInput` for a direct post, a post without media, and one photo too many.
        """
        self._loop.call(self._awaited.put_in(which, post, media))

    def take_out(self, which: AnyAlbum, *media: AnyMedia) -> None:
        """Take photos out of an album; those that are not in it do no harm. Raises `NotFound`."""
        self._loop.call(self._awaited.take_out(which, *media))

    def arrange(self, which: AnyAlbum, *media: AnyMedia) -> None:
        """Put photos of an album first, in this order; the others follow as they stood. Raises `NotFound`."""
        self._loop.call(self._awaited.arrange(which, *media))

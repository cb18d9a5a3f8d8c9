"""JSON shapes of albums."""

from __future__ import annotations

import msgspec

from shoal.api.entities.addresses import Addresses
from shoal.api.entities.media import MediaAttachment
from shoal.api.entities.media_presenter import attachment
from shoal.api.entities.presenter import moment
from shoal.api.entities.statuses import Account, Status
from shoal.core.ids import milliseconds_of
from shoal.queries.albums import Cover


class Album(msgspec.Struct, kw_only=True):
    """An album."""

    id: str
    account_id: str
    title: str
    description: str
    created_at: str
    photos_count: int
    """Photos that the caller may see."""
    covers: list[MediaAttachment]
    """The first few photos."""


class AlbumPhoto(msgspec.Struct):
    """A photo in an album, and the status that it is from."""

    media_attachment: MediaAttachment
    status: Status


class AlbumWithPhotos(Album, kw_only=True):
    """An album with a part of its photos, in its order."""

    account: Account
    photos: list[AlbumPhoto]


def album_of(cover: Cover, at: Addresses) -> Album:
    """Return an album as it stands in a list."""
    album = cover.album
    return Album(
        id=str(album.id),
        account_id=str(album.owner_id),
        title=album.title,
        description=album.description,
        created_at=moment(milliseconds_of(album.id)),
        photos_count=cover.photos,
        covers=[attachment(media, at) for media in cover.first],
    )

"""Albums: ordered photos of an account's own statuses. Mastodon has no equivalent."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.commands import albums
from shoal.core.ids import milliseconds_of
from shoal.http.pagination import page_size
from shoal.http.params import Id, Limit
from shoal.http.responses import raw
from shoal.mastodon_api.context import Context, One, PageOf, Router, actor, cursor_of, offset_page, paged
from shoal.mastodon_api.entities.serializers import Addresses, attachment, moment
from shoal.mastodon_api.entities.statuses import Account, MediaAttachment, Status
from shoal.queries import albums as queries
from shoal.queries.albums import Cover

router = Router()


class Album(msgspec.Struct, kw_only=True):
    id: str
    account_id: str
    title: str
    description: str
    created_at: str
    photos_count: int
    """The number of photos that the caller may see."""
    covers: list[MediaAttachment]
    """The first few photos."""


class AlbumPhoto(msgspec.Struct):
    """A photo in an album, and its status."""

    media_attachment: MediaAttachment
    status: Status


class AlbumWithPhotos(Album, kw_only=True):
    """An album with a page of its photos, in the order of the album."""

    account: Account
    photos: list[AlbumPhoto]


def album_of(cover: Cover, at: Addresses) -> Album:
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


_MOST_OFFSET = 1_000

_Title = Annotated[str, Meta(max_length=20_000)]
_Description = Annotated[str, Meta(max_length=20_000)]
_Media = Annotated[tuple[Id, ...], Meta(max_length=200)]


class NewAlbum(msgspec.Struct, frozen=True, kw_only=True):
    title: _Title = ""
    description: _Description = ""


class AlbumChanges(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    title: _Title | None = None
    description: _Description | None = None


class PartOfAlbum(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    offset: Limit = Limit(0)
    limit: Limit = Limit(0)


class NewPhotos(msgspec.Struct, frozen=True, kw_only=True):
    """Media of one of the caller's statuses to add to an album; all of its media if none are listed."""

    id: Id
    status_id: Id
    media_ids: _Media = ()


class SomePhotos(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    media_ids: _Media = ()


@router.get("/api/shoal/v1/accounts/{id}/albums", auth="optional", scope="read:accounts", answer=list[Album])
async def list_albums(context: Context, params: PageOf) -> object:
    """List the albums of an account, newest first.

    An album without a photo that the caller may see is listed only for its owner.
    """
    cursor = cursor_of(params, queries.PAGE, 40)
    found = await queries.of_member(context.app.reads, context.caller.member_id, params.id, cursor.before, cursor.limit)
    body = [album_of(cover, context.app.at) for cover in found.covers]
    return paged(context, body, [cover.album.id for cover in found.covers], found.next, cursor)


@router.get("/api/shoal/v1/albums/{id}", auth="optional", scope="read:statuses", answer=AlbumWithPhotos)
async def get_album(context: Context, params: PartOfAlbum) -> object:
    """Show an album, with a page of its photos in their order."""
    app_context, viewer = context.app, context.caller.member_id
    limit, offset = page_size(params.limit, queries.PHOTOS, 80), min(max(0, params.offset), _MOST_OFFSET)
    found = await queries.page(app_context.reads, viewer, params.id, offset, limit)
    statuses = await app_context.present.each(
        viewer, list({photo.entry.id: photo.entry for photo in found.photos}.values())
    )
    made = AlbumWithPhotos(
        **msgspec.structs.asdict(album_of(queries.Cover(found.album, found.total), app_context.at)),
        account=raw(app_context.present.account(found.owner)),
        photos=[
            AlbumPhoto(attachment(photo.media, app_context.at), raw(statuses[photo.entry.id])) for photo in found.photos
        ],
    )
    return offset_page(context, made, offset, limit, more=found.next is not None)


@router.post("/api/shoal/v1/albums", scope="write:accounts", answer=Album)
async def create(context: Context, params: NewAlbum) -> object:
    """Create an empty album."""
    made = await albums.create(context.app.writes, actor(context), params.title, params.description)
    return album_of(queries.Cover(made, 0), context.app.at)


@router.put("/api/shoal/v1/albums/{id}", scope="write:accounts", answer=Album)
async def update(context: Context, params: AlbumChanges) -> object:
    """Change the title or the description of one of the caller's albums."""
    await albums.update(
        context.app.writes, actor(context), params.id, title=params.title, description=params.description
    )
    return await _own(context, params.id)


@router.delete("/api/shoal/v1/albums/{id}", scope="write:accounts", answer=dict)
async def delete(context: Context, params: One) -> None:
    """Delete one of the caller's albums. Its statuses are not deleted."""
    await albums.delete(context.app.writes, actor(context), params.id)


@router.post("/api/shoal/v1/albums/{id}/photos", scope="write:accounts", answer=Album)
async def add_photos(context: Context, params: NewPhotos) -> object:
    """Append media of one of the caller's statuses to one of their albums."""
    await albums.put_in(context.app.writes, actor(context), params.id, params.status_id, params.media_ids)
    return await _own(context, params.id)


@router.delete("/api/shoal/v1/albums/{id}/photos", scope="write:accounts", answer=Album)
async def remove_photos(context: Context, params: SomePhotos) -> object:
    """Remove media from one of the caller's albums."""
    await albums.take_out(context.app.writes, actor(context), params.id, params.media_ids)
    return await _own(context, params.id)


@router.put("/api/shoal/v1/albums/{id}/order", scope="write:accounts", answer=Album)
async def reorder_photos(context: Context, params: SomePhotos) -> object:
    """Move photos to the start of one of the caller's albums, in the order of the request. The other photos keep their order."""
    await albums.arrange(context.app.writes, actor(context), params.id, params.media_ids)
    return await _own(context, params.id)


async def _own(context: Context, album_id: int) -> Album:
    found = await queries.page(context.app.reads, actor(context), album_id, limit=4)
    first = tuple(photo.media for photo in found.photos if photo.media.preview_key)
    return album_of(queries.Cover(found.album, found.total, first), context.app.at)

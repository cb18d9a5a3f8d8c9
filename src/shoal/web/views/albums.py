"""Albums as pages show them."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from shoal.core.model import Album, Member
from shoal.queries.albums import AlbumPage, AlbumPhoto, Cover
from shoal.web.views.people import Face, face_of
from shoal.web.views.posts import Photo, PostView, photo_of, post_of
from shoal.web.visit import Visit


class CoverView(msgspec.Struct, frozen=True):
    """An album in a list."""

    id: int
    title: str
    path: str
    number: str
    """How many photos, in words."""
    first: tuple[Photo, ...]
    covered: bool
    here: bool = False
    """Whether it has what the page is about."""


class PhotoInAlbum(msgspec.Struct, frozen=True):
    """A photo of an album, and where its post is."""

    photo: Photo
    post: PostView
    path: str
    covered: bool


class AlbumView(msgspec.Struct, frozen=True):
    """An album with a part of its photos."""

    id: int
    title: str
    description: str
    path: str
    owner: Face
    mine: bool
    number: str
    made: str
    photos: tuple[PhotoInAlbum, ...]


def album_path(visit: Visit, member: Member, album: Album) -> str:
    """Return the address of an album."""
    return visit.url(f"/@{member.name}/albums/{album.id}")


def cover_of(visit: Visit, member: Member, cover: Cover, having: Collection[int] = ()) -> CoverView:
    """Return an album in a list. `having`: ids of those that have what the page is about."""
    return CoverView(
        cover.album.id,
        cover.album.title,
        album_path(visit, member, cover.album),
        number_of(visit, cover.photos),
        tuple(photo_of(visit, media) for media in cover.first),
        cover.covered,
        cover.album.id in having,
    )


def number_of(visit: Visit, n: int) -> str:
    """Return a number of photos in words."""
    return visit.words.plural("%(n)s photo", "%(n)s photos", n) % {"n": visit.words.number(n)}


def album_of(visit: Visit, found: AlbumPage) -> AlbumView:
    """Return an album with a part of its photos."""
    album, owner = found.album, found.owner.member
    return AlbumView(
        album.id,
        album.title,
        album.description,
        album_path(visit, owner, album),
        face_of(visit, owner),
        owner.id == visit.viewer_id,
        number_of(visit, found.total),
        visit.words.day(album.created_at),
        tuple(_photo(visit, one) for one in found.photos),
    )


def _photo(visit: Visit, one: AlbumPhoto) -> PhotoInAlbum:
    post, photo = post_of(visit, one.entry), photo_of(visit, one.media)
    return PhotoInAlbum(photo, post, post.path, post.covered or bool(post.spoiler))

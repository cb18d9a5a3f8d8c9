"""Albums of a member: list, view, create and edit; add, remove and reorder their photos."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import albums
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.model import Album, Member, Visibility
from shoal.core.text import isolated
from shoal.graph.access import own_object, own_post
from shoal.graph.contract import MAX_TIME
from shoal.http.params import Id
from shoal.queries import albums as feed
from shoal.queries import posts as post_queries
from shoal.queries.albums import AlbumPage, Cover
from shoal.web import routing
from shoal.web.form_errors import error_text
from shoal.web.photo_grid import GridPhoto, Listing, grid_photo, in_rows
from shoal.web.profiles import head, member_of
from shoal.web.rendering import HandlePath, listing_page, next_of, page, part
from shoal.web.request_context import Form, IdForm, IdPath, PageContext, Text
from shoal.web.view_models import Face, Photo, entry_with_id, face_of, photo_of, posts_of


class CoverView(msgspec.Struct, frozen=True):
    id: int
    title: str
    path: str
    number: str
    first: tuple[Photo, ...]
    covered: bool
    here: bool = False
    """Whether the album contains a photo of the post that the page is about."""


class AlbumView(msgspec.Struct, frozen=True):
    id: int
    title: str
    description: str
    path: str
    owner: Face
    mine: bool
    number: str
    made: str
    photos: tuple[GridPhoto, ...]


def _cover(ctx: PageContext, member: Member, cover: Cover, having: Collection[int] = ()) -> CoverView:
    """Return an album as an item of a list. `having` has the ids of the albums that contain the page's post."""
    return CoverView(
        cover.album.id,
        cover.album.title,
        ctx.url(f"/@{member.name}/albums/{cover.album.id}"),
        ctx.words.counted("%(n)s photo", "%(n)s photos", cover.photos),
        tuple(photo_of(ctx, media) for media in cover.first),
        cover.covered,
        cover.album.id in having,
    )


def _album(ctx: PageContext, found: AlbumPage) -> AlbumView:
    album, owner = found.album, found.owner.member
    return AlbumView(
        album.id,
        album.title,
        album.description,
        ctx.url(f"/@{owner.name}/albums/{album.id}"),
        face_of(ctx, owner),
        owner.id == ctx.viewer_id,
        ctx.words.counted("%(n)s photo", "%(n)s photos", found.total),
        ctx.words.day(album.created_at),
        tuple(grid_photo(ctx, photo.entry, photo.media) for photo in found.photos),
    )


class AlbumPath(HandlePath, frozen=True, kw_only=True):
    id: Id
    offset: Annotated[int, Meta(ge=0, le=100_000)] = 0


class CreateAlbumForm(Form, frozen=True, kw_only=True):
    title: Text = ""
    description: Text = ""


async def several(ctx: PageContext, path: HandlePath) -> Response:
    member = await member_of(ctx, path.handle)
    found = await feed.of_member(ctx.reads, ctx.viewer_id, member.id, path.before or MAX_TIME)
    covers = [_cover(ctx, member, cover) for cover in found.covers]
    following = next_of(ctx, f"/@{member.name}/albums", found.next)
    if ctx.partial:
        return part(ctx, "albums", albums=covers, next=following)
    return await _albums(ctx, member, albums=covers, next=following)


async def one(ctx: PageContext, path: AlbumPath) -> Response:
    shown, listing_ = await _opened(ctx, path)
    title = f"{isolated(shown.title)} · {shown.owner.shown}"
    return await listing_page(ctx, "album", listing_, title=title, album=shown)


async def listing(ctx: PageContext, path: AlbumPath) -> Listing:
    """Return a page of the photos of an album."""
    return (await _opened(ctx, path))[1]


async def _opened(ctx: PageContext, path: AlbumPath) -> tuple[AlbumView, Listing]:
    found = await _album_at(ctx, path)
    shown = _album(ctx, found)
    following = ctx.url(f"/@{path.handle}/albums/{path.id}", offset=found.next) if found.next else ""
    return shown, Listing((), following, in_rows(shown.photos))


async def create(ctx: PageContext, asked: CreateAlbumForm) -> Response:
    member = ctx.checked(asked)
    try:
        made = await albums.create(ctx.writes, member.id, asked.title, asked.description)
    except InvalidInput as error:
        found = await feed.of_member(ctx.reads, member.id, member.id, MAX_TIME)
        covers = [_cover(ctx, member, cover) for cover in found.covers]
        return await _albums(ctx, member, albums=covers, next="", asked=asked, wrong=error)
    return ctx.go(f"/@{member.name}/albums/{made.id}/add")


async def _album_at(ctx: PageContext, path: AlbumPath, limit: int = feed.PHOTOS) -> AlbumPage:
    """Return a page of the album in the URL.

    Raises `NotFound`, also if the album belongs to another member than the member in the URL.
    """
    found = await feed.page(ctx.reads, ctx.viewer_id, path.id, path.offset, limit)
    if found.owner.member.name != path.handle.lower():
        raise NotFound("There is no such album")
    return found


async def _albums(
    ctx: PageContext,
    member: Member,
    *,
    asked: CreateAlbumForm | None = None,
    wrong: InvalidInput | None = None,
    **views: Any,
) -> Response:
    shown = await head(ctx, member)
    return await page(
        ctx,
        "albums",
        title=ctx.words.text("Albums of %(name)s") % {"name": shown.face.shown},
        head=shown,
        tab="albums",
        asked=asked or CreateAlbumForm(),
        wrong=error_text(ctx.words, wrong),
        field=wrong.field if wrong else "",
        **views,
    )


_ALL = 1_000
_OFFERED = 30
_MOST_CHOSEN = 200
_Do = Annotated[str, Meta(max_length=60)]
_Choice = Annotated[str, Meta(max_length=60)]
"""A photo as `post:media`: the id of its post, and the id of its file."""


class AlbumForm(IdForm, frozen=True, kw_only=True):
    """A change to an album.

    `do` is `keep` (save title and description) or `delete`. For a photo, it is `earlier`, `later`, `first` or `out`,
    followed by the photo's id.
    """

    do: _Do
    title: Text = ""
    description: Text = ""


class PhotosForm(IdForm, frozen=True, kw_only=True):
    photos: Annotated[tuple[_Choice, ...], Meta(max_length=_MOST_CHOSEN)] = ()


class OrderForm(IdForm, frozen=True, kw_only=True):
    media: Annotated[tuple[Id, ...], Meta(max_length=_ALL)] = ()


class PostAlbumsForm(IdForm, frozen=True, kw_only=True):
    do: _Do
    media: Annotated[tuple[Id, ...], Meta(max_length=100)] = ()
    title: Text = ""


async def edit(
    ctx: PageContext, path: AlbumPath, asked: AlbumForm | None = None, wrong: InvalidInput | None = None
) -> Response:
    await own_object(ctx.graph, Album, ctx.member.id, path.id)
    album = _album(ctx, await _album_at(ctx, path, _ALL))
    return await page(
        ctx,
        "album_edit",
        title=ctx.words.text("Edit %(title)s") % {"title": isolated(album.title)},
        album=album,
        typed=(asked.title, asked.description) if asked else (album.title, album.description),
        wrong=error_text(ctx.words, wrong),
        field=wrong.field if wrong else "",
    )


async def change(ctx: PageContext, asked: AlbumForm) -> Response:
    member, writes = ctx.checked(asked), ctx.writes
    verb, _, id_ = asked.do.partition(":")
    path = AlbumPath(handle=member.name, id=asked.id)
    if verb == "delete":
        await albums.delete(writes, member.id, asked.id)
        return ctx.go(f"/@{member.name}/albums")
    if verb == "keep":
        try:
            await albums.update(writes, member.id, asked.id, title=asked.title, description=asked.description)
        except InvalidInput as error:
            return await edit(ctx, path, asked, error)
        return ctx.go(f"/@{member.name}/albums/{asked.id}")
    if not id_.isdecimal():
        raise InvalidInput(
            "do: must be keep, delete, earlier:ID, later:ID, first:ID or out:ID, with the ID of a photo", field="do"
        )
    if verb == "out":
        await albums.take_out(writes, member.id, asked.id, (int(id_),))
    else:
        found = await _album_at(ctx, path, _ALL)
        order = _moved([photo.media.id for photo in found.photos], int(id_), verb)
        await albums.arrange(writes, member.id, asked.id, order)
    return ctx.go(f"/@{member.name}/albums/{asked.id}/edit")


def _moved(order: Sequence[int], id_: int, verb: str) -> list[int]:
    """Return the order with one item moved: by one position (`earlier` or `later`), or to the start (`first`)."""
    if id_ not in order:
        return list(order)
    at = order.index(id_)
    to = {"earlier": at - 1, "later": at + 1, "first": 0}.get(verb)
    if to is None:
        raise InvalidInput(
            "do: must be keep, delete, earlier:ID, later:ID, first:ID or out:ID, with the ID of a photo", field="do"
        )
    rest = [other for other in order if other != id_]
    rest.insert(max(to, 0), id_)
    return rest


async def arrange(ctx: PageContext, asked: OrderForm) -> Response:
    """Save the order of the photos in a member's own album, for the drag-and-drop script."""
    member = ctx.checked(asked)
    await albums.arrange(ctx.writes, member.id, asked.id, asked.media)
    if ctx.partial:
        return Response(status_code=204)
    return ctx.go(f"/@{member.name}/albums/{asked.id}/edit")


async def offer(ctx: PageContext, path: AlbumPath) -> Response:
    """Show the photos that the member can add to an album: their own, newest first."""
    member = ctx.member
    reads = ctx.reads
    album = await own_object(ctx.graph, Album, member.id, path.id)
    query = post_queries.MemberFeedQuery(only_media=True, no_shares=True)
    found = await post_queries.authored_page(reads, member.id, member.id, path.cursor(_OFFERED), query)
    whole = await feed.page(reads, member.id, album.id, 0, _ALL)
    there = {photo.media.id for photo in whole.photos}
    posts = [post for post in await posts_of(ctx, found.entries) if post.visibility != Visibility.DIRECT]
    base = f"/@{member.name}/albums/{album.id}/add"
    following = next_of(ctx, base, found.next)
    if ctx.partial:
        return part(ctx, "choose_photos", posts=posts, there=there, next=following)
    shown = _album(ctx, whole)
    title = ctx.words.text("Photos for %(title)s") % {"title": isolated(shown.title)}
    return await page(ctx, "album_add", title=title, album=shown, posts=posts, there=there, next=following)


async def put_in(ctx: PageContext, asked: PhotosForm) -> Response:
    member = ctx.checked(asked)
    chosen: dict[int, list[int]] = {}
    for photo in asked.photos:
        post, _, media = photo.partition(":")
        if not (post.isdecimal() and media.isdecimal()):
            raise InvalidInput("photos: each value must name a post and one of its photos", field="photos")
        chosen.setdefault(int(post), []).append(int(media))
    for post_id, media_ids in chosen.items():
        await albums.put_in(ctx.writes, member.id, asked.id, post_id, media_ids)
    return ctx.go(f"/@{member.name}/albums/{asked.id}")


async def of_post(ctx: PageContext, path: IdPath, typed: str = "", wrong: InvalidInput | None = None) -> Response:
    """Show the form that adds photos of a post to albums of the member, or removes them from albums."""
    member, reads = ctx.member, ctx.reads
    entry = await entry_with_id(ctx, path.id)
    if entry.author.member.id != member.id or not entry.post.media:
        raise NotFound("There is no such post of yours")
    found = await feed.of_member(reads, member.id, member.id, MAX_TIME, ctx.limits.albums)
    having = await feed.with_media(reads, member.id, entry.post.media)
    (post,) = await posts_of(ctx, [entry])
    return await page(
        ctx,
        "post_albums",
        title=ctx.words.text("Albums"),
        post=post,
        albums=[_cover(ctx, member, cover, having) for cover in found.covers],
        typed=typed,
        wrong=error_text(ctx.words, wrong),
    )


async def put_post(ctx: PageContext, asked: PostAlbumsForm) -> Response:
    member = ctx.checked(asked)
    post = await own_post(ctx.graph, member.id, asked.id)
    media = asked.media or post.media
    try:
        await _put_or_take(ctx, member.id, post.id, media, asked)
    except InvalidInput as error:
        return await of_post(ctx, IdPath(asked.id), asked.title, error)
    return ctx.go(f"/posts/{post.id}/albums")


async def _put_or_take(
    ctx: PageContext, member_id: int, post_id: int, media: Sequence[int], asked: PostAlbumsForm
) -> None:
    writes = ctx.writes
    verb, _, album_id = asked.do.partition(":")
    if verb == "new":
        made = await albums.create(writes, member_id, asked.title)
        await albums.put_in(writes, member_id, made.id, post_id, media)
    elif verb == "put" and album_id.isdecimal():
        await albums.put_in(writes, member_id, int(album_id), post_id, media)
    elif verb == "take" and album_id.isdecimal():
        await albums.take_out(writes, member_id, int(album_id), media)
    else:
        raise InvalidInput("do: must be new, or an album id after put or take, as in put:5", field="do")


ROUTES = (
    routing.page("/@{handle}/albums", several, HandlePath),
    routing.page("/@{handle}/albums/{id}", one, AlbumPath),
    routing.form("/albums", create, CreateAlbumForm),
    routing.page("/@{handle}/albums/{id}/edit", edit, AlbumPath),
    routing.page("/@{handle}/albums/{id}/add", offer, AlbumPath),
    routing.form("/albums/{id}", change, AlbumForm),
    routing.form("/albums/{id}/photos", put_in, PhotosForm),
    routing.form("/albums/{id}/order", arrange, OrderForm),
    routing.page("/posts/{id}/albums", of_post, IdPath),
    routing.form("/posts/{id}/albums", put_post, PostAlbumsForm),
)

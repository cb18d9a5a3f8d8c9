"""Albums of a member: all of them, and one with its photos."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import albums
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.model import Member
from shoal.core.text import isolated
from shoal.graph.contract import MAX_TIME
from shoal.http.convert import Id
from shoal.queries import albums as feed
from shoal.queries.albums import AlbumPage
from shoal.web import rows
from shoal.web.pages.profile import HandlePath, head, member_of
from shoal.web.paging import next_of
from shoal.web.rendering import page, part
from shoal.web.views.albums import album_of, cover_of
from shoal.web.views.errors.refusals import told
from shoal.web.visit import Form, Visit

_Text = Annotated[str, Meta(max_length=20_000)]
_Offset = Annotated[int, Meta(ge=0, le=100_000)]


class AlbumPath(HandlePath, frozen=True, kw_only=True):
    """An album of a member, and where in it a page begins."""

    id: Id
    offset: _Offset = 0


class CreateAlbumForm(Form, frozen=True, kw_only=True):
    """An album to be made."""

    title: _Text = ""
    description: _Text = ""


async def several(visit: Visit, path: HandlePath) -> Response:
    """A page of a member's albums."""
    member = await member_of(visit, path.handle)
    found = await feed.of_member(visit.front.reads, visit.viewer_id, member.id, path.before or MAX_TIME)
    covers = [cover_of(visit, member, one) for one in found.covers]
    following = next_of(visit, f"/@{member.name}/albums", found.next)
    if visit.partial:
        return part(visit, "albums", albums=covers, next=following)
    return await _albums(visit, member, albums=covers, next=following)


async def one(visit: Visit, path: AlbumPath) -> Response:
    """An album, with a part of its photos."""
    found = await album_at(visit, path)
    shown = album_of(visit, found)
    following = visit.url(f"/@{path.handle}/albums/{path.id}", offset=found.next) if found.next else ""
    if visit.partial:
        return part(visit, "album_photos", album=shown, next=following)
    title = f"{isolated(shown.title)} · {shown.owner.shown}"
    return await page(visit, "album", title=title, album=shown, next=following)


async def create(visit: Visit, asked: CreateAlbumForm) -> Response:
    """Make an album, and go on to the choice of its photos."""
    member = visit.checked(asked)
    try:
        made = await albums.create(visit.front.writes, member.id, asked.title, asked.description)
    except InvalidInput as error:
        found = await feed.of_member(visit.front.reads, member.id, member.id, MAX_TIME)
        covers = [cover_of(visit, member, one) for one in found.covers]
        return await _albums(visit, member, albums=covers, next="", asked=asked, wrong=error)
    return visit.go(f"/@{member.name}/albums/{made.id}/add")


async def album_at(visit: Visit, path: AlbumPath, limit: int = feed.PHOTOS) -> AlbumPage:
    """Return a part of the album at a path. Raises `NotFound`, also for one that is somebody else's."""
    found = await feed.page(visit.front.reads, visit.viewer_id, path.id, path.offset, limit)
    if found.owner.member.name != path.handle.lower():
        raise NotFound("There is no such album")
    return found


async def _albums(
    visit: Visit,
    member: Member,
    *,
    asked: CreateAlbumForm | None = None,
    wrong: InvalidInput | None = None,
    **views: object,
) -> Response:
    shown = await head(visit, member)
    return await page(
        visit,
        "albums",
        status=422 if wrong else 200,
        title=visit.words.text("Albums of %(name)s") % {"name": shown.face.shown},
        head=shown,
        tab="albums",
        asked=asked or CreateAlbumForm(),
        wrong=told(visit.words, wrong),
        field=wrong.field if wrong else "",
        limits=visit.front.writes.limits,
        **views,
    )


ROUTES = (
    rows.page("/@{handle}/albums", several, HandlePath),
    rows.page("/@{handle}/albums/{id}", one, AlbumPath),
    rows.form("/albums", create, CreateAlbumForm),
)

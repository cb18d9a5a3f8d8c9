"""The archive of another network, which becomes the member's own posts: sent, looked at, and then taken in."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import msgspec
from starlette.responses import Response

from shoal.commands.audit import note_alone
from shoal.core.audit import AuditVerb, member_target
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.model import Visibility
from shoal.http.convert import Upload
from shoal.http.routes import Route
from shoal.ops.archives.shelf import ArchiveShelf
from shoal.settings import Settings
from shoal.web import rows
from shoal.web.pages.settings.frame import settings_page
from shoal.web.rendering import part
from shoal.web.views.errors.refusals import RIGHT, Wrong, wrong_of
from shoal.web.views.settings.archives import archive_view, importing_view
from shoal.web.visit import Form, Visit

_FORM = 1 << 16
_NAME = 100
"""Characters of the name of a file that are kept."""


class ImportQuery(msgspec.Struct, frozen=True):
    """The page, or only how far it is."""

    only: Literal["", "state"] = ""


class ArchiveForm(Form, frozen=True, kw_only=True):
    """An archive."""

    file: Upload | None = None


class TakeInForm(Form, frozen=True, kw_only=True):
    """Whom the posts of an archive are for at the most, and which archive it is."""

    token: Annotated[str, msgspec.Meta(max_length=16)] = ""
    widest: Literal["public", "unlisted", "followers"] = "public"


async def show(visit: Visit, query: ImportQuery) -> Response:
    """The form for an archive, or how far the one is that was sent."""
    if query.only:
        state = await asyncio.to_thread(_shelf(visit).state, visit.member.id)
        view = importing_view(visit, state) if state is not None else None
        if view is not None:
            return part(visit, "importing", importing=view)
        # It is another page now.
        return Response(status_code=204, headers={"HX-Redirect": visit.url("/settings/import")})
    return await _page(visit)


async def send(visit: Visit, asked: ArchiveForm) -> Response:
    """Keep an archive, and have it looked at."""
    member, file = visit.checked(asked), asked.file
    if file is None:
        return await _page(visit, {"file": visit.words.text("Please choose a file.")})
    name = file.filename.replace("\\", "/").rpartition("/")[2][:_NAME]
    try:
        await asyncio.to_thread(_shelf(visit).put, member.id, name, file.size, file.copy_to)
    except InvalidInput as error:
        return await _page(visit, wrong_of(visit.words, error))
    finally:
        file.close()
    return visit.go("/settings/import")


async def take(visit: Visit, asked: TakeInForm) -> Response:
    """Have an archive taken in that was looked at."""
    member, shelf = visit.checked(asked), _shelf(visit)
    state = await asyncio.to_thread(shelf.state, member.id)
    if state is not None and (state.phase, state.token) == ("looked", asked.token):
        await note_alone(visit.front.writes, AuditVerb.ARCHIVE_IMPORTED, member_target(member))
        await asyncio.to_thread(shelf.begin, member.id, state.token, Visibility(asked.widest))
    return visit.go("/settings/import")


async def discard(visit: Visit, asked: Form) -> Response:
    """Forget an archive, or the report of one; one that is being taken in stops."""
    member = visit.checked(asked)
    await asyncio.to_thread(_shelf(visit).discard, member.id)
    return visit.go("/settings/import")


async def _page(visit: Visit, wrong: Wrong = RIGHT) -> Response:
    member, shelf = visit.member, _shelf(visit)
    state = await asyncio.to_thread(shelf.state, member.id)
    view = archive_view(visit, state, shelf.most_bytes)
    return await settings_page(visit, "import", wrong=wrong, archive=view, importing=view.importing)


def _shelf(visit: Visit) -> ArchiveShelf:
    shelf = visit.front.archives
    if shelf is None or not shelf.most_bytes:
        raise NotFound("Archives are not taken in here")
    return shelf


def routes(settings: Settings) -> tuple[Route, ...]:
    """Return the rows. The settings say how large an archive may be."""
    return (
        rows.page("/settings/import", show, ImportQuery),
        rows.form(
            "/settings/import",
            send,
            ArchiveForm,
            limit_class="archives",
            max_body=settings.max_archive_bytes + _FORM,
            on_disk=True,
        ),
        rows.form("/settings/import/take", take, TakeInForm),
        rows.form("/settings/import/discard", discard, Form),
    )

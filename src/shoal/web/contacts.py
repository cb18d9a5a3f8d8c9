"""Find members by the follow list of another network. The uploaded list is not stored."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from msgspec import Meta
from starlette.responses import Response

from shoal.core.errors import InvalidInput
from shoal.core.handles import MAX_ARCHIVE_BYTES, MOST_HANDLES
from shoal.http.params import Id, Upload
from shoal.queries.members import ContactMatch, ContactsFound, followees_by_handle, followees_in_archive
from shoal.web import routing
from shoal.web.form_errors import RIGHT, Wrong, wrong_of
from shoal.web.relationships import follow_all
from shoal.web.request_context import Form, PageContext
from shoal.web.settings_layout import NOT_SAVED, SettingsQuery, saved_at, settings_page
from shoal.web.view_models import Face, face_of


class ContactView(NamedTuple):
    face: Face
    words: str
    """A phrase that says why the member was found."""
    chosen: bool
    """Whether the member is selected at first. A member found only by a matching name is not selected."""
    known: bool


def _match(ctx: PageContext, found: ContactMatch) -> ContactView:
    _ = ctx.words.text
    if found.following:
        words = _("Already following")
    elif found.requested:
        words = _("Follow requested")
    elif found.match == "name":
        words = _("Same name as %(account)s, possibly someone else")
    else:
        words = _("This person says that they are %(account)s on another network")
    face, known = face_of(ctx, found.profile.member), found.following or found.requested
    return ContactView(face, words % {"account": found.given}, found.match != "name", known)


_MOST_AT_ONCE = 500


class FollowListForm(Form, frozen=True, kw_only=True):
    file: Upload | None = None
    handles: Annotated[str, Meta(max_length=100_000)] = ""


class ChosenForm(Form, frozen=True, kw_only=True):
    ids: Annotated[tuple[Id, ...], Meta(max_length=_MOST_AT_ONCE)] = ()


async def show(ctx: PageContext, query: SettingsQuery = NOT_SAVED, wrong: Wrong = RIGHT, handles: str = "") -> Response:
    return await settings_page(ctx, "contacts", wrong=wrong, saved=query.saved, handles=handles)


async def look(ctx: PageContext, asked: FollowListForm) -> Response:
    """Show the members of this network who match accounts in the uploaded follow list."""
    ctx.checked(asked)
    try:
        found = await _found(ctx, asked)
    except InvalidInput as error:
        return await show(ctx, wrong=wrong_of(ctx.words, error), handles=asked.handles)
    words = ctx.words
    unreadable = words.counted("%(n)s entry is not an account.", "%(n)s entries are not accounts.", found.unreadable)
    return await settings_page(
        ctx,
        "contacts",
        template="contacts_found",
        matches=[_match(ctx, match) for match in found.matches],
        asked=words.counted("Searched for %(n)s account.", "Searched for %(n)s accounts.", found.asked),
        unreadable=unreadable if found.unreadable else "",
        more=found.more,
    )


async def follow(ctx: PageContext, asked: ChosenForm) -> Response:
    ctx.checked(asked)
    await follow_all(ctx, asked.ids)
    return saved_at(ctx, "contacts")


async def _found(ctx: PageContext, asked: FollowListForm) -> ContactsFound:
    reads, viewer = ctx.reads, ctx.member.id
    if asked.file is not None:
        archive = asked.file.data
        asked.file.close()
        return await followees_in_archive(reads, viewer, archive)
    handles = [line.strip() for line in asked.handles.replace(",", "\n").splitlines() if line.strip()]
    if not handles:
        raise InvalidInput(ctx.words.text("Choose a file or enter some addresses."), field="file")
    return await followees_by_handle(reads, viewer, handles[: MOST_HANDLES + 1])


_MOST_BYTES = MAX_ARCHIVE_BYTES + routing.FORM_BYTES

ROUTES = (
    routing.page("/settings/contacts", show, SettingsQuery),
    routing.form("/settings/contacts", look, FollowListForm, limit_class="archives", max_body=_MOST_BYTES),
    routing.form("/settings/contacts/follow", follow, ChosenForm),
)

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
from shoal.web.request_context import Form, Visit
from shoal.web.settings_layout import SettingsQuery, saved_at, settings_page
from shoal.web.view_models import Face, face_of


class ContactView(NamedTuple):
    face: Face
    words: str
    """Why the member was found."""
    chosen: bool
    """Whether the member is selected by default; a match by name alone is not."""
    known: bool
    """Whether the viewer follows the member or has requested to."""


def match_of(visit: Visit, found: ContactMatch) -> ContactView:
    _ = visit.words.text
    known = found.following or found.requested
    if known:
        words = _("You follow them already") if found.following else _("You have asked to follow them")
    elif found.match == "name":
        words = _("Has the name of %(account)s, and may be somebody else")
    else:
        words = _("Says to be %(account)s elsewhere")
    return ContactView(
        face_of(visit, found.profile.member), words % {"account": found.given}, found.match != "name", known
    )


_FORM = 1 << 16
_MOST_AT_ONCE = 500


class FollowListForm(Form, frozen=True, kw_only=True):
    """A follow list: a file, or addresses that were typed."""

    file: Upload | None = None
    handles: Annotated[str, Meta(max_length=100_000)] = ""


class ChosenForm(Form, frozen=True, kw_only=True):
    ids: Annotated[tuple[Id, ...], Meta(max_length=_MOST_AT_ONCE)] = ()


async def show(visit: Visit, query: SettingsQuery) -> Response:
    return await _form(visit, saved=query.saved)


async def look(visit: Visit, asked: FollowListForm) -> Response:
    """Show which accounts of the list have a member here."""
    visit.checked(asked)
    try:
        found = await _found(visit, asked)
    except InvalidInput as error:
        return await _form(visit, wrong_of(visit.words, error), asked.handles)
    words = visit.words
    asked_for = words.plural("%(n)s account was looked for.", "%(n)s accounts were looked for.", found.asked)
    unread = words.plural("%(n)s entry names nobody.", "%(n)s entries name nobody.", found.unreadable)
    return await settings_page(
        visit,
        "contacts",
        template="contacts_found",
        matches=[match_of(visit, one) for one in found.matches],
        asked=asked_for % {"n": words.number(found.asked)},
        unreadable=unread % {"n": words.number(found.unreadable)} if found.unreadable else "",
        more=found.more,
    )


async def follow(visit: Visit, asked: ChosenForm) -> Response:
    visit.checked(asked)
    await follow_all(visit, asked.ids)
    return saved_at(visit, "contacts")


async def _found(visit: Visit, asked: FollowListForm) -> ContactsFound:
    reads, viewer = visit.front.reads, visit.member.id
    if asked.file is not None:
        archive = asked.file.data
        asked.file.close()
        return await followees_in_archive(reads, viewer, archive)
    handles = [line.strip() for line in asked.handles.replace(",", "\n").splitlines() if line.strip()]
    if not handles:
        raise InvalidInput(visit.words.text("Please choose a file, or type some addresses."), field="file")
    return await followees_by_handle(reads, viewer, handles[: MOST_HANDLES + 1])


async def _form(visit: Visit, wrong: Wrong = RIGHT, handles: str = "", *, saved: bool = False) -> Response:
    return await settings_page(visit, "contacts", wrong=wrong, saved=saved, handles=handles)


ROUTES = (
    routing.page("/settings/contacts", show, SettingsQuery),
    routing.form(
        "/settings/contacts", look, FollowListForm, limit_class="archives", max_body=MAX_ARCHIVE_BYTES + _FORM
    ),
    routing.form("/settings/contacts/follow", follow, ChosenForm),
)

"""The profile: name, note, fields, and the two pictures."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import members
from shoal.commands.members import ProfileChange
from shoal.core.errors import InvalidInput
from shoal.http.convert import Upload
from shoal.http.routes import Route
from shoal.settings import Settings
from shoal.web import rows
from shoal.web.pages.own_pictures import keep_picture
from shoal.web.pages.settings.frame import SettingsQuery, saved_at, settings_page
from shoal.web.views.errors.refusals import RIGHT, Wrong, wrong_of
from shoal.web.views.people import face_of
from shoal.web.visit import Form, Visit

_FORM = 64 * 1024
"""Bytes of the form besides its files."""
_Typed = Annotated[str, Meta(max_length=4_000)]


class FieldTyped(msgspec.Struct, frozen=True):
    """A row of the table on a profile."""

    name: _Typed = ""
    value: _Typed = ""


class ProfileForm(Form, frozen=True, kw_only=True):
    """All that a profile says."""

    display_name: _Typed = ""
    note: Annotated[str, Meta(max_length=20_000)] = ""
    fields: Annotated[tuple[FieldTyped, ...], Meta(max_length=100)] = ()
    bot: bool = False
    avatar: Upload | None = None
    header: Upload | None = None


class RemoveForm(Form, frozen=True, kw_only=True):
    """A picture that is to go."""

    which: Literal["avatar", "header"]


async def show(visit: Visit, query: SettingsQuery) -> Response:
    """The profile as it is."""
    member = visit.member
    typed = ProfileForm(
        display_name=member.display_name,
        note=member.note,
        fields=tuple(FieldTyped(one.name, one.value) for one in member.fields),
        bot=member.bot,
    )
    return await _page(visit, typed, saved=query.saved)


async def save(visit: Visit, asked: ProfileForm) -> Response:
    """Keep the profile as it was filled in."""
    member = visit.checked(asked)
    wrong = await keep_picture(visit, "avatar", asked.avatar)
    wrong |= await keep_picture(visit, "header", asked.header)
    change = ProfileChange(
        display_name=asked.display_name,
        note=asked.note,
        fields=[(one.name, one.value) for one in asked.fields],
        bot=asked.bot,
    )
    try:
        await members.update_profile(visit.front.writes, member.id, change)
    except InvalidInput as error:
        wrong |= wrong_of(visit.words, error)
    return await _page(visit, asked, wrong) if wrong else saved_at(visit, "profile")


async def remove(visit: Visit, asked: RemoveForm) -> Response:
    """Take a picture away."""
    member = visit.checked(asked)
    await members.remove_picture(visit.front.writes, member.id, asked.which)
    return saved_at(visit, "profile")


async def _page(visit: Visit, typed: ProfileForm, wrong: Wrong = RIGHT, *, saved: bool = False) -> Response:
    member = visit.member
    empty = visit.front.writes.limits.profile_fields - len(typed.fields)
    return await settings_page(
        visit,
        "profile",
        wrong=wrong,
        saved=saved,
        typed=typed,
        rows=(*typed.fields, *(FieldTyped() for _ in range(empty))),
        face=face_of(visit, member),
        has_avatar=bool(member.avatar),
        header=visit.front.at.media(member.header) if member.header else "",
    )


def routes(settings: Settings) -> tuple[Route, ...]:
    """Return the rows. The settings say how large a picture may be."""
    most = 2 * settings.max_upload_bytes + _FORM
    return (
        rows.page("/settings/profile", show, SettingsQuery),
        rows.form("/settings/profile", save, ProfileForm, max_body=most),
        rows.form("/settings/profile/remove", remove, RemoveForm),
    )

"""Invitations: links by which others sign up."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import invitations
from shoal.commands.second_factor import check_staff
from shoal.core.errors import InvalidInput
from shoal.core.signup import USUAL_SECONDS, may_invite
from shoal.http.convert import Id
from shoal.web import rows
from shoal.web.pages.settings.frame import SettingsQuery, saved_at, settings_page
from shoal.web.views.errors.refusals import RIGHT, Wrong, wrong_of
from shoal.web.views.settings.invitations import rows_of, seconds_of, uses_of
from shoal.web.visit import Form, Visit


class InvitationForm(Form, frozen=True, kw_only=True):
    """An invitation to be made."""

    max_uses: Annotated[int, Meta(ge=0, le=1_000)] = 1
    expires_in: Annotated[int, Meta(ge=0, le=1_000_000_000)] = USUAL_SECONDS
    follow: bool = False


class EndInvitationForm(Form, frozen=True, kw_only=True):
    """An invitation that is to end."""

    id: Id


_USUAL = InvitationForm()


async def show(visit: Visit, query: SettingsQuery) -> Response:
    """One's invitations, and the form for another one."""
    return await _page(visit, _USUAL, saved=query.saved)


async def make(visit: Visit, asked: InvitationForm) -> Response:
    """Make one."""
    member, front = visit.checked(asked), visit.front
    if invitations.is_for_staff(front.writes, uses=asked.max_uses, seconds=asked.expires_in):
        check_staff(member, required=front.settings.staff_second_factor)
    try:
        await invitations.create(
            front.writes, member.id, uses=asked.max_uses, seconds=asked.expires_in, follow=asked.follow
        )
    except InvalidInput as error:
        return await _page(visit, asked, wrong_of(visit.words, error))
    return saved_at(visit, "invitations")


async def end(visit: Visit, asked: EndInvitationForm) -> Response:
    """End one."""
    member = visit.checked(asked)
    await invitations.end(visit.front.writes, member.id, asked.id)
    return saved_at(visit, "invitations")


async def _page(visit: Visit, typed: InvitationForm, wrong: Wrong = RIGHT, *, saved: bool = False) -> Response:
    member, writes = visit.member, visit.front.writes
    return await settings_page(
        visit,
        "invitations",
        wrong=wrong,
        saved=saved,
        may=may_invite(writes.inviters, member),
        typed=typed,
        invitations=rows_of(visit, await invitations.of_member(writes, member.id)),
        uses=uses_of(visit),
        seconds=seconds_of(visit),
    )


ROUTES = (
    rows.page("/settings/invitations", show, SettingsQuery, secret=True),
    rows.form("/settings/invitations", make, InvitationForm, secret=True),
    rows.form("/settings/invitations/{id}/end", end, EndInvitationForm),
)

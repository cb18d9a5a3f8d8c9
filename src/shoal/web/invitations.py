"""Invitation links: create and revoke them; their uses and expiry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from babel.dates import format_timedelta
from markupsafe import Markup
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import invitations
from shoal.commands.second_factor import check_staff
from shoal.core.errors import InvalidInput
from shoal.core.model import Role
from shoal.core.signup import MOST_USES, USUAL_SECONDS, Invitation, may_invite
from shoal.web import routing
from shoal.web.form_errors import RIGHT, Wrong, wrong_of
from shoal.web.request_context import Form, IdForm, PageContext
from shoal.web.settings_layout import NOT_SAVED, SettingsQuery, saved_at, settings_page
from shoal.web.view_models import with_time

_USES = (1, 2, 5, 10, 25, MOST_USES)
_SECONDS = (3_600, 43_200, 86_400, 259_200, 604_800, 2_592_000)


class InvitationRow(NamedTuple):
    id: int
    link: str
    """The URL to copy; empty if the invitation has expired, was revoked, or belongs to another member."""
    uses: str
    until: Markup | str
    follow: bool
    over: bool


def rows_of(ctx: PageContext, invitations: Sequence[Invitation], *, own: bool = True) -> list[InvitationRow]:
    """Return invitations for a list, without links unless they are the viewer's `own`."""
    root = ctx.app.at.root
    return [
        InvitationRow(
            invitation.id,
            f"{root}/invite/{invitation.code}" if own and invitation.is_open(ctx.now_ms) else "",
            _uses(ctx, invitation),
            _until(ctx, invitation),
            invitation.follow,
            over=not invitation.is_open(ctx.now_ms),
        )
        for invitation in invitations
    ]


def _uses(ctx: PageContext, invitation: Invitation) -> str:
    words = ctx.words
    if invitation.most:
        used = words.number(invitation.used)
        return words.counted(
            "%(used)s of %(n)s person has joined", "%(used)s of %(n)s people have joined", invitation.most, used=used
        )
    if not invitation.used:
        return words.text("No one has joined yet")
    return words.counted("%(n)s person has joined", "%(n)s people have joined", invitation.used)


def _until(ctx: PageContext, invitation: Invitation) -> Markup | str:
    _ = ctx.words.text
    if not invitation.expires_at:
        return _("never expires")
    text = _("expired %(when)s") if invitation.is_over(ctx.now_ms) else _("until %(when)s")
    return with_time(ctx, text, invitation.expires_at)


def _uses_choices(ctx: PageContext) -> list[tuple[str, str]]:
    """Return the choices for how often an invitation can be used, with labels. Only staff may choose 0: unlimited."""
    words = ctx.words
    some = [(f"{n}", words.counted("%(n)s person", "%(n)s people", n)) for n in _USES]
    return [*some, *_for_staff(ctx, words.text("Unlimited"))]


def _seconds_choices(ctx: PageContext) -> list[tuple[str, str]]:
    """Return the choices for the seconds until an invitation expires, with labels. Only staff may choose 0: never."""
    code = ctx.words.code
    times = [(f"{n}", format_timedelta(n, locale=code, threshold=1.2)) for n in _SECONDS]
    return [*times, *_for_staff(ctx, ctx.words.text("Never"))]


def _for_staff(ctx: PageContext, words: str) -> list[tuple[str, str]]:
    return [] if ctx.member.role is Role.NONE else [("0", words)]


class InvitationForm(Form, frozen=True, kw_only=True):
    max_uses: Annotated[int, Meta(ge=0, le=1_000)] = 1
    expires_in: Annotated[int, Meta(ge=0, le=1_000_000_000)] = USUAL_SECONDS
    follow: bool = False


_USUAL = InvitationForm()


async def show(
    ctx: PageContext, query: SettingsQuery = NOT_SAVED, wrong: Wrong = RIGHT, typed: InvitationForm = _USUAL
) -> Response:
    member, writes = ctx.member, ctx.writes
    return await settings_page(
        ctx,
        "invitations",
        wrong=wrong,
        saved=query.saved,
        may=may_invite(writes.inviters, member),
        typed=typed,
        invitations=rows_of(ctx, await invitations.of_member(writes, member.id)),
        uses=_uses_choices(ctx),
        seconds=_seconds_choices(ctx),
    )


async def make(ctx: PageContext, asked: InvitationForm) -> Response:
    member, app_context = ctx.checked(asked), ctx.app
    if invitations.is_for_staff(app_context.writes, uses=asked.max_uses, seconds=asked.expires_in):
        check_staff(member, required=app_context.settings.staff_second_factor)
    try:
        await invitations.create(
            app_context.writes, member.id, uses=asked.max_uses, seconds=asked.expires_in, follow=asked.follow
        )
    except InvalidInput as error:
        return await show(ctx, wrong=wrong_of(ctx.words, error), typed=asked)
    return saved_at(ctx, "invitations")


async def end(ctx: PageContext, asked: IdForm) -> Response:
    member = ctx.checked(asked)
    await invitations.end(ctx.writes, member.id, asked.id)
    return saved_at(ctx, "invitations")


ROUTES = (
    routing.page("/settings/invitations", show, SettingsQuery, secret=True),
    routing.form("/settings/invitations", make, InvitationForm, secret=True),
    routing.form("/settings/invitations/{id}/end", end, IdForm),
)

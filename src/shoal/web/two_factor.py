"""Two-factor authentication: turn it on by an authenticator app or passkey, replace recovery codes, and turn it off."""

from __future__ import annotations

from typing import Annotated

import msgspec
import segno
from markupsafe import Markup
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import second_factor, sessions
from shoal.core.credentials import MOST_CHARACTERS, address_of, key_of, new_key
from shoal.core.errors import InvalidInput, NotAllowed, TooMany
from shoal.core.model import Member, Role
from shoal.mastodon_api import login_attempts
from shoal.web import routing
from shoal.web.authentication import log_in, password_refusal
from shoal.web.form_errors import RIGHT, Wrong, wrong_of
from shoal.web.ownership import proof
from shoal.web.request_context import Form, Line, PageContext
from shoal.web.settings_layout import saved_at, settings_page

_Answer = Annotated[str, Meta(max_length=MOST_CHARACTERS)]
_PIXELS = 5


class SecondFactorQuery(msgspec.Struct, frozen=True):
    """The query of the page: whether two-factor authentication was just turned off, or is required for another page."""

    saved: bool = False
    needed: bool = False


class TurnOn(Form, frozen=True, kw_only=True):
    key: Line = ""
    code: Line = ""
    current_password: Line = ""


class ByPasskeys(Form, frozen=True, kw_only=True):
    answer: _Answer = ""
    own_password: Line = ""


class TurnOff(Form, frozen=True, kw_only=True):
    code: _Answer = ""
    current_password: Line = ""


class OtherCodes(Form, frozen=True, kw_only=True):
    renewal_code: _Answer = ""


_NOT_SAVED = SecondFactorQuery()


async def show(
    ctx: PageContext, query: SecondFactorQuery = _NOT_SAVED, wrong: Wrong = RIGHT, key: str = ""
) -> Response:
    """Show the settings.

    After an error, the page shows the secret `key` again, because the authenticator app already contains it.
    """
    member, app_context = ctx.member, ctx.app
    state = await second_factor.state(app_context.writes, member.id)
    offered = key if key_of(key) else new_key()
    otpauth = address_of(offered, member.name, app_context.settings.title)
    return await settings_page(
        ctx,
        "second_factor",
        wrong=wrong,
        saved=query.saved,
        needed=query.needed,
        ways=await second_factor.ways(app_context.writes, member.id),
        on=state is not None,
        left=len(state.recovery) if state else 0,
        offered=offered,
        spaced=" ".join(offered[at : at + 4] for at in range(0, len(offered), 4)),
        otpauth=otpauth,
        qr_code="" if state else Markup(_qr_code(otpauth)),  # noqa: S704 (drawn by ourselves, of numbers alone)
        staff=member.role is not Role.NONE,
        required=app_context.settings.staff_second_factor and member.role is not Role.NONE,
    )


async def turn_on(ctx: PageContext, asked: TurnOn) -> Response:
    member = ctx.checked(asked)
    try:
        _check_not_lent(ctx)
        codes = await login_attempts.turn_on(
            ctx.anonymous, member.id, await proof(ctx, asked.current_password), asked.key, asked.code
        )
    except (InvalidInput, NotAllowed, TooMany) as error:
        return await _refused(ctx, error, key=asked.key)
    return await _turned_on(ctx, member, codes)


async def turn_on_by_passkey(ctx: PageContext, asked: ByPasskeys) -> Response:
    member = ctx.checked(asked)
    try:
        _check_not_lent(ctx)
        codes = await login_attempts.turn_on_by_passkey(
            ctx.anonymous, member.id, await proof(ctx, asked.own_password), asked.answer
        )
    except (InvalidInput, NotAllowed, TooMany) as error:
        return await _refused(ctx, error, field="answer")
    return await _turned_on(ctx, member, codes)


async def _turned_on(ctx: PageContext, member: Member, codes: list[str]) -> Response:
    response = await _codes(ctx, codes)
    # Turning on two-factor authentication ends the sessions of moderators and admins. Log this browser in again,
    # because its user has just verified the second factor.
    now = (await ctx.graph.obj_get((member.id,))).get(member.id)
    if isinstance(now, Member) and now.generation != member.generation:
        await log_in(ctx, response, await sessions.begin(ctx.writes, now, proved=True, origin=ctx.origin))
    return response


async def other_codes(ctx: PageContext, asked: OtherCodes) -> Response:
    member = ctx.checked(asked)
    try:
        codes = await login_attempts.new_codes(ctx.anonymous, member.id, asked.renewal_code)
    except (InvalidInput, NotAllowed, TooMany) as error:
        return await _refused(ctx, error, field="renewal_code")
    return await _codes(ctx, codes)


async def turn_off(ctx: PageContext, asked: TurnOff) -> Response:
    member = ctx.checked(asked)
    try:
        await login_attempts.turn_off(ctx.anonymous, member.id, await proof(ctx, asked.current_password), asked.code)
    except (InvalidInput, NotAllowed, TooMany) as error:
        return await _refused(ctx, error)
    return saved_at(ctx, "second_factor")


def _check_not_lent(ctx: PageContext) -> None:
    if ctx.member.id == ctx.app.demo_member:
        raise NotAllowed(ctx.words.text("Two-factor authentication is disabled for the shared demo account."))


async def _refused(
    ctx: PageContext, error: InvalidInput | NotAllowed | TooMany, *, key: str = "", field: str = "code"
) -> Response:
    _ = ctx.words.text
    if isinstance(error, InvalidInput):
        known = {
            "current_password": _("Incorrect password."),
            "code": _("Incorrect code. Check that the clock of your phone is right.")
            if field != "answer"
            else _("This passkey does not belong to this account, or the request timed out. Try again."),
        }
        found = wrong_of(ctx.words, error, **known)
        fields = {"code": field, "current_password": "own_password" if field == "answer" else "current_password"}
        wrong = {fields.get(name, name): text for name, text in found.items()}
        return await show(ctx, wrong=wrong, key=key)
    refusal = password_refusal(ctx.words, error)
    wrong = {"" if isinstance(error, NotAllowed) else field: refusal.words}
    return refusal.on(await show(ctx, wrong=wrong, key=key))


async def _codes(ctx: PageContext, codes: list[str]) -> Response:
    return await settings_page(ctx, "second_factor", template="recovery_codes", codes=codes)


def _qr_code(text: str) -> str:
    """Return a QR code as SVG, always dark on white, because many scanners cannot read inverted codes."""
    code = segno.make_qr(text, error="m")
    return str(code.svg_inline(scale=_PIXELS, dark="#000", light="#fff", svgclass="qr", lineclass=None, omitsize=False))


ROUTES = (
    routing.page("/settings/second_factor", show, SecondFactorQuery, secret=True),
    routing.form("/settings/second_factor", turn_on, TurnOn, limit_class="login", secret=True),
    routing.form("/settings/second_factor/passkey", turn_on_by_passkey, ByPasskeys, limit_class="login", secret=True),
    routing.form("/settings/second_factor/codes", other_codes, OtherCodes, limit_class="login", secret=True),
    routing.form("/settings/second_factor/off", turn_off, TurnOff, limit_class="login", secret=True),
)

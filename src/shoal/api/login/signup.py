"""Signing up: an app makes a member, and gets the member's first token. E-mail addresses are not confirmed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context, Front
from shoal.api.entities import presenter
from shoal.api.entities.clients import Token
from shoal.api.http.errors import Blank, NotAccepted, SeveralErrors
from shoal.api.http.limits.ratelimit import address_of
from shoal.api.login.apps import app_of
from shoal.api.login.guesses import hashing
from shoal.core.errors import InvalidInput, NotAllowed, Taken, TooLarge
from shoal.core.ip_blocks import IpSeverity
from shoal.core.text import check_email, check_user_name
from shoal.graph.schema import email_key, user_name_key
from shoal.services import email_blocks, members
from shoal.services.login import apps

_Word = Annotated[str, Meta(max_length=2_000)]
_LOCALE = re.compile(r"([a-z]{2,3})(?:[-_][A-Za-z0-9]{2,8}){0,3}")


class SignUp(msgspec.Struct, frozen=True):
    """Fields of the sign-up form. Four are required. All errors are reported at once, field by field.

    A date of birth is not asked for; a client may send one, and it is ignored.
    """

    username: _Word = ""
    email: _Word = ""
    password: _Word = ""
    agreement: bool = False
    locale: Annotated[str, Meta(max_length=35)] = ""
    reason: Annotated[str, Meta(max_length=20_000)] = ""
    """Why the member wants to join: at most 420 characters, kept where members wait for approval."""


async def sign_up(context: Context, params: SignUp) -> object:
    """Create a member and return their token, which is valid at once, or from approval on where sign-ups wait for one."""
    front = context.deps
    if not front.settings.registrations:
        raise NotAllowed("This server takes no new members")
    severity = front.ip_guard.severity(context.request.scope)
    if severity is not None and severity.rank >= IpSeverity.SIGN_UP_BLOCK.rank:
        raise NotAllowed("This server takes no new members from your network")
    pending = severity is not None
    await _check(front, params, address_of(context.request.scope), pending=pending)
    app = await app_of(front, context.caller.app_id)
    async with hashing(context.request.scope):
        member = await members.register(
            front.writes,
            params.username,
            password=params.password,
            email=params.email,
            language=_language(params.locale),
            pending=pending,
            reason=params.reason if pending else "",
        )
    made = await apps.issue_token(front.writes, app.id, member.id, app.scopes, generation=member.generation)
    return presenter.token(*made)


def _language(locale: str) -> str:
    """Return the language of a locale, taken as the one that the new member will write in; empty if it is no locale."""
    found = _LOCALE.fullmatch(locale)
    return found[1] if found else ""


async def _check(front: Front, params: SignUp, client: str, *, pending: bool) -> None:
    """Check all fields of the form. Raises `SeveralErrors` with every error found."""
    wrong: list[InvalidInput] = []
    name = _checked(wrong, "username", params.username, check_user_name)
    email = _checked(wrong, "email", params.email, check_email)
    _checked(wrong, "password", params.password, lambda text: members.check_password(front.writes, text))
    if not params.agreement:
        wrong.append(NotAccepted("Service agreement must be accepted", field="agreement"))
    if pending and len(params.reason) > (most := front.writes.limits.reason):
        wrong.append(TooLarge(f"Reason is too long (maximum is {most} characters)", field="reason"))
    try:
        if email:
            await email_blocks.check_sign_up(front.writes, email, client)
    except InvalidInput as error:
        # Whether the address is taken is not revealed.
        wrong.append(error)
        email = ""
    keys = {
        field: key(text)
        for field, text, key in (("username", name, user_name_key), ("email", email, email_key))
        if text
    }
    taken = await front.graph.key_get(list(keys.values())) if keys else {}
    wrong += [
        Taken(f"{field.title()} has already been taken", field=field) for field, key in keys.items() if key in taken
    ]
    if wrong:
        raise SeveralErrors(wrong)


def _checked(wrong: list[InvalidInput], field: str, text: str, check: Callable[[str], str]) -> str:
    """Return the value as it will be stored. An invalid one is noted among the errors, and empty here."""
    if not text.strip():
        wrong.append(Blank(f"{field.title()} can't be blank", field=field))
        return ""
    try:
        return check(text)
    except InvalidInput as error:
        wrong.append(error)
        return ""


async def confirm(_context: Context, _params: None) -> object:
    """Refuse to send a confirmation: e-mail addresses are not confirmed."""
    raise NotAllowed("This method is only available while the e-mail is awaiting confirmation")


ROUTES = (
    rows.route(
        "POST",
        "/api/v1/accounts",
        sign_up,
        auth="client",
        scope="write:accounts",
        limit_class="signup",
        params=SignUp,
        answer=Token,
    ),
    rows.route(
        "POST",
        "/api/v1/emails/confirmations",
        confirm,
        scope="write:accounts",
        answer=dict,
    ),
)

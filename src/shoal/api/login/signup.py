"""Signing up: an app makes a member, and gets the member's first token."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.entities import presenter
from shoal.api.entities.clients import Token
from shoal.api.http.authentication import origin_of_request
from shoal.api.listing import actor
from shoal.api.login.apps import app_of
from shoal.api.login.guesses import count_mail
from shoal.api.login.joining import Joining, asks_confirmation, join
from shoal.commands import credentials, members, oauth
from shoal.core.errors import NotAllowed
from shoal.graph.access import access_member

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
    invite_code: _Word = ""
    """The code of an invitation, by which one may sign up where that is closed, and need not wait for approval."""
    proof: _Word = ""
    """The proof of work of a client that has its machine count, where `configuration.accounts.signup_work` asks for it."""


async def sign_up(context: Context, params: SignUp) -> object:
    """Create a member and return their token, which is valid at once, or from approval on where sign-ups wait for one."""
    front = context.deps
    app = await app_of(front, context.caller.app_id)
    member = await join(
        context,
        Joining(
            username=params.username,
            email=params.email,
            password=params.password,
            agreement=params.agreement,
            language=_language(params.locale),
            reason=params.reason,
            invite_code=params.invite_code,
            proof=params.proof,
        ),
    )
    origin = origin_of_request(context.request)
    made = await oauth.issue_token(
        front.writes, app.id, member.id, app.scopes, generation=member.generation, origin=origin
    )
    return presenter.token(*made)


def _language(locale: str) -> str:
    """Return the language of a locale, taken as the one that the new member will write in; empty if it is no locale."""
    found = _LOCALE.fullmatch(locale)
    return found[1] if found else ""


async def confirm(context: Context, _params: None) -> object:
    """Send the mail again by which a member confirms their address.

    It is refused where the address is confirmed, where there is none, and where the server asks for no confirmation.
    """
    front = context.deps
    member = await access_member(front.graph, actor(context))
    login = await members.login_of(front.writes, member)
    if login is None or not login.email or login.confirmed or not asks_confirmation(front.settings):
        raise NotAllowed("This method is only available while the e-mail is awaiting confirmation")
    await count_mail(context, login.email)
    await credentials.ask_confirmation(front.writes, member)
    return {}


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

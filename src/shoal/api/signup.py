"""Signing up: an app makes a member, and gets the member's first token."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import present
from shoal.api.apps import app_of
from shoal.api.calls import Context
from shoal.api.errors import Blank, NotAccepted, Several
from shoal.api.front import Front
from shoal.core.errors import InvalidInput, NotAllowed
from shoal.services import apps, members

_Word = Annotated[str, Meta(max_length=2_000)]


class SignUp(msgspec.Struct, frozen=True):
    """What the form asks. All are needed; what is missing is told field by field."""

    username: _Word = ""
    email: _Word = ""
    password: _Word = ""
    agreement: bool = False


async def sign_up(context: Context, params: SignUp) -> object:
    """A new member; the token can be used at once."""
    front: Front = context.deps
    if not front.settings.registrations:
        raise NotAllowed("This server takes no new members")
    _check(params)
    app = await app_of(front, context.caller.app_id)
    member = await members.register(front.writes, params.username, password=params.password, email=params.email)
    return present.token(*await apps.issue_token(front.writes, app.id, member.id, app.scopes))


def _check(params: SignUp) -> None:
    wrong: list[InvalidInput] = [
        Blank(f"{label} can't be blank", field=field)
        for field, label in (("username", "Username"), ("email", "Email"), ("password", "Password"))
        if not getattr(params, field).strip()
    ]
    if not params.agreement:
        wrong.append(NotAccepted("Service agreement must be accepted", field="agreement"))
    if wrong:
        raise Several(wrong)

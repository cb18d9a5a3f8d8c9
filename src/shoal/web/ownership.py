"""Proof that a logged-in member is the owner of the account, before settings that matter for logging in are changed.

The proof is the password in the form. A member without a password logs in again with a provider or passkey, which the browser
remembers for five minutes (`authentication.confirmation`). A passkey counts only if its device verified the member (by a PIN,
fingerprint or face). For a member with a password, a confirmation suffices only to link and unlink providers.
"""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from shoal.commands import external_ids
from shoal.commands.authentication import (
    CONFIRMED_MS,
    Confirmed,
    OwnerProof,
    confirmation,
    confirmed_member,
    has_password,
)
from shoal.core.model import Member
from shoal.graph.member_lookup import login_of
from shoal.mastodon_api.browser_session import OWNER
from shoal.web.request_context import PageContext


class LoginButton(NamedTuple):
    name: str
    """The provider's name in URLs."""
    title: str
    confirms: bool
    """Whether the provider can confirm that a user has just logged in."""


def login_buttons(ctx: PageContext) -> list[LoginButton]:
    providers = ctx.app.providers
    return [LoginButton(name, title, providers.reauthenticates(name)) for name, title in providers.titles.items()]


class Owner(NamedTuple):
    """How the viewer can prove that they own the account."""

    password: bool
    passkey: bool
    providers: list[LoginButton]
    """The providers to which the account is linked."""
    confirmed: bool
    """Whether they have just done so."""


async def owner_of(ctx: PageContext) -> Owner:
    login = await login_of(ctx.graph, ctx.member)
    issuers = {external.issuer for external in await external_ids.of_member(ctx.graph, ctx.member.id)}
    return Owner(
        has_password(ctx.writes, login),
        login is not None and bool(login.passkeys),
        [button for button in login_buttons(ctx) if ctx.app.providers.issuer(button.name) in issuers],
        await is_confirmed(ctx, ctx.member),
    )


async def confirmed(ctx: PageContext) -> Member | None:
    """Return the member who has confirmed in this browser and session that they own an account."""
    return await confirmed_member(ctx.writes, ctx.browser.read(OWNER), ctx.browser.login)


async def is_confirmed(ctx: PageContext, member: Member) -> bool:
    found = await confirmed(ctx)
    return found is not None and found.id == member.id


async def proof(ctx: PageContext, password: str) -> OwnerProof:
    """Return the password of a form, or the viewer's confirmation in place of an empty one."""
    return password if password or not await is_confirmed(ctx, ctx.member) else Confirmed(ctx.member.id)


async def remember_owner(ctx: PageContext, response: Response, member: Member, session: str | None = None) -> None:
    """Remember for five minutes that a member confirmed. `session` is the text of a new session's token."""
    text = await confirmation(ctx.writes, member, ctx.browser.login if session is None else session)
    ctx.browser.hold(response, OWNER, text, CONFIRMED_MS // 1_000)

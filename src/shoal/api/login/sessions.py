"""Where the caller is logged in, logging out there, and a new password."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.entities.sessions import SessionEntity, shown
from shoal.api.http.pages import PageQuery
from shoal.api.http.replies import encode
from shoal.api.listing import One, actor, cursor_of, paged
from shoal.api.login import guesses
from shoal.commands import sessions

_Secret = Annotated[str, Meta(min_length=1, max_length=2_000)]


class NewPassword(msgspec.Struct, frozen=True):
    """The password that somebody has, and the one that they want."""

    current_password: _Secret
    new_password: _Secret


async def listed(context: Context, params: PageQuery) -> object:
    """Where the caller is logged in, newest first."""
    front = context.deps
    cursor = cursor_of(params, 40, 80)
    page = await sessions.page(front.writes, actor(context), cursor)
    body = encode([shown(session, context.caller.token_id) for session in page.sessions])
    return paged(context, body, [session.token.id for session in page.sessions], page.next, cursor)


async def end(context: Context, params: One) -> object:
    """Log out there: the token is worth nothing from now on."""
    front = context.deps
    await sessions.end(front.writes, actor(context), params.id)
    return {}


async def end_others(context: Context, _params: None) -> object:
    """Log out everywhere but here."""
    await sessions.end_others(context.deps.writes, actor(context), context.caller.token_id)
    return {}


async def change_password(context: Context, params: NewPassword) -> object:
    """A new password. The caller is logged out everywhere, here too."""
    await guesses.change_password(context, actor(context), params.current_password, params.new_password)
    return {}


ROUTES = (
    rows.page("GET", "/api/shoal/v1/sessions", listed, scope="read:accounts", answer=list[SessionEntity]),
    rows.route("DELETE", "/api/shoal/v1/sessions", end_others, scope="write:accounts", answer=dict),
    rows.one("DELETE", "/api/shoal/v1/sessions/{id}", end, scope="write:accounts", answer=dict),
    rows.route(
        "PUT",
        "/api/shoal/v1/password",
        change_password,
        scope="write:accounts",
        limit_class="login",
        params=NewPassword,
        answer=dict,
    ),
)

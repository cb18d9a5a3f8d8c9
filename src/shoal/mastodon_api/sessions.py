"""Sessions: list the caller's logins, revoke them, and change the password. Mastodon has no equivalent."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.commands import sessions
from shoal.commands.sessions import Session
from shoal.core.ids import milliseconds_of
from shoal.http.pagination import PageQuery
from shoal.mastodon_api import login_attempts
from shoal.mastodon_api.context import Context, One, Router, actor, cursor_of, paged
from shoal.mastodon_api.entities.serializers import moment

router = Router()


class SessionApp(msgspec.Struct):
    """The app that a member logged in with."""

    name: str
    website: str | None


class SessionEntity(msgspec.Struct, kw_only=True):
    """A login of the caller. Without an `application`, it is a browser login."""

    id: str
    application: SessionApp | None
    scopes: list[str]
    created_at: str
    last_used_at: str | None
    """The day of the last use or the day after; null if no use was recorded."""
    program: str | None
    """The browser or app, according to the user agent of its requests."""
    system: str | None
    created_from: str | None
    """The IP address of the login, for IPv6 its /64 prefix."""
    last_used_from: str | None
    current: bool
    """Whether this is the session of the request."""


def shown(session: Session, current: int) -> SessionEntity:
    """Return a session as its member sees it. `current` is the id of the token that the request uses."""
    token, app = session
    use = token.use
    return SessionEntity(
        id=str(token.id),
        application=SessionApp(app.name, app.website or None) if app else None,
        scopes=list(token.scopes),
        created_at=moment(milliseconds_of(token.id)),
        last_used_at=moment(use.at) if use.at else None,
        program=use.program or None,
        system=use.system or None,
        created_from=use.made_from or None,
        last_used_from=use.used_from or None,
        current=token.id == current,
    )


_Secret = Annotated[str, Meta(min_length=1, max_length=2_000)]


class NewPassword(msgspec.Struct, frozen=True):
    current_password: _Secret
    new_password: _Secret


@router.get("/api/shoal/v1/sessions", scope="read:accounts", answer=list[SessionEntity])
async def list_sessions(context: Context, params: PageQuery) -> object:
    """List the caller's sessions, newest first."""
    cursor = cursor_of(params, 40, 80)
    page = await sessions.page(context.app.writes, actor(context), cursor)
    body = [shown(session, context.caller.token_id) for session in page.sessions]
    return paged(context, body, [session.token.id for session in page.sessions], page.next, cursor)


@router.delete("/api/shoal/v1/sessions/{id}", scope="write:accounts", answer=dict)
async def revoke_session(context: Context, params: One) -> None:
    """Log out a session. Its token is revoked."""
    await sessions.end(context.app.writes, actor(context), params.id)


@router.delete("/api/shoal/v1/sessions", scope="write:accounts", answer=dict)
async def revoke_other_sessions(context: Context, _params: None) -> None:
    """Log out all other sessions."""
    await sessions.end_others(context.app.writes, actor(context), context.caller.token_id)


@router.put("/api/shoal/v1/password", scope="write:accounts", limit_class="login", answer=dict)
async def change_password(context: Context, params: NewPassword) -> None:
    """Change the password. This logs out all sessions, including this one."""
    await login_attempts.change_password(context, actor(context), params.current_password, params.new_password)

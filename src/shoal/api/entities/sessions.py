"""Where a member is logged in, as it stands on the wire. Mastodon has no such thing."""

from __future__ import annotations

import msgspec

from shoal.api.entities.presenter import moment
from shoal.commands.sessions import Session
from shoal.core.ids import milliseconds_of


class SessionApp(msgspec.Struct):
    """The client program that somebody logged in with."""

    name: str
    website: str | None


class SessionEntity(msgspec.Struct, kw_only=True):
    """One login. Without an application it is a browser, on the page where apps are let in."""

    id: str
    application: SessionApp | None
    scopes: list[str]
    created_at: str
    last_used_at: str | None
    """The day of the last use, or the day after it; null where none was noted yet."""
    program: str | None
    """The browser, or the program that an app says it is, as its requests tell."""
    system: str | None
    created_from: str | None
    """The address that it was made from, of IPv6 the /64 network."""
    last_used_from: str | None
    current: bool
    """Whether it is the one that asks."""


def shown(session: Session, current: int) -> SessionEntity:
    """A session for its member, who asks with the token `current`."""
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

"""Where a member is logged in, as it stands on the wire. Mastodon has no such thing."""

from __future__ import annotations

import msgspec

from shoal.api.entities.presenter import moment
from shoal.core.ids import milliseconds_of
from shoal.services.login.sessions import Session


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
    current: bool
    """Whether it is the one that asks."""


def shown(session: Session, current: int) -> SessionEntity:
    """A session for its member, who asks with the token `current`."""
    token, app = session
    return SessionEntity(
        id=str(token.id),
        application=SessionApp(app.name, app.website or None) if app else None,
        scopes=list(token.scopes),
        created_at=moment(milliseconds_of(token.id)),
        current=token.id == current,
    )

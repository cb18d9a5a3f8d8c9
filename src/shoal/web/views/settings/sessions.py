"""Where a member is logged in, as a page shows it."""

from __future__ import annotations

from typing import NamedTuple

from shoal.api.login.scope_words import in_words
from shoal.core.ids import milliseconds_of
from shoal.services.login.sessions import Session
from shoal.web.visit import Visit
from shoal.words.languages import When


class SessionRow(NamedTuple):
    """A browser, or an app."""

    id: int
    icon: str
    words: str
    site: str
    """Address of the app's website; empty where it has none."""
    since: When
    may: tuple[str, ...]
    """The scopes of an app, in words."""
    here: bool


def row_of(visit: Visit, session: Session, here: int) -> SessionRow:
    """Return a session; `here` is the token of this browser."""
    token, app, _ = session.token, session.app, visit.words.text
    browser = not token.app_id
    words = _("A browser") if browser else app.name if app else _("An app that is gone")
    website = app.website if app and app.website.startswith(("https://", "http://")) else ""
    return SessionRow(
        token.id,
        "globe" if browser else "smartphone",
        _("This browser") if token.id == here else words,
        website,
        visit.words.when(milliseconds_of(token.id), visit.now_ms),
        () if browser else tuple(_(line) for line in in_words(token.scopes)),
        token.id == here,
    )

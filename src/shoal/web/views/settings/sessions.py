"""Where a member is logged in, as a page shows it."""

from __future__ import annotations

from typing import NamedTuple

from shoal.commands.sessions import Session
from shoal.core.ids import milliseconds_of
from shoal.core.tokens import TokenUse
from shoal.http.authentication import in_words
from shoal.web.visit import Visit
from shoal.words.languages import When


class SessionRow(NamedTuple):
    """A browser, or an app."""

    id: int
    icon: str
    words: str
    program: str
    """The program that an app says it is, or the browser that it runs in; empty where that is not known."""
    site: str
    """Address of the app's website; empty where it has none."""
    since: When
    used: str
    """The day of the last use; empty where none was noted yet."""
    place: str
    """The address of the last use, or else that it was made from."""
    may: tuple[str, ...]
    """The scopes of an app, in words."""
    here: bool


def row_of(visit: Visit, session: Session, here: int) -> SessionRow:
    """Return a session; `here` is the token of this browser."""
    token, app, _ = session.token, session.app, visit.words.text
    browser, use = not token.app_id, session.token.use
    program, here_now = program_of(visit, use), token.id == here
    if here_now:
        words = _("This browser")
    elif browser:
        words, program = program or _("A browser"), ""
    else:
        words = app.name if app else _("An app that is gone")
    website = app.website if app and app.website.startswith(("https://", "http://")) else ""
    return SessionRow(
        token.id,
        "globe" if browser else "smartphone",
        words,
        program,
        website,
        visit.when(milliseconds_of(token.id)),
        visit.words.day(use.at) if use.at else "",
        use.used_from or use.made_from,
        () if browser else tuple(_(line) for line in in_words(token.scopes)),
        here_now,
    )


def program_of(visit: Visit, use: TokenUse) -> str:
    """Return the program of a use with its system, in words; empty where neither is known."""
    if use.program and use.system:
        return visit.words.text("%(program)s on %(system)s") % {"program": use.program, "system": use.system}
    return use.program or use.system

"""Sessions: the browsers and apps in which a member is logged in, and logging them out."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from shoal.commands import sessions
from shoal.commands.sessions import Session
from shoal.core.ids import milliseconds_of
from shoal.core.tokens import TokenUse
from shoal.http.authentication import in_words
from shoal.i18n import When
from shoal.web import routing
from shoal.web.rendering import BeforeQuery, next_of
from shoal.web.request_context import Form, IdForm, PageContext
from shoal.web.settings_layout import saved_at, settings_page


class SessionRow(NamedTuple):
    id: int
    icon: str
    words: str
    program: str
    """The name of the browser, or the name that the app claims; empty if unknown."""
    site: str
    """The app's website; empty if it has none."""
    since: When
    used: str
    """The day of the last use; empty if no use was recorded yet."""
    place: str
    """The IP address of the last use; if no use was recorded, of the login."""
    may: tuple[str, ...]
    here: bool


def _row(ctx: PageContext, session: Session, here: int) -> SessionRow:
    """Return a session as a row of the list. The row whose token id is `here` is marked as this browser."""
    token, app, _ = session.token, session.app, ctx.words.text
    browser, use = not token.app_id, session.token.use
    program, here_now = program_of(ctx, use), token.id == here
    if here_now:
        words = _("This browser")
    elif browser:
        words, program = program or _("A browser"), ""
    else:
        words = app.name if app else _("Deleted app")
    website = app.website if app and app.website.startswith(("https://", "http://")) else ""
    return SessionRow(
        token.id,
        "globe" if browser else "smartphone",
        words,
        program,
        website,
        ctx.when(milliseconds_of(token.id)),
        ctx.words.day(use.at) if use.at else "",
        use.used_from or use.made_from,
        () if browser else tuple(_(line) for line in in_words(token.scopes)),
        here_now,
    )


def program_of(ctx: PageContext, use: TokenUse) -> str:
    if use.program and use.system:
        return ctx.words.text("%(program)s on %(system)s") % {"program": use.program, "system": use.system}
    return use.program or use.system


_SIZE = 40


class SessionsQuery(BeforeQuery, frozen=True, kw_only=True):
    saved: bool = False


async def show(ctx: PageContext, query: SessionsQuery) -> Response:
    member, writes = ctx.member, ctx.writes
    found = await sessions.page(writes, member.id, query.cursor(_SIZE))
    here = await _here(ctx)
    shown = [_row(ctx, session, here) for session in found.sessions]
    following = next_of(ctx, "/settings/sessions", found.next)
    days = ctx.settings.token_days
    return await settings_page(ctx, "sessions", saved=query.saved, sessions=shown, next=following, days=days)


async def end(ctx: PageContext, asked: IdForm) -> Response:
    member = ctx.checked(asked)
    here = await _here(ctx)
    await sessions.end(ctx.writes, member.id, asked.id)
    response = saved_at(ctx, "sessions")
    if asked.id == here:
        ctx.browser.log_out(response)
    return response


async def end_others(ctx: PageContext, asked: Form) -> Response:
    member = ctx.checked(asked)
    await sessions.end_others(ctx.writes, member.id, await _here(ctx))
    return saved_at(ctx, "sessions")


async def _here(ctx: PageContext) -> int:
    found = await sessions.of_browser(ctx.writes, ctx.browser.login)
    return found.token.id if found else 0


ROUTES = (
    routing.page("/settings/sessions", show, SessionsQuery),
    routing.form("/settings/sessions/{id}/end", end, IdForm),
    routing.form("/settings/sessions/end-others", end_others, Form),
)

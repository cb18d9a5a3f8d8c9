"""Sessions: the browsers and apps where a member is logged in, and ending them."""

from __future__ import annotations

from starlette.responses import Response

from shoal.commands import sessions
from shoal.http.convert import Id
from shoal.web import rows
from shoal.web.pages.settings.frame import saved_at, settings_page
from shoal.web.paging import BeforeQuery, next_of
from shoal.web.views.settings.sessions import row_of
from shoal.web.visit import Form, Visit

_SIZE = 40


class SessionsQuery(BeforeQuery, frozen=True, kw_only=True):
    """A page of the list, and whether something was just ended."""

    saved: bool = False


class EndForm(Form, frozen=True, kw_only=True):
    """A session that is to end."""

    id: Id


async def show(visit: Visit, query: SessionsQuery) -> Response:
    """Where one is logged in, the latest first."""
    member, writes = visit.member, visit.front.writes
    found = await sessions.page(writes, member.id, query.cursor(_SIZE))
    here = await _here(visit)
    shown = [row_of(visit, one, here) for one in found.sessions]
    following = next_of(visit, "/settings/sessions", found.next)
    days = visit.front.settings.token_days
    return await settings_page(visit, "sessions", saved=query.saved, sessions=shown, next=following, days=days)


async def end(visit: Visit, asked: EndForm) -> Response:
    """End one."""
    member = visit.checked(asked)
    here = await _here(visit)
    await sessions.end(visit.front.writes, member.id, asked.id)
    response = saved_at(visit, "sessions")
    if asked.id == here:
        visit.browser.log_out(response)
    return response


async def end_others(visit: Visit, asked: Form) -> Response:
    """End all but this one."""
    member = visit.checked(asked)
    await sessions.end_others(visit.front.writes, member.id, await _here(visit))
    return saved_at(visit, "sessions")


async def _here(visit: Visit) -> int:
    """Return the id of the token of this browser."""
    found = await sessions.of_browser(visit.front.writes, visit.browser.login)
    return found.token.id if found else 0


ROUTES = (
    rows.page("/settings/sessions", show, SessionsQuery),
    rows.form("/settings/sessions/{id}/end", end, EndForm),
    rows.form("/settings/sessions/end-others", end_others, Form),
)

"""How somebody comes in: the browser is logged in, and sent on its way."""

from __future__ import annotations

from starlette.responses import Response

from shoal.core.model import HALFWAY, Member
from shoal.services.login import sessions
from shoal.services.login.apps import NewToken
from shoal.web.visit import Visit, is_local


async def begin(visit: Visit, member: Member, to: str, *, proved: bool = False) -> Response:
    """Log a member in who knows the password, and send the browser on its way.

    Where a code of a second factor is wanted that is the page which asks for it, unless it was `proved`.
    """
    begun = await sessions.begin(visit.front.writes, member, proved=proved)
    asks = HALFWAY in begun.token.scopes
    response = visit.go("/login/code", to=to if is_local(to) else "") if asks else visit.go(goal(to))
    await log_in(visit, response, begun)
    return response


async def log_in(visit: Visit, response: Response, begun: NewToken) -> None:
    """Log the browser in by an answer to it. Whoever was logged in there goes."""
    if visit.browser.login:
        await sessions.leave(visit.front.writes, visit.browser.login)
    visit.browser.log_in(response, begun.text)


def goal(to: str) -> str:
    """Return the path to go to afterwards: the start page for what is none of ours."""
    return to if is_local(to) else "/"

"""Pages that say what went wrong, and what to do next."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response

from shoal.http.errors import reply_for
from shoal.http.middleware import REQUEST_ID, ROUTE
from shoal.http.responses import Reply
from shoal.mastodon_api.context import Front
from shoal.web.rendering import framed, part
from shoal.web.views.errors.trouble import Trouble, trouble_of
from shoal.web.views.shell import Shell, bare_shell, shell_of
from shoal.web.visit import Visit, browser_of, spoken

_OURS = 500
"""From this status on something is wrong on our side: the frame of the page reads nothing then."""


async def error_page(visit: Visit, error: Exception) -> Response:
    """Return the page of an error; for a script, a word to show."""
    request_id = _id_of(visit.request)
    reply = reply_for(error, where=f"{visit.request.scope.get(ROUTE, '(no such page)')} ({request_id})")
    trouble = trouble_of(visit.words, reply, request_id)
    frame = bare_shell(visit, trouble.title) if reply.status >= _OURS else await shell_of(visit, trouble.title)
    return _told(visit, frame, trouble, reply)


class Refusals:
    """Pages for requests that were refused before they came to a handler: too many, too large, not to be read."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def __call__(self, reply: Reply, request: Request) -> Response:
        """Return the page of a refusal."""
        front = self._front
        visit = Visit(front, request, browser_of(front, request), None, spoken(request), time.time_ns() // 1_000_000)
        trouble = trouble_of(visit.words, reply, _id_of(request))
        return _told(visit, bare_shell(visit, trouble.title), trouble, reply)


def _told(visit: Visit, frame: Shell, trouble: Trouble, reply: Reply) -> Response:
    if visit.partial:
        response = part(visit, "word", status=reply.status, trouble=trouble)
    else:
        response = framed(visit, frame, "trouble", status=reply.status, trouble=trouble)
    response.headers.update(dict(reply.headers))
    response.headers["Cache-Control"] = "no-store"
    return response


def _id_of(request: Request) -> str:
    return str(request.scope.get(REQUEST_ID, "-"))

"""Pages that are remembered, and given to each browser with a token of its own.

What a page shows is told by its address, who looks, in which language and look, and whether a script asks for a part of it. Two
things on it are of one answer alone: the token of its forms, and the name of what a form will do. Marks stand in their places
in what is remembered.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import replace
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from shoal.graph.cache.responses import Answers
from shoal.http.responses import MAX_QUERY, NOT_MODIFIED, Reply, encode
from shoal.mastodon_api.context import Context
from shoal.web.packing import pack
from shoal.web.rendering import HEADERS
from shoal.web.views.shell import look_of
from shoal.web.visit import LOOK_COOKIE, REQUEST_MARK, TOKEN_MARK, Visit, visit_of

_MAX_PATH = 1_000
_TAG_CHARACTERS = 24


class _AnotherAnswer(Exception):
    """The handler answered something that has no marks, such as a redirect or a news feed."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


def is_short(request: Request) -> bool:
    """Return whether the address of a page is short enough to be remembered."""
    return len(request.scope["query_string"]) <= MAX_QUERY and len(request.scope["path"]) <= _MAX_PATH


async def remembered_page(
    visit: Visit, context: Context, answers: Answers[Reply], handler: Callable[[Visit], Awaitable[Response]]
) -> Response:
    """Return the answer to a visit as it is now: remembered, or made by the handler of a page. Raises as the handler."""

    async def make() -> Reply:
        # Who looks is read once more: it is on the page.
        response = await handler(replace(await visit_of(context), marked=True))
        if type(response) is not HTMLResponse or response.status_code != 200:
            raise _AnotherAnswer(response)
        return Reply(bytes(response.body))

    try:
        reply = await answers.get(_name(context, visit), make)
    except _AnotherAnswer as other:
        return other.response
    return _given(visit, reply)


def _name(context: Context, visit: Visit) -> Hashable:
    scope, caller = context.request.scope, context.caller
    look = look_of(context.request.cookies.get(LOOK_COOKIE, ""))
    asked = (scope["path"], scope["query_string"], visit.partial)
    return ("page", *asked, caller.member_id, caller.role, caller.unguarded, visit.words.code, look)


def _given(visit: Visit, reply: Reply) -> Response:
    headers = dict(HEADERS)
    # A browser in which somebody is logged in keeps nothing of what they saw.
    if visit.viewer is None and not visit.browser.is_new and (tag := _tag(visit, reply)):
        headers |= {"ETag": tag, "Cache-Control": "private, no-cache"}
        if tag in visit.request.headers.get("if-none-match", ""):
            return Response(status_code=NOT_MODIFIED, headers=headers)
    body = encode(reply.body).replace(TOKEN_MARK.encode(), visit.browser.form_token.encode())
    response = HTMLResponse(body.replace(REQUEST_MARK.encode(), secrets.token_urlsafe(12).encode()), headers=headers)
    visit.browser.keep(response)
    pack(visit.request, response)
    return response


def _tag(visit: Visit, reply: Reply) -> str:
    """Return a weak tag of a page for a browser, whose forms are no good in another one; empty for a page that is not kept."""
    kept = next((value for name, value in reply.headers if name == "ETag"), "")
    told = f"{kept} {visit.browser.name}".encode()
    return f'W/"{sha256(told).hexdigest()[:_TAG_CHARACTERS]}"' if kept else ""

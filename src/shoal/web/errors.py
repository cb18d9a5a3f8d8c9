"""Error pages: what went wrong and how to fix it.

A script gets a short message instead of a page. A page for a server error (status 500 or higher) reads no data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from shoal.http.errors import reply_for
from shoal.http.middleware import REQUEST_ID, ROUTE
from shoal.http.responses import Reply
from shoal.i18n import Translated
from shoal.mastodon_api.context import AppContext
from shoal.web.form_errors import complaint, sentence
from shoal.web.layout import Shell, bare_shell, shell_of
from shoal.web.rendering import framed, part
from shoal.web.request_context import PageContext, new_ctx

_PREFIX = "Validation failed: "


class Trouble(msgspec.Struct, frozen=True):
    status: int
    title: str
    words: str
    hint: str
    request_id: str = ""
    """Id that a member can quote to support; empty unless the server caused the error."""
    search: bool = False


def _trouble(words: Translated, reply: Reply, request_id: str) -> Trouble:
    _ = words.text
    seconds = dict(reply.headers).get("Retry-After", "1")
    reason = _reason(reply.body)
    message = sentence(complaint(words, reason)) if reason else ""
    match reply.status:
        case 401:
            return Trouble(401, _("Please log in"), message, _("This page is for members."))
        case 403:
            return Trouble(403, _("You don't have access to this page"), message, _("Go back or go to Home."))
        case 404:
            hint = _("It may have been deleted, or the address may be mistyped.")
            return Trouble(404, _("Page not found"), "", hint, search=True)
        case 410:
            return Trouble(410, _("This was deleted"), message, _("It was permanently deleted."))
        case 405:
            return Trouble(
                405, _("This page cannot be opened directly"), message, _("Go back and use the button again.")
            )
        case 413:
            return Trouble(413, _("Too large"), message, _("Try again with fewer or smaller files."))
        case 429:
            hint = words.counted(
                "Please wait %(n)s second and try again.", "Please wait %(n)s seconds and try again.", int(seconds)
            )
            return Trouble(429, _("Too many requests"), "", hint)
        case 503:
            hint = _("Part of the network is unavailable. Reading may still work; try again in a moment.")
            return Trouble(503, _("Temporarily unavailable"), message, hint)
        case 507:
            hint = _("Nothing was saved. Please contact the administrator.")
            return Trouble(507, _("Storage is full"), message, hint)
        case status if status >= 500:
            hint = _("This is a problem on our side. If it happens again, send the administrator the number below.")
            return Trouble(status, _("Something went wrong"), "", hint, request_id)
    return Trouble(reply.status, _("This did not work"), message, _("Go back and try again."))


def _reason(body: Any) -> str:
    # OAuth's `error` is a code for programs; `error_description` is the text for people.
    error = body.get("error_description") or body.get("error", "") if isinstance(body, Mapping) else ""
    return str(error).removeprefix(_PREFIX)


_OURS = 500
"""The lowest status of server errors. An error page for such a status reads no data."""


async def error_page(ctx: PageContext, error: Exception) -> Response:
    """Return the error page or, for a request by a script, a short message."""
    request_id = _id_of(ctx.request)
    reply = reply_for(error, where=f"{ctx.request.scope.get(ROUTE, '(no such page)')} ({request_id})")
    trouble = _trouble(ctx.words, reply, request_id)
    frame = (
        bare_shell(ctx, trouble.title) if reply.status >= _OURS else await shell_of(ctx, trouble.title, returns=False)
    )
    return _response(ctx, frame, trouble, reply)


def refused_page(app_context: AppContext, reply: Reply, request: Request) -> Response:
    """Return the error page for a request that was refused before it reached a handler."""
    ctx = new_ctx(app_context, request)
    trouble = _trouble(ctx.words, reply, _id_of(request))
    return _response(ctx, bare_shell(ctx, trouble.title), trouble, reply)


def _response(ctx: PageContext, frame: Shell, trouble: Trouble, reply: Reply) -> Response:
    if ctx.partial:
        response = part(ctx, "word", status=reply.status, trouble=trouble)
        # The message appears in another element of the page (out of band), so the target of the request stays as it is.
        response.headers["HX-Reswap"] = "none"
    else:
        response = framed(ctx, frame, "trouble", status=reply.status, trouble=trouble)
    response.headers.update(dict(reply.headers))
    response.headers["Cache-Control"] = "no-store"
    return response


def _id_of(request: Request) -> str:
    return str(request.scope.get(REQUEST_ID, "-"))

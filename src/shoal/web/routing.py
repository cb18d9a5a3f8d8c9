"""Route declarations of the web app, pages and forms, with the page cache.

The content of a cached page depends on its URL, the member, the language, the appearance, and whether a script asks for a
part. The form token and the request id differ in each response, so the cache holds placeholders for both. A page for members
redirects other visitors to the login page.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import replace
from functools import wraps
from hashlib import sha256
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from shoal.core.errors import SecondFactorNeeded
from shoal.http.responses import MAX_QUERY, NOT_MODIFIED, Reply, encode
from shoal.http.routes import Body, Route
from shoal.mastodon_api.context import Context
from shoal.response_cache import ResponseCache
from shoal.web.assets import pack
from shoal.web.errors import error_page
from shoal.web.layout import look_of
from shoal.web.rendering import HEADERS
from shoal.web.request_context import (
    LANGUAGE_COOKIE,
    LOOK_COOKIE,
    REQUEST_MARK,
    TOKEN_MARK,
    Form,
    LogInFirst,
    Visit,
    asked_language,
    is_local,
    visit_of,
)

_MAX_PATH = 1_000
_TAG_CHARACTERS = 24


class _AnotherAnswer(Exception):
    """The handler returned a response that cannot contain placeholders, such as a redirect or an Atom feed."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


def is_short(request: Request) -> bool:
    """Return whether the URL of a page is short enough to be cached."""
    return len(request.scope["query_string"]) <= MAX_QUERY and len(request.scope["path"]) <= _MAX_PATH


async def remembered_page(
    visit: Visit, context: Context, answers: ResponseCache[Reply], handler: Callable[[Visit], Awaitable[Response]]
) -> Response:
    """Return the current page, from the cache or from its handler. Raises the handler's errors."""

    async def make() -> Reply:
        # The viewer is part of the page, so read the member again.
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
    # A logged-in browser must not cache pages.
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
    """Return a weak ETag that is valid in this browser only, because of the form token; empty for an uncached page."""
    kept = next((value for name, value in reply.headers if name == "ETag"), "")
    told = f"{kept} {visit.browser.name}".encode()
    return f'W/"{sha256(told).hexdigest()[:_TAG_CHARACTERS]}"' if kept else ""


P = TypeVar("P")
PageHandler = Callable[[Visit, P], Awaitable[Response]]

HTML = Body("text/html")


_SECRET = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex"}
_ALWAYS_OPEN = frozenset(
    {
        "",
        "about",
        "comeback",
        "confirm",
        "forgotten",
        "goodbye",
        "invite",
        "keys",
        "login",
        "manifest.webmanifest",
        "oauth",
        "offline",
        "password",
        "reset",
        "signup",
        "undo",
        "welcome",
        "worker.js",
    }
)
"""First path segments of pages that anonymous viewers may see even on a closed network (`public_pages`)."""


def page(
    path: str,
    handler: PageHandler[P],
    params: type[msgspec.Struct] | None = None,
    *,
    once: bool = False,
    remembered: bool = False,
    secret: bool = False,
) -> Route:
    """Return the route of a page.

    Args:
        once: Reject repeated parameters.
        remembered: See `Route`.
        secret: The URL or the page contains a secret: keep both from caches, search engines and other sites.
    """
    return _row("GET", path, handler, params, "pages", 0, once=once, remembered=remembered, secret=secret)


def form(
    path: str,
    handler: PageHandler[P],
    params: type[msgspec.Struct],
    *,
    limit_class: str = "api",
    max_body: int = 0,
    once: bool = False,
    on_disk: bool = False,
    secret: bool = False,
) -> Route:
    """Return the route of a form.

    Args:
        max_body: Maximum size in bytes, for a form with files.
        on_disk: Leave uploaded files on disk.
        secret: As for `page`.
    """
    return _row("POST", path, handler, params, limit_class, max_body, once=once, on_disk=on_disk, secret=secret)


def _row(
    method: str,
    path: str,
    handler: PageHandler[P],
    params: type[msgspec.Struct] | None,
    limit_class: str,
    max_body: int,
    *,
    once: bool,
    on_disk: bool = False,
    remembered: bool = False,
    secret: bool,
) -> Route:
    answering = _answering(handler, open_to_all=path.split("/")[1] in _ALWAYS_OPEN, remembered=remembered)
    return Route(
        method,
        path,
        _kept_secret(answering) if secret else answering,
        auth="browser",
        limit_class=limit_class,
        params=params,
        max_body=max_body or 1 << 16,
        answer=HTML,
        page=True,
        once=once,
        on_disk=on_disk,
    )


def _kept_secret(
    handler: Callable[[Context, P], Awaitable[Response]],
) -> Callable[[Context, P], Awaitable[Response]]:
    """Return a handler whose responses, errors included, are not stored and do not leak their URL to other sites."""

    @wraps(handler)
    async def answer(context: Context, params: P) -> Response:
        response = await handler(context, params)
        response.headers.update(_SECRET)
        return response

    return answer


def _page_of(visit: Visit, params: object) -> str:
    """Return the path of the page that sent the request or, for a page, of the page itself; empty if unknown."""
    if visit.request.method == "GET" and not visit.partial:
        return visit.path
    if isinstance(params, Form) and is_local(params.to):
        return params.to
    origin, referrer = visit.front.at.root, visit.request.headers.get("referer", "")
    path = referrer.removeprefix(origin)
    return path if path != referrer and is_local(path) else ""


def _answering(
    handler: PageHandler[P], *, open_to_all: bool, remembered: bool
) -> Callable[[Context, P], Awaitable[Response]]:
    """Return the handler as the dispatcher calls it: it renders errors as pages and redirects to the login page."""

    async def handled(visit: Visit, params: P) -> Response:
        if not (open_to_all or visit.viewer or visit.front.settings.public_pages):
            raise LogInFirst
        return await handler(visit, params)

    async def made(visit: Visit, context: Context, params: P) -> Response:
        answers = context.deps.answers
        if not remembered or answers is None or not is_short(context.request):
            return await handled(visit, params)
        return await remembered_page(visit, context, answers, lambda marked: handled(marked, params))

    @wraps(handler)
    async def answer(context: Context, params: P) -> Response:
        visit = await visit_of(context)
        response = await answered(visit, context, params)
        language = asked_language(context.request)
        # A shared cache would hand the cookie to others.
        if language and "public" not in response.headers.get("Cache-Control", ""):
            visit.keep_choice(response, LANGUAGE_COOKIE, language)
        return response

    async def answered(visit: Visit, context: Context, params: P) -> Response:
        try:
            return await made(visit, context, params)
        except LogInFirst:
            return visit.go("/login", to=_page_of(visit, params))
        except SecondFactorNeeded:
            return visit.go("/settings/second_factor", needed=1)
        except Exception as error:  # noqa: BLE001 (whatever it is, the table of errors says what is shown)
            return await error_page(visit, error)

    return answer

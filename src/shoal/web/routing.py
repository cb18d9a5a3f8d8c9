"""Route declarations of the web app, pages and forms, with the page cache.

The content of a cached page depends on its URL, the member, the language, the appearance, and whether a script asks for a
part. The form token and the request id differ in each response, so the cache holds placeholders for both. A page for members
redirects other visitors to the login page.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import wraps
from hashlib import sha256
from typing import TypeVar

import msgspec
from starlette.responses import HTMLResponse, Response

from shoal.core.errors import Held, SecondFactorNeeded
from shoal.http.responses import MAX_QUERY, NOT_MODIFIED, Reply, encode
from shoal.http.routes import Body, Route
from shoal.mastodon_api.context import Context
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
    PageContext,
    asked_language,
    ctx_of,
    is_local,
    local,
)

P = TypeVar("P")
PageHandler = Callable[[PageContext, P], Awaitable[Response]]

_MAX_PATH = 1_000
_TAG_CHARACTERS = 24


class _Uncacheable(Exception):
    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


async def _cached_page(
    ctx: PageContext, context: Context, handler: Callable[[PageContext], Awaitable[Response]]
) -> Response:
    """Return a page from the cache if the cached page is current, otherwise from its handler. Raises the handler's errors."""
    scope, caller, cache = context.request.scope, context.caller, context.app.response_cache
    if cache is None or len(scope["query_string"]) > MAX_QUERY or len(scope["path"]) > _MAX_PATH:
        return await handler(ctx)

    async def make() -> Reply:
        # Read the member within `make`, so that the member becomes a dependency of the cached page.
        response = await handler(replace(await ctx_of(context), marked=True))
        if type(response) is not HTMLResponse or response.status_code != 200:
            raise _Uncacheable(response)
        return Reply(bytes(response.body))

    look = look_of(context.request.cookies.get(LOOK_COOKIE, ""))
    viewer = (caller.member_id, caller.role, caller.unguarded, ctx.words.code, look)
    try:
        reply = await cache.get(("page", scope["path"], scope["query_string"], ctx.partial, *viewer), make)
    except _Uncacheable as other:
        return other.response
    return _completed(ctx, reply)


def _completed(ctx: PageContext, reply: Reply) -> Response:
    headers = dict(HEADERS)
    # The browser of a logged-in member must not cache pages, so only visitors get an ETag.
    if ctx.viewer is None and not ctx.browser.is_new and (tag := _tag(ctx, reply)):
        headers |= {"ETag": tag, "Cache-Control": "private, no-cache"}
        if tag in ctx.request.headers.get("if-none-match", ""):
            return Response(status_code=NOT_MODIFIED, headers=headers)
    body = encode(reply.body).replace(TOKEN_MARK.encode(), ctx.browser.form_token.encode())
    response = HTMLResponse(body.replace(REQUEST_MARK.encode(), secrets.token_urlsafe(12).encode()), headers=headers)
    ctx.browser.keep(response)
    pack(ctx.request, response)
    return response


def _tag(ctx: PageContext, reply: Reply) -> str:
    """Return a weak ETag for this browser only; empty for a page that is not cached.

    It differs between browsers because each browser has its own form token.
    """
    tag = dict(reply.headers).get("ETag", "")
    digest = sha256(f"{tag} {ctx.browser.name}".encode()).hexdigest()
    return f'W/"{digest[:_TAG_CHARACTERS]}"' if tag else ""


FORM_BYTES = 1 << 16
_SECRET = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex"}
"""Headers of responses that must not be stored, and whose URL must not reach other sites. Errors get these headers too."""
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
        "share",
        "signup",
        "undo",
        "welcome",
        "worker.js",
    }
)
"""First segments of the paths that anonymous viewers may open even on a closed network (`public_pages`)."""


def page(
    path: str,
    handler: PageHandler[P],
    params: type[msgspec.Struct] | None = None,
    *,
    limit_class: str = "pages",
    once: bool = False,
    cached: bool = False,
    secret: bool = False,
) -> Route:
    """Return the route of a page.

    Args:
        once: Reject repeated parameters.
        cached: Serve the page from the response cache while it is valid.
        secret: The URL or the page contains a secret: keep both from caches, search engines and other sites.
    """
    return Route(
        "GET",
        path,
        _answering(path, handler, cached=cached, secret=secret),
        auth="browser",
        limit_class=limit_class,
        params=params,
        answer=Body("text/html"),
        page=True,
        once=once,
    )


def form(
    path: str,
    handler: PageHandler[P],
    params: type[msgspec.Struct],
    *,
    limit_class: str = "api",
    max_body: int = FORM_BYTES,
    once: bool = False,
    on_disk: bool = False,
    secret: bool = False,
) -> Route:
    """Return the route of a form.

    Args:
        max_body: Maximum size in bytes.
        on_disk: Leave uploaded files on disk.
        secret: The URL or the response contains a secret, as for `page`.
    """
    return Route(
        "POST",
        path,
        _answering(path, handler, secret=secret),
        auth="browser",
        limit_class=limit_class,
        params=params,
        max_body=max_body,
        answer=Body("text/html"),
        page=True,
        once=once,
        on_disk=on_disk,
    )


def _page_of(ctx: PageContext, params: object) -> str:
    """Return the path of the requested page, or of the page that sent the form; empty if it is unknown."""
    if ctx.request.method == "GET" and not ctx.partial:
        return ctx.path
    if isinstance(params, Form) and is_local(params.to):
        return params.to
    origin, referrer = ctx.app.at.root, ctx.request.headers.get("referer", "")
    path = referrer.removeprefix(origin)
    return path if path != referrer and is_local(path) else ""


def _answering(
    path: str, handler: PageHandler[P], *, cached: bool = False, secret: bool
) -> Callable[[Context, P], Awaitable[Response]]:
    """Wrap a handler for the dispatcher. Errors become pages, and visitors are redirected to the login page."""
    open_to_all = path.split("/")[1] in _ALWAYS_OPEN

    async def handled(ctx: PageContext, params: P) -> Response:
        if not (open_to_all or ctx.viewer or ctx.settings.public_pages):
            raise LogInFirst
        return await handler(ctx, params)

    async def answered(ctx: PageContext, context: Context, params: P) -> Response:
        try:
            if cached:
                return await _cached_page(ctx, context, lambda marked: handled(marked, params))
            return await handled(ctx, params)
        except LogInFirst as error:
            to = local(error.to or _page_of(ctx, params), "")
            response = ctx.go("/login", to=to)
            if error.action is not None:
                ctx.browser.postpone(response, error.action(to))
            return response
        except (Held, SecondFactorNeeded) as error:
            return ctx.go("/pending") if isinstance(error, Held) else ctx.go("/settings/second_factor", needed=1)
        except Exception as error:  # noqa: BLE001 (the table of errors has a page for each)
            return await error_page(ctx, error)

    @wraps(handler)
    async def answer(context: Context, params: P) -> Response:
        ctx = await ctx_of(context)
        response = await answered(ctx, context, params)
        language = asked_language(context.request)
        if language and "public" not in response.headers.get("Cache-Control", ""):
            ctx.keep_choice(response, LANGUAGE_COOKIE, language)
        if secret:
            response.headers.update(_SECRET)
        return response

    return answer

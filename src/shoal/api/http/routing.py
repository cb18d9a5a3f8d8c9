"""The route table, and the application that is made of it.

A request goes: relief (`relief.py`), a place (`admission.py`); match, authenticate, rate limit, scope, body, parameters,
handler, JSON (`dispatch.py`). Nothing of the body is read for a caller who may not come in, and every failure becomes an answer
by the table of `errors.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.api.http.calls import ANONYMOUS, Authenticate, Bind, Caller, Context, Route
from shoal.api.http.convert import prepare
from shoal.api.http.declared import complaint
from shoal.api.http.dispatch import Api, ErrorPage, MatchedRoute
from shoal.api.http.html import plain_page
from shoal.api.http.limits.admission import Admission, Gate
from shoal.api.http.limits.intake import Memory, UploadTurns
from shoal.api.http.limits.ip_guard import Barrier, IpGuard
from shoal.api.http.limits.ratelimit import Limiter
from shoal.api.http.limits.relief import Refusal, Relief
from shoal.api.http.matching import Trie, parameters
from shoal.api.http.meter import Meter
from shoal.api.http.middleware import CORS_PATHS, Edge
from shoal.api.http.replies import Reply
from shoal.graph.cache.responses import Answers
from shoal.tracing.recorder import Recorder

_UPDATES = ("PUT", "PATCH")
"""Methods of an update. Mastodon answers both wherever it takes one, and its clients send either."""

__all__ = ["ANONYMOUS", "Authenticate", "Caller", "Context", "Reply", "Route", "build_app"]


async def nobody(_request: Request) -> None:
    """Return None: nobody is logged in, where there are no pages."""


def build_app(
    routes: Iterable[Route],
    deps: object,
    *,
    authenticate: Authenticate,
    log_in: Authenticate = nobody,
    limiter: Limiter,
    files: ASGIApp | None = None,
    is_file: Callable[[str], bool] = lambda _path: False,
    fallback: ASGIApp | None = None,
    websocket: ASGIApp | None = None,
    gate: Gate | None = None,
    refusal: Refusal | None = None,
    memory: Memory | None = None,
    turns: UploadTurns | None = None,
    cors_paths: tuple[str, ...] = CORS_PATHS,
    https: bool = False,
    error_page: ErrorPage | None = None,
    guard: IpGuard | None = None,
    meter: Meter | None = None,
    answers: Answers[Reply] | None = None,
    recorder: Recorder | None = None,
    bind: Bind | None = None,
) -> ASGIApp:
    """The ASGI application of these routes; `TypeError` names the first route that lacks a declaration.

    `files` gets the requests to paths that are files, `fallback` those to unknown paths outside /api, `websocket` every
    WebSocket. The `gate` says how many requests are at work at a time; without one, as many as come. The `refusal` says why
    something that is delivered to others is refused, before anything else. The `memory` is for the bytes of bodies, the `turns`
    are for uploads. `https`: clients come by it. `log_in` says who is logged in in a browser. The `error_page` is for people
    whose page was refused. The `guard` keeps networks out that are blocked, before all of these; without one, none.
    The `meter` counts requests, the `recorder` writes their lines. The `answers` are remembered; without them, none.
    `bind` tells the `deps` who acts, where a route changes something.
    """
    trie: Trie[MatchedRoute] = Trie()
    for route in routes:
        names = parameters(route.path)
        _check(route, names, limiter)
        if route.params is not None:
            prepare(route.params)
        matched = MatchedRoute(route, names, f"{route.method} {route.path}")
        for method in _UPDATES if route.method in _UPDATES else (route.method,):
            trie.add(method, route.path, matched)
    api: ASGIApp = Api(
        trie,
        deps,
        bind,
        authenticate,
        log_in,
        limiter,
        fallback,
        websocket,
        memory or Memory(),
        turns or UploadTurns(),
        error_page or plain_page,
        meter or Meter(),
        answers,
    )
    if files is not None:
        api = _FilesFirst(files, is_file, api)
    app = Admission(api, gate) if gate else api
    if refusal is not None:
        app = Relief(app, partial(_delivers, trie), refusal)
    if guard is not None:
        app = Barrier(app, guard)
    return Edge(app, cors_paths=cors_paths, https=https, recorder=recorder)


class _FilesFirst:
    """An application for files, and another one for all else."""

    def __init__(self, files: ASGIApp, is_file: Callable[[str], bool], otherwise: ASGIApp) -> None:
        self._files = files
        self._is_file = is_file
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection."""
        chosen = self._files if scope["type"] == "http" and self._is_file(scope["path"]) else self._otherwise
        await chosen(scope, receive, send)


def _delivers(trie: Trie[MatchedRoute], method: str, path: str) -> bool:
    found = trie.find(path)
    entry = found[0].get(method) if found else None
    return entry is not None and entry.route.delivers


def _check(route: Route, names: tuple[str, ...], limiter: Limiter) -> None:
    wrong = complaint(
        path_names=names,
        scope=route.scope,
        auth=route.auth,
        role=route.role,
        limit_class=route.limit_class,
        classes=limiter.classes,
        params=route.params,
        max_body=route.max_body,
        answer=route.answer,
    )
    if wrong:
        raise TypeError(f"route {route.method} {route.path}: {wrong}")

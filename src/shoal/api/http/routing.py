"""The route table, and the application that is made of it.

A request goes: relief (`relief.py`), a place (`admission.py`); match, authenticate, rate limit, scope, body, parameters,
handler, JSON (`dispatch.py`). Nothing of the body is read for a caller who may not come in, and every failure becomes an answer
by the table of `errors.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from starlette.types import ASGIApp

from shoal.api.http.calls import ANONYMOUS, Authenticate, Caller, Context, Route
from shoal.api.http.convert import prepare
from shoal.api.http.declared import complaint
from shoal.api.http.dispatch import Api, MatchedRoute
from shoal.api.http.limits.admission import Admission, Gate
from shoal.api.http.limits.intake import Memory, UploadTurns
from shoal.api.http.limits.ip_guard import Barrier, IpGuard
from shoal.api.http.limits.ratelimit import Limiter
from shoal.api.http.limits.relief import Refusal, Relief
from shoal.api.http.matching import Trie, parameters
from shoal.api.http.middleware import CORS_PATHS, Edge
from shoal.api.http.replies import Reply

__all__ = ["ANONYMOUS", "Authenticate", "Caller", "Context", "Reply", "Route", "build_app"]


def build_app(
    routes: Iterable[Route],
    deps: object,
    *,
    authenticate: Authenticate,
    limiter: Limiter,
    fallback: ASGIApp | None = None,
    websocket: ASGIApp | None = None,
    gate: Gate | None = None,
    refusal: Refusal | None = None,
    memory: Memory | None = None,
    turns: UploadTurns | None = None,
    cors_paths: tuple[str, ...] = CORS_PATHS,
    https: bool = False,
    base: str = "",
    guard: IpGuard | None = None,
) -> ASGIApp:
    """The ASGI application of these routes; `TypeError` names the first route that lacks a declaration.

    `fallback` gets the requests to unknown paths outside /api, `websocket` every WebSocket. The `gate` says how many requests are
    at work at a time; without one, as many as come. The `refusal` says why something that is delivered to others is refused, before
    anything else. The `memory` is for the bytes of bodies, the `turns` are for uploads. `https`: clients come by it.
    `base` is the path at which clients find the root.
    The `guard` keeps networks out that are blocked, before all of these; without one, none.
    """
    trie: Trie[MatchedRoute] = Trie()
    for route in routes:
        names = parameters(route.path)
        _check(route, names, limiter)
        if route.params is not None:
            prepare(route.params)
        trie.add(route.method, route.path, MatchedRoute(route, names))
    api: ASGIApp = Api(
        trie, deps, authenticate, limiter, fallback, websocket, memory or Memory(), turns or UploadTurns(), base
    )
    app = Admission(api, gate) if gate else api
    if refusal is not None:
        app = Relief(app, partial(_delivers, trie), refusal)
    if guard is not None:
        app = Barrier(app, guard)
    return Edge(app, cors_paths=cors_paths, https=https)


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

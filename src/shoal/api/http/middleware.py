"""Wrap every request: cross-origin rules, the request id, its record, and security headers for browsers, on errors as on
answers. Pure ASGI, a few microseconds.

Web clients of the API come from other origins and carry a token, never a cookie, so every origin is let in.
"""

from __future__ import annotations

import itertools
import re
import secrets
from functools import partial

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.api.http.recorded import run
from shoal.tracing.record import name_route
from shoal.tracing.recorder import Recorder

CORS_PATHS = (
    "/api/",
    "/oauth/token",
    "/oauth/revoke",
    "/oauth/userinfo",
    "/.well-known/",
    "/nodeinfo/",
    "/media/",
    "/openapi.json",
)
"""Beginnings of the paths that pages of other origins may read."""

_ORIGIN = (b"access-control-allow-origin", b"*")
_EXPOSE = (
    b"access-control-expose-headers",
    b"Link, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id",
)
_PREFLIGHT = (
    _ORIGIN,
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", b"Authorization, Content-Type, Idempotency-Key, Last-Event-ID"),
    (b"access-control-max-age", b"86400"),
)
_EVERYWHERE = ((b"x-content-type-options", b"nosniff"),)
_SECURE = ((b"strict-transport-security", b"max-age=31536000"),)
"""Tells clients that came by https to keep using it for a year. Subdomains are left out: they are not ours."""
_PAGE = ((b"content-security-policy", b"frame-ancestors 'none'"), (b"x-frame-options", b"DENY"))
"""Headers that keep other origins from showing a page in a frame. They add to the policy that the page has."""
FRAMED_PATHS = ("/embed/",)
"""Beginnings of the paths of pages that are made to be shown in a frame of another origin."""
_RECORDED = ("http", "websocket")
_BEGUN = ("websocket.accept", "websocket.http.response.start")
_GOOD_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")

REQUEST_ID = "shoal.request_id"
"""Where the id of a request is in its ASGI scope, as text."""
ROUTE = "shoal.route"
"""Where the method and path template of a matched route are in the ASGI scope. A path itself may hold a secret."""


class Edge:
    """The outermost application: answers preflights, adds headers to whatever the inner one answers."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        cors_paths: tuple[str, ...] = CORS_PATHS,
        https: bool = False,
        recorder: Recorder | None = None,
    ) -> None:
        self._app = app
        self._recorder = recorder or Recorder()
        self._cors_paths = cors_paths
        always = _EVERYWHERE + (_SECURE if https else ())
        self._page = always + _PAGE
        self._framed = always
        self._shared = (_ORIGIN, _EXPOSE, *always)
        # An id need only be unique, so one random part for the process and a number are enough.
        self._process = secrets.token_hex(6)
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection."""
        kind = scope["type"]
        if kind not in _RECORDED:
            await self._app(scope, receive, send)
            return
        request_id, traced = self._request_id(scope)
        method = scope.get("method", "GET")
        record = self._recorder.begin(scope[REQUEST_ID], method, scope["headers"], traced=traced)
        answer = self._request if kind == "http" else self._socket
        if record is None:
            await answer(scope, receive, send, request_id)
        else:
            await run(partial(answer, request_id=request_id), self._recorder, record, scope, receive, send)

    async def _socket(self, scope: Scope, receive: Receive, send: Send, request_id: bytes) -> None:
        async def send_more(message: Message) -> None:
            if message["type"] in _BEGUN:
                message = {**message, "headers": [*message.get("headers", ()), (b"x-request-id", request_id)]}
            await send(message)

        await self._app(scope, receive, send_more)

    async def _request(self, scope: Scope, receive: Receive, send: Send, request_id: bytes) -> None:
        named = (b"x-request-id", request_id)
        if not scope["path"].startswith(self._cors_paths):
            framed = scope["path"].startswith(FRAMED_PATHS)
            extra: tuple[tuple[bytes, bytes], ...] = (*(self._framed if framed else self._page), named)
        elif scope["method"] == "OPTIONS":
            name_route("(preflight)")
            await send({"type": "http.response.start", "status": 204, "headers": [*_PREFLIGHT, named]})
            await send({"type": "http.response.body", "body": b""})
            return
        else:
            extra = (*self._shared, named)

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        await self._app(scope, receive, send_more)

    def _request_id(self, scope: Scope) -> tuple[bytes, bool]:
        """Return the id that a proxy in front gave, when it is harmless, or a new one; and whether it named a trace."""
        traced = False
        given = b""
        for name, value in scope["headers"]:
            if name == b"x-request-id":
                given = given or (value if _GOOD_ID.fullmatch(value) else b"")
            elif name == b"traceparent":
                traced = True
        scope[REQUEST_ID] = made = given.decode() or f"{self._process}{next(self._numbers):08x}"
        return bytes(given) or made.encode(), traced

"""ASGI middleware: CORS, request ids, request records, security headers, and rate limits of pages and files.

It applies to errors as well as to successful responses, and costs a few microseconds. Web clients of the API come from other
origins and send a token, never a cookie, so every origin is allowed.
"""

from __future__ import annotations

import itertools
import re
import secrets
from functools import partial
from time import perf_counter

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.core.errors import TooMany
from shoal.http import rate_limits
from shoal.http.errors import reply_for
from shoal.observability.request_log import Recorder
from shoal.observability.request_metrics import Meter, Stages
from shoal.observability.tracing import (
    AUTHENTICATE,
    HANDLE,
    SEND,
    Record,
    begin_recording,
    end_recording,
    enter,
    name_route,
)

SWITCHED, REFUSED = 101, 403


async def run(app: ASGIApp, recorder: Recorder, record: Record, scope: Scope, receive: Receive, send: Send) -> None:
    """Run the application, and end the record with it."""
    failure: BaseException | None = None
    token = begin_recording(record)
    try:
        await app(scope, receive, _counting(record, send))
    except BaseException as error:
        failure = error
        raise
    finally:
        end_recording(token)
        recorder.end(record, failure)


def _counting(record: Record, send: Send) -> Send:
    async def counted(message: Message) -> None:
        note = _NOTES.get(message["type"])
        if note is not None:
            note(record, message)
        await send(message)

    return counted


def _start(record: Record, message: Message) -> None:
    record.status = message["status"]
    record.enter(SEND)


def _body(record: Record, message: Message) -> None:
    if record.method != "HEAD":
        record.bytes += len(message.get("body", b""))
    record.complete = not message.get("more_body", False)


def _accept(record: Record, _message: Message) -> None:
    record.status, record.complete = SWITCHED, True
    record.enter(SEND)


def _frame(record: Record, message: Message) -> None:
    record.bytes += len((message.get("text") or "").encode()) + len(message.get("bytes") or b"")


def _close(record: Record, _message: Message) -> None:
    # Before it was accepted, this refuses the handshake.
    record.status = record.status or REFUSED
    record.complete = True


_NOTES = {
    "http.response.start": _start,
    "http.response.body": _body,
    "websocket.http.response.start": _start,
    "websocket.http.response.body": _body,
    "websocket.accept": _accept,
    "websocket.send": _frame,
    "websocket.close": _close,
}


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


class Limited:
    """An application that is asked so often at most as the limiter says for this class.

    The `meter` counts its requests under the name `route`: the time until an answer begins, as a client may take long over a file.
    """

    def __init__(
        self, app: ASGIApp, limiter: rate_limits.Limiter, limit_class: str, meter: Meter | None = None, route: str = ""
    ) -> None:
        self._app = app
        self._limiter = limiter
        self._limit_class = limit_class
        self._meter = meter or Meter()
        self._route = route or f"({limit_class})"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        began = perf_counter()
        name_route(self._route)
        enter(AUTHENTICATE)
        key = rate_limits.RateKey(self._limit_class, rate_limits.address_of(scope))
        window = await self._limiter.take(key)
        admitted = perf_counter()
        enter(HANDLE)
        more = [] if window is None else rate_limits.headers(window)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                stages = Stages((admitted - began) * 1e3, (perf_counter() - admitted) * 1e3, 0.0)
                self._meter.note(self._route, message["status"], stages, str(scope.get(REQUEST_ID, "-")))
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        app = _refusal(window.wait) if window is not None and window.wait else self._app
        await app(scope, receive, send_with_headers)


def _refusal(wait: float) -> ASGIApp:
    """For people to read as for programs."""
    reply = reply_for(TooMany("Too many requests", retry_after=wait))
    return PlainTextResponse("Too many requests: try again in a few minutes", reply.status, dict(reply.headers))

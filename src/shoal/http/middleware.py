"""ASGI middleware: CORS, request ids, request records, security headers, IP blocks, admission control and load shedding.

It applies to errors as well as to successful responses, and costs a few microseconds. Web clients of the API come from other
origins and send a token, never a cookie, so every origin is allowed.

Admission control: requests beyond the queue get 503 with `Retry-After` at once, because an unbounded server finishes nothing in
time. A slot is held from admission until the response begins. Streams and downloads do not hold one while they run, and neither
does a request whose client is still sending.

Load shedding: while deliveries are behind, new posts are refused before a slot is taken, before authentication, and without
reading the body, so a refusal costs almost nothing.

IP blocks: a request costs nothing while there are no blocks, and a look-up in a cached table otherwise. `serve` checks every two
seconds whether the blocks have changed; without `serve`, a request does. A change made by this process is read at once. Open
streams end when their token is read again (`Pace.check`). While the store cannot be read, the last table stays in force.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import re
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.commands import blocklists
from shoal.core.blocklists import IpSeverity, IpTable, most_severe
from shoal.core.errors import NotAllowed, ShoalError, TooMany, Unavailable
from shoal.core.ids import now_ms
from shoal.graph.cache.coherence import another_request
from shoal.graph.contract import Reader
from shoal.http import rate_limits
from shoal.http.errors import reply_for
from shoal.http.responses import BodyReceiver, deliver, encode
from shoal.observability.requests import Meter, Recorder, Stages
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
from shoal.tasks import running
from shoal.throttled_log import ThrottledLog

_ALWAYS = frozenset({"/health", "/ready"})

_BUSY = reply_for(Unavailable("The server is busy; try again in a moment", retry_after=1.0))
_BUSY_JSON = encode(_BUSY.body)

_ADMITTED = "shoal.admitted"
"""Key of the admitted request in its ASGI scope."""

_Queue = deque[asyncio.Future[None]]


class Gate:
    def __init__(self, slots: int, waiting: int, seconds: float) -> None:
        self._slots = self._free = slots
        self._most = waiting
        self._seconds = seconds
        self._waiting: _Queue = deque()
        self._returning: _Queue = deque()
        self.refused = 0

    @property
    def at_work(self) -> int:
        """Number of requests that hold a slot now."""
        return self._slots - self._free

    @property
    def waiting(self) -> int:
        """Number of requests that wait for a slot, including requests that wait to take back a slot that they released."""
        return len(self._waiting) + len(self._returning)

    async def enter(self) -> bool:
        """Take a slot, in order of arrival. Return False if the queue is full or the wait was too long."""
        if self._free:
            self._free -= 1
            return True
        if len(self._waiting) >= self._most:
            self.refused += 1
            return False
        try:
            await self._wait_in(self._waiting, self._seconds)
        except TimeoutError:
            self.refused += 1
            return False
        return True

    async def again(self) -> None:
        """Take a released slot back, with priority over requests that have not had a slot yet."""
        if self._free:
            self._free -= 1
        else:
            await self._wait_in(self._returning, None)

    def leave(self) -> None:
        """Release the slot of a request and give it to the next waiting request."""
        for queue in (self._returning, self._waiting):
            while queue:
                waiter = queue.popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    return
        self._free += 1

    async def _wait_in(self, queue: _Queue, seconds: float | None) -> None:
        waiter = asyncio.get_running_loop().create_future()
        queue.append(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                # The slot was granted just when this task was cancelled, so release it.
                self.leave()
            elif waiter in queue:
                queue.remove(waiter)
            raise


@asynccontextmanager
async def outside(scope: Scope) -> AsyncIterator[None]:
    """Release the request's slot in the `Gate` during the block, for a wait that has a separate limit."""
    admitted: _AdmittedRequest | None = scope.get(_ADMITTED)
    if admitted is None:
        yield
        return
    admitted.step_out()
    try:
        yield
    finally:
        await admitted.step_in()


class Admission:
    """Middleware that admits requests through a `Gate`."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _ALWAYS:
            await self._app(scope, receive, send)
        elif await self._gate.enter():
            admitted = scope[_ADMITTED] = _AdmittedRequest(self._gate, receive, send)
            try:
                await self._app(scope, admitted.receive, admitted.send)
            finally:
                admitted.leave()
                # Break the reference cycle with the server's request object, which would keep the body until garbage collection.
                del scope[_ADMITTED]
        else:
            await deliver(_BUSY, _BUSY_JSON, [], BodyReceiver(scope, receive), send)


class _AdmittedRequest:
    """A request that a `Gate` admitted, and that holds a slot except while it waits for the client."""

    __slots__ = ("_gate", "_holds", "_over", "_receive", "_send")

    def __init__(self, gate: Gate, receive: Receive, send: Send) -> None:
        self._gate = gate
        self._receive = receive
        self._send = send
        self._holds = True
        self._over = False

    async def receive(self) -> Message:
        """Receive the client's next message. The request releases its slot of the `Gate` while it waits for the message."""
        if self._over:
            return await self._receive()
        self.step_out()
        message = await self._receive()
        await self.step_in()
        return message

    async def send(self, message: Message) -> None:
        """Send a message. The first message of a response releases the slot of the `Gate`, because the work is done by then."""
        self.leave()
        await self._send(message)

    def leave(self) -> None:
        """Release the slot of the `Gate` permanently."""
        self._over = True
        self.step_out()

    def step_out(self) -> None:
        """Release the slot of the `Gate` until `step_in`."""
        if self._holds:
            self._holds = False
            self._gate.leave()

    async def step_in(self) -> None:
        """Take the slot of the `Gate` back, unless it was released permanently."""
        if self._needs_slot():
            await self._gate.again()
            if self._needs_slot():
                self._holds = True
            else:
                # Return this slot, because the response has begun or another task of this request has a slot.
                self._gate.leave()

    def _needs_slot(self) -> bool:
        return not (self._over or self._holds)


Refusal = Callable[[], ShoalError | None]
"""Returns an error if a request must be refused, otherwise None. Call it once for each request."""


class LoadShedding:
    """Middleware that refuses requests which cause fan-out while `refusal` returns an error."""

    def __init__(self, app: ASGIApp, delivers: Callable[[str], bool], refusal: Refusal) -> None:
        self._app = app
        self._delivers = delivers
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] == "http"
            and scope["method"] == "POST"
            and self._delivers(scope["path"])
            and (error := self._refusal()) is not None
        ):
            reply = reply_for(error)
            await deliver(reply, encode(reply.body), [], BodyReceiver(scope, receive), send)
        else:
            await self._app(scope, receive, send)


_log = logging.getLogger(__name__)

_EVERY_SECONDS = 2.0
_STALE_SECONDS = 10.0
"""Age of the table of IP blocks beyond which a request waits for a refresh."""
_PATIENCE_SECONDS = 5.0
"""Timeout of a refresh of the table of IP blocks.

It is shorter than the timeouts of monitoring requests, which may wait for a refresh.
"""

_REFUSED = "Your IP address has no access to this server"
_REFUSAL = reply_for(NotAllowed(_REFUSED))
_REFUSAL_JSON = encode(_REFUSAL.body)


class IpGuard:
    """The IP blocks, as a table in this process that is refreshed from the graph."""

    def __init__(self, graph: Reader, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._graph = graph
        self._clock = clock
        self._table = IpTable()
        self._version = 0
        self._looked = float("-inf")
        self._wait_in = asyncio.Lock()
        self._outage = ThrottledLog(_log)
        self.watched = False
        """Whether `watching` refreshes the table, so that no request needs to."""
        self._used = False
        self.refused = 0

    def is_due(self) -> bool:
        return self._clock() - self._looked > _EVERY_SECONDS

    async def catch_up(self) -> None:
        """Refresh the table of IP blocks, unless it is recent enough or another task is refreshing it."""
        if self._wait_in.locked() and self._clock() - self._looked < _STALE_SECONDS:
            return
        async with self._wait_in:
            if self.is_due():
                await self._look()

    async def look(self) -> None:
        """Refresh the table of IP blocks. Changes committed before this call are in force when it returns."""
        async with self._wait_in:
            await self._look()

    async def _look(self) -> None:
        began = self._clock()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                with another_request():
                    await self._read()
        except (ShoalError, TimeoutError) as error:
            self._outage.warning(
                "reading IP blocks failed, the previous ones stay in force: %s", str(error) or "timeout"
            )
        self._looked = began

    async def _read(self) -> None:
        # Read the version before the blocks, so that a change between the two reads is detected next time.
        version = await blocklists.ip_blocks_version(self._graph)
        if version != self._version:
            blocks = await blocklists.all_ip_blocks(self._graph)
            # In a thread, because parsing thousands of address ranges takes 100 ms.
            self._table = await asyncio.to_thread(IpTable, blocks)
            self._version = version

    def severity(self, scope: Scope) -> IpSeverity | None:
        """Return the severity of the most severe IP block for the client of a connection, or None."""
        self._used = True
        if self._table.is_empty:
            return None
        found = self._table.blocks_of(client_of(scope))
        return most_severe(found, now_ms()) if found else None

    def check(self, scope: Scope) -> None:
        if self.severity(scope) is IpSeverity.NO_ACCESS:
            raise NotAllowed(_REFUSED)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        self.watched = True
        await self.look()
        try:
            async with running(self._watch(), "shoal-ip-blocks"):
                yield
        finally:
            self.watched = False

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            # In an idle process, the next request refreshes the table.
            self.watched, self._used = self._used, False
            if self.watched:
                await self.look()


class IpBlocking:
    """Middleware that refuses clients in blocked address ranges before any other work is done."""

    def __init__(self, app: ASGIApp, guard: IpGuard) -> None:
        self._app = app
        self._guard = guard

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if self._guard.watched and self._guard.severity(scope) is not IpSeverity.NO_ACCESS:
            return self._app(scope, receive, send)
        return self._guarded(scope, receive, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._guard.watched and self._guard.is_due():
            await self._guard.catch_up()
        if self._guard.severity(scope) is not IpSeverity.NO_ACCESS or scope["path"] in _ALWAYS:
            await self._app(scope, receive, send)
            return
        self._guard.refused += 1
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await deliver(_REFUSAL, _REFUSAL_JSON, [], BodyReceiver(scope, receive), send)


def client_of(scope: Scope) -> str:
    """Return the client's address, as reported by trusted proxies; empty if unknown."""
    client = scope.get("client")
    return str(client[0]) if client else ""


async def _record(app: ASGIApp, recorder: Recorder, record: Record, scope: Scope, receive: Receive, send: Send) -> None:
    async def send_observed(message: Message) -> None:
        _note(record, message)
        await send(message)

    failure: BaseException | None = None
    token = begin_recording(record)
    try:
        await app(scope, receive, send_observed)
    except BaseException as error:
        failure = error
        raise
    finally:
        end_recording(token)
        recorder.end(record, failure)


def _note(record: Record, message: Message) -> None:
    match message["type"]:
        case "http.response.start" | "websocket.http.response.start":
            record.status = message["status"]
            record.enter(SEND)
        case "http.response.body" | "websocket.http.response.body":
            if record.method != "HEAD":
                record.bytes += len(message.get("body", b""))
            record.complete = not message.get("more_body", False)
        case "websocket.accept":
            record.status, record.complete = 101, True
            record.enter(SEND)
        case "websocket.send":
            record.bytes += len((message.get("text") or "").encode()) + len(message.get("bytes") or b"")
        case "websocket.close":
            # If an application closes a WebSocket before accepting it, the server answers the handshake with 403.
            record.status = record.status or 403
            record.complete = True


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
"""Path prefixes that pages of other origins may read."""

_ORIGIN = (b"access-control-allow-origin", b"*")
_EXPOSE = (
    b"access-control-expose-headers",
    b"Link, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id, Retry-After",
)
_PREFLIGHT = (
    _ORIGIN,
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", b"Authorization, Content-Type, Idempotency-Key, Last-Event-ID"),
    (b"access-control-max-age", b"86400"),
)
_EVERYWHERE = ((b"x-content-type-options", b"nosniff"),)
_SECURE = ((b"strict-transport-security", b"max-age=31536000"),)
"""The header that makes browsers use HTTPS for a year. Subdomains are excluded, because another program may serve them."""
_PAGE = ((b"content-security-policy", b"frame-ancestors 'none'"), (b"x-frame-options", b"DENY"))
"""Headers that prevent other sites from showing a page in a frame, in addition to the page's content security policy."""
FRAMED_PATHS = ("/embed/",)
"""Path prefixes of pages that other origins may frame."""
_RECORDED = ("http", "websocket")
_BEGUN = ("websocket.accept", "websocket.http.response.start")
_GOOD_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")

REQUEST_ID = "shoal.request_id"
"""Key of the request id in the ASGI scope, a `str`."""
ROUTE = "shoal.route"
"""Key of the matched route in the ASGI scope: method and path template.

The actual path is not used, because it may contain a secret.
"""


class Edge:
    """The outermost middleware: answers CORS preflights, adds headers to every response, and records requests."""

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
        # A request id consists of this random prefix, which differs in each process, and of a counter.
        self._process = secrets.token_hex(6)
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
            await _record(partial(answer, request_id=request_id), self._recorder, record, scope, receive, send)

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
        """Return the request id, and whether it is from a `traceparent` header.

        A proxy's id is used if it is well-formed, otherwise a new id.
        """
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
    """Middleware that limits the request rate of each client address, by the rule of `limit_class`.

    `meter` records the requests under the name `route`. The measured time ends when the response begins, because a
    client may download a file slowly.
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
    reply = reply_for(TooMany("Too many requests", retry_after=wait))
    return PlainTextResponse("Too many requests: try again in a few minutes", reply.status, dict(reply.headers))

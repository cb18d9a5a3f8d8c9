"""HTTP/1.1 on uvicorn with limits on connections, on the size and time of a head, and on the speed of a body.

| client | response |
|---|---|
| opens too many connections | 503, or 429 if too many are from its address, and close |
| sends nothing | close |
| does not finish a head in time | 408 and close |
| sends a head that is too large | 431 and close |
| sends no `Host` in HTTP/1.1, or two | 400 and close |
| sends a body too slowly | 408 and close |
| does not read its response | close |

A response of known length is sent as one buffer and its head is checked as a whole. uvicorn checks each header with two regular
expressions and writes head and body separately, which costs a fifth of a cached response. Responses of unknown length or in
parts, responses that end the connection, and invalid heads take uvicorn's path.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable
from contextvars import Context
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, Final, cast

import httptools
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from shoal.http.connection_passing import Passing
from shoal.http.connections import Idleness, OpenConnections
from shoal.http.responses import NOT_MODIFIED, RawHeader

_FIRST: Final = 200
_LENGTH = b"content-length"
_APART = frozenset((b"connection", b"transfer-encoding"))
_CONTROLS = bytes((*range(0x20), 0x7F)).replace(b"\t", b"")
_LINE_END = 2


class WholeResponses:
    """Sends the response to one request, in a single write if the length is known in advance."""

    __slots__ = ("_app", "_cycle", "_send", "_start")

    def __init__(self, app: ASGIApp, cycle: RequestResponseCycle) -> None:
        self._app = app
        self._cycle = cycle
        self._start: Message | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send = send
        await self._app(scope, receive, self._one)

    async def _one(self, message: Message) -> None:
        start, self._start = self._start, None
        if start is None:
            if message["type"] == "http.response.start" and _has_length(message):
                self._start = message
            else:
                await self._send(message)
        elif not _written(self._cycle, start, message):
            await self._send(start)
            await self._send(message)


def _written(cycle: RequestResponseCycle, start: Message, message: Message) -> bool:
    """Write a complete response. Return False, without writing, if uvicorn must send it."""
    if message["type"] != "http.response.body" or message.get("more_body") or cycle.scope["method"] == "HEAD":
        return False
    if cycle.response_started or not cycle.keep_alive or cycle.flow.write_paused or cycle.disconnected:
        return False
    body = message.get("body", b"")
    head = head_of(start["status"], (*cycle.default_headers, *start["headers"]), len(body))
    if head is None:
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(head + body)
    cycle.message_event.set()
    cycle.on_response()
    return True


def _has_length(start: Message) -> bool:
    return start["status"] == NOT_MODIFIED or any(name == _LENGTH for name, _ in start.get("headers", ()))


def head_of(status: int, headers: Iterable[RawHeader], size: int) -> bytes | None:
    """Encode the status line and headers of a response with a body of `size` bytes; None if uvicorn must encode them."""
    if status < _FIRST:
        return None
    parts = [STATUS_LINE[status]]
    lines = 2
    for name, value in headers:
        begin = _begin(name)
        if begin is None or (name == _LENGTH and value != b"%d" % size):
            return None
        parts += (begin, value, b"\r\n")
        lines += 1
    if size and status == NOT_MODIFIED:
        return None
    parts.append(b"\r\n")
    head = b"".join(parts)
    # A control character in a header could inject another header: return None, so that uvicorn checks the headers.
    return head if len(head) - len(head.translate(None, _CONTROLS)) == _LINE_END * lines else None


@lru_cache(256)
def _begin(name: bytes) -> bytes | None:
    """Encode the name of a response header and the colon; None for a name that only uvicorn can handle."""
    plain = name not in _APART and name.replace(b"-", b"").isalnum() and name == name.lower()
    return name + b": " if plain else None


_ALWAYS = (b"/health", b"/ready")
"""Paths that are served however many concurrent requests their client has."""
_AGAIN_SECONDS = 0.05

SENTENCES = {
    400: "This is not HTTP",
    408: "The request did not come in time",
    429: "Too many connections from this address",
    431: "The head of the request is too large",
    503: "The server is busy; try again in a moment",
}

_ONE_HOST = "A request has exactly one Host header, with a valid host (RFC 9112, section 3.2)"
_WITHOUT_HOST = frozenset({"0.9", "1.0"})
_HOST = re.compile(rb"(?:\[[\w.~%!$&'()*+,;=:-]+\]|[\w.~%!$&'()*+,;=-]*)(?::([0-9]{0,5}))?")
"""A host, and its port if it has one (RFC 3986, sections 3.2.2 and 3.2.3)."""
_MAX_PORT = 65_535


def _is_host(value: bytes) -> bool:
    found = _HOST.fullmatch(value)
    return found is not None and int(found[1] or 0) <= _MAX_PORT


class Config(uvicorn.Config):
    """The configuration of uvicorn, extended by connection limits and by passing connections to other processes."""

    def __init__(
        self, app: Any, connections: OpenConnections, *, passing: Passing | None = None, **options: Any
    ) -> None:
        http = HttpConnection if passing is None else PassedConnection
        super().__init__(app, http=http, ws=SocketConnection, proxy_headers=False, **options)
        self.connections = connections
        self.passing = passing


class HttpConnection(HttpToolsProtocol):
    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._all = config.connections
        self._patience = config.connections.patience
        self.peer = ""
        self._proxied = self._doubtful = self._refused_at_once = self._evicted = False
        self._clients: list[str] = []
        """Client addresses of the current requests, as reported by a trusted proxy, oldest request first."""
        self._in_head = True
        self._waited = 0.0
        self._behind = 0.0
        """Bytes by which the body is behind the minimum rate; negative if it is ahead."""
        self._stuck = 0.0
        self._piece = self._first = 0
        """`_piece`: bytes of the newest piece of data. `_first`: bytes of the piece of data in which the request began."""
        self._extra = 0
        """Bytes outside the body that arrived after the piece counted in `_first`: the rest of the head, chunk sizes, trailers."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self.peer = self.client[0] if self.client else ""
        self._proxied = self._all.proxies.trusts(self.peer)
        self._doubtful = self._all.doubts.about(self.peer)
        self.timeout_keep_alive = self._patience.idle_proxy if self._proxied else self._patience.idle  # type: ignore[assignment]  # seconds all the same
        # Watch the connection only after it was counted, so that it is not evicted to make room for itself.
        status = self._all.enter(self.peer)
        self._all.watched.add(self)
        if status:
            self._refused_at_once = True
            self._refuse(status)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._all.watched.discard(self)
        self._all.leave(self.peer, refused=self._refused_at_once, evicted=self._evicted)
        for client in self._clients:
            self._all.end(client)
        self._clients.clear()

    def data_received(self, data: bytes) -> None:
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
            self._in_head, self._waited = True, 0.0
        self._piece = len(data)
        self._extra += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
                return
        except httptools.HttpParserError:
            self._refuse(400)
        if self._extra > self._patience.head_bytes:
            self._refuse(431)

    def on_message_begin(self) -> None:
        """Begin to measure the size of a request's head. The request begins in the piece of data that is being parsed."""
        super().on_message_begin()
        self._first, self._extra = self._piece, 0

    def on_headers_complete(self) -> None:
        """Refuse a request whose head is too large, or does not name exactly one host."""
        self._in_head = False
        self._behind = -self._patience.grace * self._patience.rate
        if self._first + self._extra > self._patience.head_bytes and self._head_size() > self._patience.head_bytes:
            self._refuse(431)
            raise _Refused
        hosts = [value for name, value in self.headers if name == b"host"]
        least = 0 if self.parser.get_http_version() in _WITHOUT_HOST else 1
        if not least <= len(hosts) <= 1 or not all(map(_is_host, hosts)):
            self._refuse(400, _ONE_HOST)
            raise _Refused
        if self._doubtful:
            self._all.doubts.look(self.peer, self.headers)
        if self._proxied:
            self._begin()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Subtract the body and the framing of its chunks from `_extra`, which measures the size of a head.

        A chunk of one byte has five bytes of framing.
        """
        self._extra -= min(self._extra, 9 * len(body))
        self._behind -= len(body)
        super().on_body(body)

    def on_response_complete(self) -> None:
        # Run in an empty context: the idle timer that this call starts would keep the objects in the context of the request alive.
        Context().run(super().on_response_complete)
        if self._clients:
            self._all.end(self._clients.pop(0))

    def resume_writing(self) -> None:
        self._stuck = 0.0
        super().resume_writing()

    def handle_websocket_upgrade(self) -> None:
        """Replace this protocol by a `SocketConnection`, unless the client is over its limit."""
        if self.app is _too_many:
            self._refuse(429)
        else:
            super().handle_websocket_upgrade()

    def hand_over(self) -> tuple[tuple[str, int] | None, Callable[[], None]]:
        self._all.watched.discard(self)
        return self.scope["client"], self._left

    def _left(self) -> None:
        self._all.leave(self.peer)
        for client in self._clients:
            self._all.end(client)

    def tick(self) -> None:
        """Close the connection, or refuse its request, if the client sends or reads too slowly."""
        patience, cycle = self._patience, self.cycle
        if self.transport.is_closing() or self.flow.write_paused:
            self._stuck += patience.interval
            if self._stuck > patience.unread:
                self.transport.abort()
        elif self._in_head:
            self._waited += patience.interval
            if self._waited > patience.head:
                # Close the connection without a response if the client has sent nothing.
                self._refuse(408 if self._first else 0)
        elif cycle.more_body and not (
            cycle.response_complete or cycle.waiting_for_100_continue or self.flow.read_paused
        ):
            self._behind = max(self._behind, -patience.advance * patience.rate) + patience.rate * patience.interval
            if self._behind > 0:
                self._refuse(408)

    def idleness(self) -> Idleness | None:
        """Return how idle or slow the connection is; None if it is computing a response or closing."""
        cycle = self.cycle
        if self.transport.is_closing() or self._proxied:
            return None
        if self.timeout_keep_alive_task is not None:
            return Idleness(2, 0.0)
        if self._in_head:
            return Idleness(1, self._waited)
        if self._stuck:
            return Idleness(0, self._stuck)
        sending = cycle.more_body and not cycle.response_complete and not self.flow.read_paused
        return Idleness(0, self._behind / self._patience.rate) if sending else None

    def evict(self) -> None:
        self._evicted = True
        self._refuse(0 if self.timeout_keep_alive_task is not None or not self._first else 503)
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        def start(app: ASGIApp) -> None:
            if not self.transport.is_closing():
                super(HttpConnection, self)._start_asgi_task(cycle, cast("Any", WholeResponses(app, cycle)))

        def refuse() -> None:
            if self.transport.is_closing() or not _written(cycle, *_busy.messages):
                start(_busy)

        always = self.url.partition(b"?")[0] in _ALWAYS
        self._all.pace.begin(partial(start, app), None if always else refuse)

    def _begin(self) -> None:
        """Read the client's address from the proxy's headers, and count the request for that client."""
        self.app = self.config.loaded_app
        client = self._all.proxies.client(self.peer, self.headers)
        self.scope["client"] = (client, 0)
        self._clients.append(client)
        if not self._all.begin(client) and self.url.partition(b"?")[0] not in _ALWAYS:
            self.app = _too_many

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _refuse(self, status: int, sentence: str = "") -> None:
        """Close the connection. First send a response with this status, unless a response has begun."""
        if self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle
        if status and (cycle is None or cycle.response_complete or not cycle.response_started):
            self.transport.write(_answer(status, sentence) if sentence else _ANSWERS[status])
        self.transport.close()


class PassedConnection(HttpConnection):
    """A connection in a multi-process server, which may pass it to another process between two requests (`passing`).

    `begun` has the bytes that the previous process received from the client but did not process.
    """

    def __init__(self, config: Config, *parts: Any, begun: bytes = b"", **more: Any) -> None:
        super().__init__(config, *parts, **more)
        self._passing: Passing = config.passing  # type: ignore[assignment]  # with None, a Config makes no such connections
        self._begun = begun
        self._streak = 0
        """Consecutive read-only requests."""
        self._within = self._given = False
        self._postponed = b""
        """Bytes that arrived during a response."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._begun and not self.transport.is_closing():
            self._feed(self._begun, reads=self._passing.only_reads(self._begun))

    def data_received(self, data: bytes) -> None:
        if self._given:
            return
        if self._within:
            super().data_received(data)
            return
        if self._postponed or self._is_answering():
            self._postpone(data)
            return
        reads = self._passing.only_reads(data)
        slot = self._passing.target(reads=reads, streak=self._streak)
        if slot is None:
            self._feed(data, reads=reads)
        elif self.transport.get_write_buffer_size():
            # The last response is still being written. Another process that answered now would write into it.
            self._postpone(data)
            self.loop.call_later(_AGAIN_SECONDS, self._release)
        else:
            self._give(slot, data)

    def on_message_begin(self) -> None:
        self._within = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._within = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._postponed:
            self.loop.call_soon(self._release)

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _feed(self, data: bytes, *, reads: bool) -> None:
        self._streak = self._streak + 1 if reads else 0
        super().data_received(data)

    def _postpone(self, data: bytes) -> None:
        self._postponed += data
        self.flow.pause_reading()

    def _release(self) -> None:
        held, self._postponed = self._postponed, b""
        if held and not self.transport.is_closing():
            self.flow.resume_reading()
            self.data_received(held)

    def _give(self, slot: int, data: bytes) -> None:
        self._given = True
        self.transport.pause_reading()
        self._passing.give(slot, os.dup(self.transport.get_extra_info("socket").fileno()), data)
        # This closes only the descriptor of this process; the connection stays open in the other process.
        self.transport.close()


class SocketConnection(WebSocketsSansIOProtocol):
    """A connection that has become a WebSocket, and still counts toward the limits."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over from the HTTP connection.

        Until the handshake is read, the HTTP connection remains the transport's protocol.
        """
        super().connection_made(transport)
        before = cast("HttpConnection", cast("asyncio.Transport", transport).get_protocol())
        self.client, self._leave = before.hand_over()

    async def send(self, message: Any) -> None:
        """Send an ASGI message.

        The refusal of a handshake is completed here, because uvicorn would log it as an error of the application.
        """
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._leave()


class _Refused(Exception):
    """Stops the parser after a request was refused."""


def _answer(status: int, sentence: str) -> bytes:
    body = b'{"error":"%b"}' % sentence.encode()
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "content-type: application/json; charset=utf-8",
        f"content-length: {len(body)}",
        "x-content-type-options: nosniff",
        "connection: close",
        *(["retry-after: 5"] if status in {429, 503} else []),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


_ANSWERS = {status: _answer(status, sentence) for status, sentence in SENTENCES.items()}


class _Refusal:
    """Sends an error. The connection stays open, because a proxy shares it among its clients."""

    def __init__(self, status: int, retry_after: int) -> None:
        body = b'{"error":"%b"}' % SENTENCES[status].encode()
        headers = [
            (b"content-type", b"application/json; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"retry-after", b"%d" % retry_after),
            (b"access-control-allow-origin", b"*"),
        ]
        self.messages: tuple[Message, Message] = (
            {"type": "http.response.start", "status": status, "headers": headers},
            {"type": "http.response.body", "body": body},
        )

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        for message in self.messages:
            await send(message)


_too_many = _Refusal(429, 5)
_busy = _Refusal(503, 1)

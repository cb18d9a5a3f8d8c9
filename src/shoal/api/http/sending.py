"""How an answer of known length leaves: its head and body in one piece, looked at as a whole.

uvicorn looks at each header with two regular expressions and writes head and body apart, a fifth of what an answer from memory
costs. Whatever is not plain goes its way: answers of unknown length, answers in pieces, answers that end the connection, heads
that it is to refuse.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from shoal.api.http.replies import NOT_MODIFIED, RawHeader

_FIRST: Final = 200
_LENGTH = b"content-length"
_APART = frozenset((b"connection", b"transfer-encoding"))
_CONTROLS = bytes((*range(0x20), 0x7F)).replace(b"\t", b"")
_LINE_END = 2
"""Control characters at the end of a line."""


class WholeAnswers:
    """An application whose plain answers go out in one piece. For one request, on the connection of this cycle."""

    __slots__ = ("_app", "_cycle", "_send", "_start")

    def __init__(self, app: ASGIApp, cycle: RequestResponseCycle) -> None:
        self._app = app
        self._cycle = cycle
        self._start: Message | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application."""
        self._send = send
        await self._app(scope, receive, self._one)

    async def _one(self, message: Message) -> None:
        start, self._start = self._start, None
        if start is None:
            if message["type"] == "http.response.start" and _has_length(message):
                self._start = message
            else:
                await self._send(message)
        elif not self._write(start, message):
            await self._send(start)
            await self._send(message)

    def _write(self, start: Message, message: Message) -> bool:
        """Write a whole answer; False when it is not plain, and nothing was written."""
        cycle = self._cycle
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
    """Return the head of an answer with a body of so many bytes, or None where it is not plain or not right."""
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
    # A line break in a value would start a header of somebody's choosing.
    return head if len(head) - len(head.translate(None, _CONTROLS)) == _LINE_END * lines else None


@lru_cache(256)
def _begin(name: bytes) -> bytes | None:
    """Return how the line of a header begins; None where it needs uvicorn's look."""
    plain = name not in _APART and name.replace(b"-", b"").isalnum() and name == name.lower()
    return name + b": " if plain else None

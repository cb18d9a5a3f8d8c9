"""The bytes of a request: read up to a maximum, and thrown away up to a bound when nobody wants them.

A client that is still sending does not read; when the server closes on it the answer is lost. So a refusal is sent at once and
then the rest of the body is drained, for at most `DRAIN_BYTES` and `DRAIN_SECONDS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope, Send

from shoal.core.errors import TooLarge
from shoal.http.errors import Malformed
from shoal.http.responses import RawHeader, Reply, start

DRAIN_BYTES = 128 << 20
DRAIN_SECONDS = 30.0
READ_SECONDS = 300.0
"""How long a whole body may take; enough for 40 MB over a slow telephone line."""
SLOWEST = 256 << 10
"""Bytes a second of a body that may be so large that it takes longer."""


class BodyReceiver:
    """The `receive` of one request, which remembers whether there is still something of the body to come."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        names = {name: value for name, value in scope["headers"] if name in _BODY_HEADERS}
        self.unread = names.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in names
        # Who expects a 100 sends nothing after another answer: there will be nothing to drain.
        self._waits = b"expect" in names

    async def receive(self) -> Message:
        """The next message from the server."""
        message = await self._receive()
        if not message.get("more_body", False):
            self.unread = False
        return message

    async def drain(self, most: int = DRAIN_BYTES, seconds: float = DRAIN_SECONDS) -> None:
        """Throw away what is left of the body, within the bounds."""
        try:
            async with asyncio.timeout(seconds):
                while self.unread and not self._waits and most > 0:
                    most -= len((await self.receive()).get("body", b""))
        except TimeoutError:
            return


async def deliver(reply: Reply, content: bytes, more: list[RawHeader], inbox: BodyReceiver, send: Send) -> None:
    """Send the answer, whatever the client is still sending."""
    if not inbox.unread:
        await send(start(reply.status, content, more, reply.headers))
        await send({"type": "http.response.body", "body": content})
        return
    # The whole answer goes out first, for clients that read while they send; the end of it, which closes, when they are done.
    await send(start(reply.status, content, [*more, _CLOSE], reply.headers))
    await send({"type": "http.response.body", "body": content, "more_body": True})
    await inbox.drain()
    await send({"type": "http.response.body", "body": b""})


_CLOSE = (b"connection", b"close")
_BODY_HEADERS = frozenset({b"content-length", b"transfer-encoding", b"expect"})


class ByteBudget(Protocol):
    """Where the bytes of a body are counted."""

    async def hold(self, size: int) -> None:
        """Have room for so many bytes more."""


async def read_body(request: Request, room: ByteBudget, maximum: int) -> bytes:
    """The whole body, all of it held. Errors are those of `pieces`, and of `hold`."""
    chunks: list[bytes] = []
    async for chunk in pieces(request, maximum):
        await room.hold(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


async def pieces(request: Request, maximum: int) -> AsyncIterator[bytes]:
    """The body as it comes. `TooLarge` as soon as it is known to pass `maximum` bytes, from Content-Length before the first one."""
    declared = request.headers.get("content-length", "0")
    if not declared.isascii() or not declared.isdigit():
        raise Malformed("Content-Length is not a number")
    if int(declared[:19]) > maximum:
        raise _too_large(maximum)
    seconds = max(READ_SECONDS, maximum / SLOWEST)
    until = asyncio.get_running_loop().time() + seconds
    size, more = 0, True
    while more:
        message = await _next(request, until, seconds)
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > maximum:
            raise _too_large(maximum)
        if chunk:
            yield chunk


async def _next(request: Request, until: float, seconds: float) -> Message:
    try:
        async with asyncio.timeout_at(until):
            return await request.receive()
    except TimeoutError:
        raise Malformed(f"the body did not arrive within {seconds:.0f} seconds") from None


def _too_large(maximum: int) -> TooLarge:
    return TooLarge(f"the request body may have at most {maximum} bytes")

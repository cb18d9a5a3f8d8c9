"""A small HTTP server for one page, apart from the public one: few connections, each with a deadline.

| what a client does | what it gets |
|---|---|
| asks for `GET /metrics` | the page |
| asks for another path | 404 |
| uses another method | 405 |
| sends something else | 400 |
| comes when all places are taken | 503, or a close when as many again are being refused |
| is not done in time, with sending or reading | a close |
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

_log = logging.getLogger(__name__)

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HEAD_BYTES = 8_192
_END = b"\r\n\r\n"


@asynccontextmanager
async def answering(
    listener: socket.socket, page: Callable[[], Awaitable[bytes]], *, most: int = 8, seconds: float = 10.0
) -> AsyncIterator[None]:
    """Answer at a listening socket until the block ends; then it is closed, with every connection.

    At most `most` connections are open at a time, each for at most `seconds`.
    """
    places = _Places(page, most, seconds)
    server = await asyncio.start_server(places.meet, sock=listener, limit=_HEAD_BYTES)
    try:
        yield
    finally:
        server.close()
        await places.close()


class _Places:
    """The connections that are open."""

    def __init__(self, page: Callable[[], Awaitable[bytes]], most: int, seconds: float) -> None:
        self._page = page
        self._most = most
        self._seconds = seconds
        self._taken: set[asyncio.Task[None]] = set()

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        others = len(self._taken)
        if others >= 2 * self._most:
            writer.transport.abort()
            return
        answered = self._answered if others < self._most else _refused
        task = asyncio.create_task(self._meet(reader, writer, answered), name="shoal-metrics-client")
        self._taken.add(task)
        task.add_done_callback(self._taken.discard)
        with suppress(asyncio.CancelledError):
            await task

    async def close(self) -> None:
        """Close every connection, whether its answer has gone out or not."""
        taken = [*self._taken]
        for task in taken:
            task.cancel()
        await asyncio.gather(*taken, return_exceptions=True)

    async def _meet(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answered: Callable[[bytes], Awaitable[bytes]],
    ) -> None:
        closed = False
        try:
            async with asyncio.timeout(self._seconds):
                try:
                    head = await reader.readuntil(_END)
                except asyncio.LimitOverrunError:
                    head = b""
                writer.write(await answered(head))
                writer.close()
                # Until the client has read all of it, or goes.
                await writer.wait_closed()
                closed = True
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            return
        finally:
            if not closed:
                writer.transport.abort()

    async def _answered(self, head: bytes) -> bytes:
        words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _answer(400)
        method, target, _ = words
        if target.partition("?")[0] != PATH:
            return _answer(404)
        if method != "GET":
            return _answer(405, ("Allow", "GET"))
        try:
            text = await self._page()
        except Exception:  # noqa: BLE001  # whatever it is, the next scrape may succeed
            _log.exception("the metrics could not be told")
            return _answer(500)
        return _answer(200, ("Content-Type", CONTENT_TYPE), body=text)


async def _refused(_head: bytes) -> bytes:
    # A close on a request that was not read would take the answer with it.
    return _answer(503)


def _answer(status: int, *headers: tuple[str, str], body: bytes | None = None) -> bytes:
    phrase = HTTPStatus(status).phrase
    content = f"{phrase}\n".encode() if body is None else body
    kind = () if body is not None else (("Content-Type", "text/plain; charset=utf-8"),)
    lines = [
        f"HTTP/1.1 {status} {phrase}",
        *[f"{name}: {value}" for name, value in (*kind, *headers)],
        f"Content-Length: {len(content)}",
        "Connection: close",
    ]
    return "\r\n".join(lines).encode() + _END + content

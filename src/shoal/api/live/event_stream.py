"""An answer without an end: server-sent events of one connection, for the API and for pages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shoal.api.http.limits.listeners import Streams
from shoal.core.errors import Unavailable
from shoal.streaming.hub import Connection, Missed, PlacedUpdate
from shoal.throttled_log import ThrottledLog

_log = logging.getLogger(__name__)
_outage = ThrottledLog(_log)

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    # A proxy in front that collects answers would hold events back.
    "x-accel-buffering": "no",
}

Heard = Sequence[PlacedUpdate | Missed]


class EventStream(Response):
    """Begins at once, and goes on until the connection ends or the client is gone.

    `lines` makes events of what was heard; `check` raises once the client may not listen any more. The stack is closed at the end.
    """

    def __init__(
        self,
        streams: Streams,
        connection: Connection,
        stack: AsyncExitStack,
        lines: Callable[[Heard], Awaitable[bytes]],
        check: Callable[[], Awaitable[object]],
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(_HEADERS)
        self._streams = streams
        self._connection = connection
        self._stack = stack
        self._lines = lines
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if scope["method"] != "HEAD":
                await self._until_the_end(receive, partial(self._write, send))
        # Nobody listens any more: whoever reads nothing may take as long as they like over this.
        await send({"type": "http.response.body", "body": b""})

    async def _until_the_end(self, receive: Receive, write: Callable[[bytes], Awaitable[None]]) -> None:
        watching = asyncio.create_task(self._watch(receive))
        try:
            await write(b":)\n")
            await self._tell(write)
        except Unavailable as error:
            # The client comes back with the id of the last event, so nothing is lost.
            _outage.warning("a stream of events ends: %s", error)
        except TimeoutError:
            _log.info("a stream of events ends: nobody reads it")
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _tell(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        async with aclosing(self._streams.attended(self._connection, self._check)) as attended:
            async for heard in attended:
                await write(await self._lines(heard) if heard else b":thump\n")

    async def _write(self, send: Send, body: bytes) -> None:
        if body:
            async with asyncio.timeout(self._streams.pace.patience):
                await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._connection.end()

"""Server-sent event streams: limits on their number, checks of their tokens, their shutdown, and the HTTP response."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from typing import NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shoal.core.errors import NotAllowed, TooManyStreams, Unauthenticated, Unavailable
from shoal.graph.cache.coherence import another_request
from shoal.http.routes import Caller
from shoal.streaming.connections import Connection, Missed
from shoal.streaming.contract import Position
from shoal.streaming.history import PlacedUpdate
from shoal.streaming.hub import Hub
from shoal.streaming.subscriptions import Interest
from shoal.tasks import cancel
from shoal.throttled_log import ThrottledLog


class Pace(NamedTuple):
    """Intervals and time limits of each open stream, in seconds: heartbeats, pings, token checks, slow clients."""

    heartbeat: float = 15.0
    """Between heartbeats on an event stream."""
    ping: float = 30.0
    """Seconds between two pings of a WebSocket. A client that does not answer a ping before the next is disconnected."""
    check: float = 45.0
    """Maximum seconds between two checks of a stream's token. Usually a revoked token ends its streams at once."""
    patience: float = 30.0
    """Seconds that a client may take to read."""
    poll: float = 1.0
    """Between two reads of the event log at its end."""


USUAL = Pace()


class Streams:
    def __init__(self, hub: Hub, pace: Pace = USUAL, *, per_member: int = 50, most: int = 8_000) -> None:
        self.hub = hub
        self.pace = pace
        self._per_member = per_member
        self.most = most
        """Maximum number of streams in this process.

        It is below the connection limit, so that other requests can still connect.
        """
        self._open: set[Connection] = set()
        self._of: Counter[int] = Counter()
        self._stopped = False

    @property
    def number(self) -> int:
        return len(self._open)

    @asynccontextmanager
    async def listening(self, caller: Caller, to: Interest, after: str | None = None) -> AsyncIterator[Connection]:
        """Connect a listener to the hub.

        Raises `TooManyStreams` if the member or the server key has too many streams, and `Unavailable` if the process has, or if it
        is stopping.
        """
        member = caller.member_id or 0
        who = member or caller.app_id
        self._check_limits(who)
        self._of[who] += 1
        try:
            position = Position(after) if after is not None else None
            async with self.hub.connect(member, position, to=to, session=caller.token_id) as connection:
                self._open.add(connection)
                if self._stopped:
                    connection.end()
                try:
                    yield connection
                finally:
                    self._open.discard(connection)
        finally:
            self._of[who] -= 1
            if not self._of[who]:
                del self._of[who]

    def _check_limits(self, who: int) -> None:
        if self._stopped:
            raise Unavailable("The server is shutting down; try again later")
        if self._of.total() >= self.most:
            raise Unavailable(f"The server has {self.most} open streams, which is the maximum; try again later")
        if self._of[who] >= self._per_member:
            raise TooManyStreams(
                f"At most {self._per_member} open streams per account or server key (got {self._of[who] + 1})",
                retry_after=self.pace.heartbeat,
            )

    def stop(self) -> None:
        self._stopped = True
        for connection in self._open:
            connection.end()

    def next_check(self) -> float:
        spread = random.uniform(0.6, 1.0)  # noqa: S311  # no secret
        return asyncio.get_running_loop().time() + self.pace.check * spread

    async def attended(
        self, connection: Connection, check: Callable[[], Awaitable[object]]
    ) -> AsyncGenerator[list[PlacedUpdate | Missed]]:
        """Yield updates as they arrive, and an empty list as a heartbeat, until the connection ends.

        `check` verifies the token again; the connection ends if it raises `Unauthenticated` or `NotAllowed`.
        """
        clock = asyncio.get_running_loop().time
        next_heartbeat = clock() + self.pace.heartbeat
        # Check the token at once, because it may have been revoked before this stream was registered.
        due = 0.0
        while True:
            if clock() >= due:
                await _check(connection, check)
                due = self.next_check()
            received = await _take(connection, min(next_heartbeat, due))
            if received:
                yield received
            elif connection.ended:
                return
            if clock() >= next_heartbeat:
                next_heartbeat = clock() + self.pace.heartbeat
                yield []


async def _take(connection: Connection, until: float) -> list[PlacedUpdate | Missed]:
    try:
        async with asyncio.timeout_at(until):
            return await connection.take()
    except TimeoutError:
        return []


async def _check(connection: Connection, check: Callable[[], Awaitable[object]]) -> None:
    try:
        with another_request():
            await check()
    except (Unauthenticated, NotAllowed):
        connection.dismiss()
    except Unavailable:
        # The token cannot be checked while the store is unreachable. Keep the stream open until the next check.
        return


_log = logging.getLogger(__name__)
_outage = ThrottledLog(_log)

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    # A proxy that buffers responses would delay events.
    "x-accel-buffering": "no",
}

Received = Sequence[PlacedUpdate | Missed]


class EventStream(Response):
    """A response that lasts until the server ends the stream or the client disconnects.

    `lines` encodes updates as events; `check` raises when the client's access has ended. `stack` holds the resources of the
    stream, and is closed at the end.
    """

    def __init__(
        self,
        streams: Streams,
        connection: Connection,
        stack: AsyncExitStack,
        lines: Callable[[Received], Awaitable[bytes]],
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
        # This stream no longer counts in the limit of open streams, so it does no harm if the client does not read this
        # message.
        await send({"type": "http.response.body", "body": b""})

    async def _until_the_end(self, receive: Receive, write: Callable[[bytes], Awaitable[None]]) -> None:
        watching = asyncio.create_task(_end_after_disconnect(self._connection, receive))
        try:
            await write(b":)\n")
            await self._tell(write)
        except Unavailable as error:
            # The client reconnects with the id of the last event, so nothing is lost.
            _outage.warning("event stream closed: %s", error)
        except TimeoutError:
            _log.info("event stream closed: the client does not read")
        finally:
            await cancel(watching)

    async def _tell(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        # A client whose connection ends before the first event continues from here. Without a blank line, because Mastodon.py
        # rejects a message that has only an id.
        await write(b"id: %b\n" % self._connection.start.encode())
        async with aclosing(self._streams.attended(self._connection, self._check)) as attended:
            async for received in attended:
                await write(await self._lines(received) if received else b":thump\n")

    async def _write(self, send: Send, body: bytes) -> None:
        if body:
            async with asyncio.timeout(self._streams.pace.patience):
                await send({"type": "http.response.body", "body": body, "more_body": True})


async def _end_after_disconnect(connection: Connection, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    connection.end()


Pause = Callable[[], Awaitable[bool]]
"""Waits between two reads of a source, and returns False when the stream has ended."""


class PolledStream(EventStream):
    """An event stream from a source that is polled. `pieces` yields encoded events; b"" if there are no new ones."""

    def __init__(
        self,
        streams: Streams,
        connection: Connection,
        stack: AsyncExitStack,
        pieces: Callable[[Pause], AsyncGenerator[bytes]],
        check: Callable[[], Awaitable[object]],
    ) -> None:
        super().__init__(streams, connection, stack, _nothing, check)
        self._pieces = pieces

    async def _tell(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        clock = asyncio.get_running_loop().time
        due = next_heartbeat = 0.0
        async with aclosing(self._pieces(partial(self._connection.lasts, self._streams.pace.poll))) as pieces:
            async for piece in pieces:
                if clock() >= due:
                    await _check(self._connection, self._check)
                    due = self._streams.next_check()
                if self._connection.ended:
                    return
                if piece or clock() >= next_heartbeat:
                    next_heartbeat = clock() + self._streams.pace.heartbeat
                    await write(piece or b":thump\n")


async def _nothing(_received: Received) -> bytes:
    return b""


class LongPoll(Response):
    """A JSON response that begins at once, so that its wait counts as sending, and whose `body` waits for data.

    `body` returns when the connection has ended. `stack` holds the resources of the request, and is closed after the wait.
    """

    def __init__(self, connection: Connection, stack: AsyncExitStack, body: Callable[[], Awaitable[bytes]]) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers({"content-type": "application/json"})
        self._connection = connection
        self._stack = stack
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            watching = asyncio.create_task(_end_after_disconnect(self._connection, receive))
            try:
                body = b"" if scope["method"] == "HEAD" else await self._body()
            finally:
                await cancel(watching)
        await send({"type": "http.response.body", "body": body})

"""Live updates as server-sent events: one stream for each connection, resumed by the id of the last event."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import Annotated

from msgspec import Meta
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from shoal.api import rows
from shoal.api.context import Context, Handler
from shoal.api.http.authentication import caller_of
from shoal.api.http.calls import Body
from shoal.api.http.convert import Id
from shoal.api.http.pages import WithData, listed_data
from shoal.api.live.stream_events import StreamEvent, events
from shoal.api.live.stream_names import StreamName, stream_of
from shoal.core.errors import Unavailable
from shoal.streaming.connection import Connection, Missed
from shoal.streaming.replay import PlacedUpdate

_log = logging.getLogger(__name__)

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    # A proxy in front that collects answers would hold events back.
    "x-accel-buffering": "no",
}
_EMPTY = b"{}"


class StreamQuery(WithData, frozen=True, kw_only=True):
    """The stream to listen to, and the event to resume after; the header `Last-Event-ID` wins over the parameter."""

    tag: Annotated[str, Meta(max_length=400)] = ""
    list: Id | None = None
    only_media: bool = False
    last_event_id: Annotated[str, Meta(max_length=100)] = ""


async def health(_context: Context, _params: None) -> object:
    """`OK`, for whoever watches over the streams."""
    return PlainTextResponse("OK")


def stream(name: str) -> Handler[StreamQuery]:
    """The handler of a stream by the name that it has on a WebSocket."""
    return partial(_stream, name)


async def _stream(name: str, context: Context, params: StreamQuery) -> object:
    front = context.deps
    media = params.only_media and name.startswith("public")
    asked = StreamName(f"{name}:media" if media else name, params.list, params.tag)
    found = await stream_of(front, context.caller, asked)
    after = context.request.headers.get("last-event-id") or params.last_event_id or None
    stack = AsyncExitStack()
    connection = await stack.enter_async_context(front.streams.listening(context.caller, found.interest, after))
    return _EventStream(context, connection, stack, listed_data(wanted=params.with_data))


class _EventStream(Response):
    """Begins at once, and goes on until the connection ends or the client is gone."""

    def __init__(self, context: Context, connection: Connection, stack: AsyncExitStack, data: int) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(_HEADERS)
        self._context = context
        self._connection = connection
        self._stack = stack
        self._data = data

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
            _log.warning("a stream of events ends: %s", error)
        except TimeoutError:
            _log.info("a stream of events ends: nobody reads it")
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _tell(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        front = self._context.deps

        async def check() -> None:
            front.ip_guard.check(self._context.request.scope)
            await caller_of(front.graph, self._context.request)

        async with aclosing(front.streams.attended(self._connection, check)) as attended:
            async for heard in attended:
                await write(await self._lines(heard) if heard else b":thump\n")

    async def _lines(self, heard: list[PlacedUpdate | Missed]) -> bytes:
        front = self._context.deps
        return b"".join(map(_line, await events(front, self._context.caller, self._connection, heard, self._data)))

    async def _write(self, send: Send, body: bytes) -> None:
        if body:
            front = self._context.deps
            async with asyncio.timeout(front.streams.pace.patience):
                await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._connection.end()


def _line(event: StreamEvent) -> bytes:
    """Events have data always: without it browsers pass them over."""
    payload = _EMPTY if event.payload is None else event.payload
    return b"event: %b\ndata: %b\nid: %b\n\n" % (event.name.encode(), payload, event.position.encode())


_STREAMS = (
    ("user", "read:statuses", "The home and the notifications of the caller, as they happen."),
    ("user:notification", "read:notifications", "The notifications of the caller, as they happen."),
    ("public", "read:statuses", "New public statuses that answer nobody else's."),
    ("public:local", "read:statuses", "The same: everybody is local here."),
    ("public:remote", "read:statuses", "Nothing: nobody is remote."),
    ("hashtag", "read:statuses", "New public statuses under a tag."),
    ("hashtag:local", "read:statuses", "The same: everybody is local here."),
    ("list", "read:statuses", "What the members of a list post, as it happens."),
    ("direct", "read:statuses", "Conversations that something comes to."),
)

ROUTES = (
    rows.public("GET", "/api/v1/streaming/health", health, answer=Body("text/plain")),
    *(
        rows.route(
            "GET",
            f"/api/v1/streaming/{name.replace(':', '/')}",
            stream(name),
            scope=scope,
            params=StreamQuery,
            answer=Body("text/event-stream"),
            what=what,
        )
        for name, scope, what in _STREAMS
    ),
)

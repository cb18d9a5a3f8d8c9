"""Live updates as server-sent events: one stream for each connection, resumed by the id of the last event."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated

from msgspec import Meta
from starlette.responses import PlainTextResponse

from shoal.api import rows
from shoal.api.context import Context, Handler
from shoal.api.http.authentication import caller_of
from shoal.api.http.calls import Body
from shoal.api.http.convert import Id
from shoal.api.http.pages import WithData, listed_data
from shoal.api.live.event_stream import EventStream, Heard
from shoal.api.live.stream_events import StreamEvent, events
from shoal.api.live.stream_names import StreamName, stream_of

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
    data = listed_data(wanted=params.with_data)

    async def lines(heard: Heard) -> bytes:
        return b"".join(map(_line, await events(front, context.caller, connection, heard, data)))

    async def check() -> None:
        front.ip_guard.check(context.request.scope)
        await caller_of(front.uses, context.request)

    return EventStream(front.streams, connection, stack, lines, check)


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

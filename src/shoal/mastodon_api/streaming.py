"""The streaming API: server-sent events, and WebSockets with several streams per connection.

An event stream resumes after the event whose id the client sends. Notifications and conversations have the same JSON as
in the list endpoints.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from shoal.core.errors import (
    InvalidInput,
    NotAllowed,
    NotFound,
    ShoalError,
    TooMany,
    TooManyStreams,
    Unauthenticated,
    Unavailable,
)
from shoal.core.feeds.declarations import NamedFeed
from shoal.core.model import MemberList
from shoal.graph.access import own_object
from shoal.graph.cache.coherence import another_request
from shoal.graph.contract import find_object
from shoal.graph.feed_lookup import readable_feed
from shoal.graph.schema import tag_id
from shoal.http import rate_limits
from shoal.http.authentication import bearer_of, caller_of, caller_with, granted
from shoal.http.errors import Malformed, NeedsMember, OutsideScopes, reply_for
from shoal.http.event_streams import EventStream, Received
from shoal.http.pagination import WithData, listed_data
from shoal.http.params import Id, convert, query_params
from shoal.http.responses import Reply, encode, start
from shoal.http.routes import ANONYMOUS, Body, Caller
from shoal.mastodon_api import conversations, notifications
from shoal.mastodon_api.context import AppContext, Context, Router
from shoal.mastodon_api.tags import tag_named
from shoal.observability.tracing import AUTHENTICATE, enter, name_member, name_route
from shoal.queries import conversations as talks
from shoal.queries import notifications as notices
from shoal.queries import streaming
from shoal.queries.foryou.feed import FOR_YOU_LIST
from shoal.streaming.connections import Connection, Missed
from shoal.streaming.contract import Position
from shoal.streaming.history import PlacedUpdate
from shoal.streaming.subscriptions import (
    CONVERSATIONS,
    HOME,
    NOTIFICATIONS,
    PRESENCE,
    Everybody,
    FeedInterest,
    Interest,
    Listed,
    TagInterest,
)
from shoal.tasks import cancel

router = Router()


_NOTIFICATIONS_SCOPE = "read:notifications"
_WITHOUT_PARAMETER: dict[str, Interest] = {
    "user": HOME,
    "user:notification": NOTIFICATIONS,
    "direct": CONVERSATIONS,
    "public": Everybody(),
    "public:local": Everybody(),
    "public:media": Everybody(only_media=True),
    "public:local:media": Everybody(only_media=True),
    # This stream has no updates, because all accounts are local.
    "public:remote": PRESENCE,
    "public:remote:media": PRESENCE,
}


_Feed = Annotated[str, Meta(max_length=50)]


class StreamName(WithData, frozen=True):
    """A stream that a client requests, with its parameters."""

    stream: Annotated[str, Meta(max_length=100)] = ""
    list: Id | None = None
    tag: Annotated[str, Meta(max_length=400)] = ""
    feed: _Feed = ""
    """The name or id of a named feed, for `shoal:feed`. A number is an id."""
    last_event_id: Annotated[str, Meta(max_length=100)] | None = None
    """The event after which the stream resumes. If a client sends this field, even empty, each event has an id."""


class Stream(NamedTuple):
    """A stream that the caller is allowed to receive."""

    label: tuple[str, ...]
    """The name and the parameter of the stream, as messages to the client contain them."""
    interest: Interest


async def stream_of(app_context: AppContext, caller: Caller, asked: StreamName) -> Stream:
    """Return the requested stream. Raises `NotFound`, `Malformed`, or `OutsideScopes` if the token does not allow the stream."""
    if caller.member_id is None:
        raise NeedsMember
    if not granted(caller.scopes, _NOTIFICATIONS_SCOPE if asked.stream == "user:notification" else "read:statuses"):
        raise OutsideScopes
    if (plain := _WITHOUT_PARAMETER.get(asked.stream)) is not None:
        return Stream((asked.stream,), plain)
    if asked.stream in {"hashtag", "hashtag:local"}:
        if not asked.tag:
            raise Malformed("Missing tag name parameter")
        return Stream((asked.stream, asked.tag), TagInterest(tag_id(tag_named(asked.tag))))
    if asked.stream == "list":
        if asked.list is None:
            raise Malformed("Missing list name parameter")
        return Stream((asked.stream, str(asked.list)), await _list_interest(app_context, caller.member_id, asked.list))
    if asked.stream == "shoal:feed":
        if not asked.feed:
            raise Malformed("Missing feed parameter")
        feed = await readable_feed(app_context.graph, caller.member_id, asked.feed)
        return Stream((asked.stream, asked.feed), FeedInterest(feed.id))
    raise Malformed("Unknown stream type")


def _refuse_parameters(given: Mapping[str, object]) -> None:
    """Raise `InvalidInput` if a client requests a stream with values of a feed's parameters."""
    if "parameters" in given:
        raise InvalidInput(
            "parameters: not allowed for streams; only requests for the posts of a feed take them", field="parameters"
        )


async def _list_interest(app_context: AppContext, member_id: int, list_id: int) -> Interest:
    if list_id == FOR_YOU_LIST and app_context.settings.for_you_list:
        # The list "For you" has no live updates, because it is not ordered by time.
        return Listed(list_id)
    if await find_object(app_context.graph, NamedFeed, list_id) is not None:
        return FeedInterest((await readable_feed(app_context.graph, member_id, str(list_id))).id)
    return Listed((await own_object(app_context.graph, MemberList, member_id, list_id)).id)


REFRESH = "refresh"
"""The event that is sent when other events may have been lost. Clients that do not know it ignore it."""
_WITHOUT_PAYLOAD: dict[type, str] = {
    streaming.Refiltered: "filters_changed",
    streaming.Newer: "newer",
    streaming.Refresh: REFRESH,
}


class FeedState(msgspec.Struct, frozen=True):
    """What happened to the named feed of a stream."""

    id: str
    state: Literal["changed", "deleted"]


class StreamEvent(NamedTuple):
    name: str
    payload: bytes | None
    position: str


async def events(
    app_context: AppContext,
    caller: Caller,
    connection: Connection,
    received: Sequence[PlacedUpdate | Missed],
    data: int,
) -> list[StreamEvent]:
    """Convert the updates `received` to events, omitting updates that the viewer may not see. Raises `Unavailable`.

    A status of another member includes its custom data if the data has at most `data` bytes.
    """
    updates = await streaming.updates_for_viewer(app_context.reads, connection, received)
    with another_request():
        found = [await _event(app_context, caller, connection.viewer, update, data) for update in updates]
    return [event for event in found if event is not None]


async def _event(
    app_context: AppContext, caller: Caller, viewer: int, update: streaming.News | streaming.OfViewer, data: int
) -> StreamEvent | None:
    """Return the event of an update; None if the token does not allow it, or the viewer may no longer see its object."""
    if isinstance(update, streaming.Arrived | streaming.Edited):
        name = "update" if isinstance(update, streaming.Arrived) else "status.update"
        return StreamEvent(name, await app_context.present.status(viewer, update.entry, data), update.position)
    if isinstance(update, streaming.Removed):
        return StreamEvent("delete", b"%d" % update.id, update.position)
    if isinstance(update, streaming.Notified):
        if not granted(caller.scopes, _NOTIFICATIONS_SCOPE):
            return None
        try:
            notification = await notices.one(app_context.reads, viewer, update.time)
        except NotFound:
            return None
        (shown,) = await notifications.shown(app_context, viewer, (notification,), data)
        return StreamEvent("notification", encode(shown), update.position)
    if isinstance(update, streaming.Conversed):
        try:
            conversation = await talks.one(app_context.reads, viewer, update.root_id)
        except NotFound:
            return None
        (talk,) = await conversations.shown(app_context, viewer, (conversation,), data)
        return StreamEvent("conversation", encode(talk), update.position)
    if isinstance(update, streaming.FeedChanged):
        state = FeedState(str(update.feed_id), "deleted" if update.deleted else "changed")
        return StreamEvent("feed", encode(state), update.position)
    return StreamEvent(_WITHOUT_PAYLOAD[type(update)], None, update.position)


class StreamQuery(WithData, frozen=True, kw_only=True):
    """Parameters of an event stream. The header `Last-Event-ID` takes precedence over `last_event_id`."""

    tag: Annotated[str, Meta(max_length=400)] = ""
    list: Id | None = None
    feed: _Feed = ""
    """The name or id of a named feed, for `shoal/feed`."""
    only_media: bool = False
    last_event_id: Annotated[str, Meta(max_length=100)] = ""


@router.get("/api/v1/streaming/health", auth="public", answer=Body("text/plain"))
async def health(_context: Context, _params: None) -> object:
    """Return `OK`, for monitoring."""
    return PlainTextResponse("OK")


def _add_stream(name: str, scope: str, what: str) -> None:
    """Add the route of the event stream with this name. A WebSocket client subscribes to the same stream by the name."""
    path = f"/api/v1/streaming/{name.replace(':', '/')}"

    @router.get(path, scope=scope, answer=Body("text/event-stream"), what=what)
    async def stream(context: Context, params: StreamQuery) -> object:
        _refuse_parameters(query_params(context.request.scope["query_string"]))
        media = params.only_media and name.startswith("public")
        query = StreamName(f"{name}:media" if media else name, params.list, params.tag, params.feed)
        found = await stream_of(context.app, context.caller, query)
        after = context.request.headers.get("last-event-id") or params.last_event_id or None
        stack = AsyncExitStack()
        connection = await stack.enter_async_context(
            context.app.streams.listening(context.caller, found.interest, after)
        )
        data = listed_data(with_data=params.with_data)

        async def lines(received: Received) -> bytes:
            return b"".join(map(_line, await events(context.app, context.caller, connection, received, data)))

        async def check() -> None:
            context.app.ip_guard.check(context.request.scope)
            await caller_of(context.app.uses, context.request)

        return EventStream(context.app.streams, connection, stack, lines, check)


def _line(event: StreamEvent) -> bytes:
    """Encode an event. Without a payload, its data is `{}`, because browsers ignore events without data."""
    payload = b"{}" if event.payload is None else event.payload
    return b"event: %b\ndata: %b\nid: %b\n\n" % (event.name.encode(), payload, event.position.encode())


for _stream in (
    ("user", "read:statuses", "Stream the caller's home timeline and notifications."),
    ("user:notification", "read:notifications", "Stream the caller's notifications."),
    ("public", "read:statuses", "Stream new public statuses that are not replies to others."),
    ("public:local", "read:statuses", "Equivalent to `public`, because all accounts are local."),
    ("public:remote", "read:statuses", "Stream nothing: there are no remote accounts."),
    ("hashtag", "read:statuses", "Stream new public statuses with a tag."),
    ("hashtag:local", "read:statuses", "Equivalent to `hashtag`, because all accounts are local."),
    ("list", "read:statuses", "Stream new statuses by the members of a list, or of a named feed."),
    ("shoal:feed", "read:statuses", "Stream new statuses of a named feed."),
    ("direct", "read:statuses", "Stream conversations with new statuses."),
):
    _add_stream(*_stream)


_log = logging.getLogger(__name__)

_PATHS = ("/api/v1/streaming", "/api/v1/streaming/")
_MAX_STREAMS = 50
"""Maximum number of streams of a WebSocket."""
_MAX_FEEDS = 10
"""Maximum number of named feeds among them."""
_CLOSE_SECONDS = 5.0
_GOING_AWAY, _NOT_ALLOWED, _FAILED, _COME_AGAIN = 1001, 1008, 1011, 1013


_Key: TypeAlias = tuple[str, int | None, str, str]
"""A stream of a socket, with its parameters."""


class SocketFrame(StreamName, frozen=True, kw_only=True):
    type: Literal["subscribe", "unsubscribe"]


class _ServerMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    stream: tuple[str, ...]
    event: str
    payload: str | None = None
    id: str | None = None


class Sockets:
    """The ASGI application of all WebSockets."""

    def __init__(self, app_context: AppContext) -> None:
        self._app_context = app_context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        async with AsyncExitStack() as stack:
            try:
                with another_request():
                    text, caller = await self._admit(scope)
                listening = self._app_context.streams.listening(caller, PRESENCE)
                presence = await stack.enter_async_context(listening)
            except Exception as error:  # noqa: BLE001  # any error has a response
                await _refuse(reply_for(error, where="a WebSocket"), scope, send)
                return
            # A browser offers the token as the first subprotocol. Chromium closes a socket unless the response repeats
            # this subprotocol.
            protocol = next(iter(scope["subprotocols"]), None)
            socket = _Socket(self._app_context, text, caller, presence, receive, send)
            await socket.run(scope, protocol)

    async def _admit(self, scope: Scope) -> tuple[str, Caller]:
        """Return the caller and the token. Browsers can send the token only in the query or as a subprotocol."""
        if scope["path"] not in _PATHS:
            raise NotFound
        name_route(_PATHS[0])
        enter(AUTHENTICATE)
        connection = HTTPConnection(scope)
        text = bearer_of(connection) or next(iter(scope["subprotocols"]), "")
        caller, failure = ANONYMOUS, None
        try:
            caller = await caller_with(self._app_context.uses, connection, text)
        except (Unauthenticated, NotAllowed) as error:
            failure = error
        # Count the attempt before it may be refused, so that guessing tokens is limited too.
        await _count(self._app_context, caller.member_id or rate_limits.address_of(scope))
        if failure is not None:
            raise failure
        if caller.member_id is None:
            raise NeedsMember
        name_member(caller.member_id)
        return text, caller


class _Socket:
    def __init__(
        self, app_context: AppContext, text: str, caller: Caller, presence: Connection, receive: Receive, send: Send
    ) -> None:
        self._app_context = app_context
        self._text = text
        self._caller = caller
        self._presence = presence
        self._receive = receive
        self._send = send
        self._accepted = asyncio.Event()
        self._streams: dict[_Key, asyncio.Task[None]] = {}
        self._feeds: set[_Key] = set()
        self._gone = False
        self._code, self._reason = _GOING_AWAY, ""

    async def run(self, scope: Scope, protocol: str | None) -> None:
        """Serve the socket until one side closes it. For a stream that the URL names, no event after the handshake is lost."""
        connection = HTTPConnection(scope)
        failure = await self._subscribe_from_url(scope["query_string"])

        async def check() -> None:
            self._app_context.ip_guard.check(scope)
            await caller_with(self._app_context.uses, connection, self._text)

        reading = asyncio.create_task(self._receive_messages())
        try:
            await self._send({"type": "websocket.accept", "subprotocol": protocol})
            self._accepted.set()
            if failure is not None:
                await self._refuse(failure)
            async with aclosing(self._app_context.streams.attended(self._presence, check)) as attended:
                async for _ in attended:
                    # Ignore the heartbeats that `attended` yields, because WebSockets have their own pings.
                    pass
        except OSError:
            self._gone = True
        finally:
            await cancel(reading, *self._streams.values())
        if not self._gone:
            await self._close()

    async def _subscribe_from_url(self, query: bytes) -> ShoalError | None:
        try:
            given = query_params(query)
            if given.get("stream"):
                _refuse_parameters(given)
                await self._subscribe(convert(given, StreamName))
        except ShoalError as error:
            return error
        return None

    async def _receive_messages(self) -> None:
        await self._accepted.wait()
        try:
            while (message := await self._receive())["type"] != "websocket.disconnect":
                try:
                    await self._handle(message)
                except ShoalError as error:
                    await self._refuse(error)
            self._gone = True
            self._presence.end()
        except OSError:
            self._gone = True
            self._presence.end()
        except Exception:  # noqa: BLE001  # it ends the socket, not the process
            _log.exception("handling a WebSocket message failed")
            self._end(_FAILED, "Something went wrong on our side")

    async def _handle(self, message: Message) -> None:
        await _count(self._app_context, self._presence.viewer)
        decoded = _decoded(message)
        _refuse_parameters(decoded)
        frame = convert(decoded, SocketFrame)
        if frame.type == "subscribe":
            await self._subscribe(frame)
        elif (task := self._streams.pop(key := _key(frame), None)) is not None:
            self._feeds.discard(key)
            await cancel(task)

    async def _subscribe(self, asked: StreamName) -> None:
        """Subscribe to a stream. After the return, no event is lost. An existing subscription does not change."""
        key = _key(asked)
        if key in self._streams:
            return
        if len(self._streams) >= _MAX_STREAMS:
            raise TooManyStreams(
                f"stream: at most {_MAX_STREAMS} streams per socket (got {len(self._streams) + 1})", retry_after=1
            )
        with another_request():
            stream = await stream_of(self._app_context, self._caller, asked)
        if isinstance(stream.interest, FeedInterest):
            if len(self._feeds) >= _MAX_FEEDS:
                raise TooManyStreams(
                    f"feed: at most {_MAX_FEEDS} named feeds per socket (got {len(self._feeds) + 1})", retry_after=1
                )
            self._feeds.add(key)
        connected = asyncio.Event()
        task = self._streams[key] = asyncio.create_task(self._run_stream(stream, asked, connected))
        waiting = asyncio.create_task(connected.wait())
        try:
            await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    async def _run_stream(self, stream: Stream, asked: StreamName, connected: asyncio.Event) -> None:
        try:
            await self._send_events(stream, asked, connected)
            if isinstance(stream.interest, FeedInterest):
                # The caller may no longer read the feed.
                self._forget(asked)
        except (TooManyStreams, NotFound) as error:
            self._forget(asked)
            await self._refuse(error)
        except Unavailable as error:
            self._end(_COME_AGAIN, str(error))
        except OSError:
            self._gone = True
            self._presence.end()
        except Exception:  # noqa: BLE001  # it ends the socket, not the process
            _log.exception("a WebSocket stream failed")
            self._end(_FAILED, "Something went wrong on our side")

    def _forget(self, asked: StreamName) -> None:
        self._streams.pop(_key(asked), None)
        self._feeds.discard(_key(asked))

    async def _send_events(self, stream: Stream, asked: StreamName, connected: asyncio.Event) -> None:
        hub, caller, after = self._app_context.streams.hub, self._caller, asked.last_event_id
        position = Position(after) if after else None
        connecting = hub.connect(self._presence.viewer, position, to=stream.interest, session=caller.token_id)
        async with connecting as connection:
            connected.set()
            await self._accepted.wait()
            while received := await connection.take():
                for event in await events(
                    self._app_context, caller, connection, received, listed_data(with_data=asked.with_data)
                ):
                    if event.name == REFRESH and after is None:
                        self._end(_COME_AGAIN, "Something may have been missed")
                        return
                    await self._send_event(stream, event, numbered=after is not None)

    async def _send_event(self, stream: Stream, event: StreamEvent, *, numbered: bool) -> None:
        payload = None if event.payload is None else event.payload.decode()
        message = _ServerMessage(stream.label, event.name, payload, event.position if numbered else None)
        await self._send_json(message)

    async def _refuse(self, error: ShoalError) -> None:
        reply = reply_for(error, where="a WebSocket")
        body = {**reply.body, "status": reply.status} if isinstance(reply.body, dict) else {"status": reply.status}
        await self._send_json(body)

    async def _send_json(self, body: object) -> None:
        """Send a message. Raises `OSError` if the client has disconnected or does not read."""
        async with asyncio.timeout(self._app_context.streams.pace.patience):
            await self._send({"type": "websocket.send", "text": encode(body).decode()})

    def _end(self, code: int, reason: str) -> None:
        self._code, self._reason = code, reason
        self._presence.end()

    async def _close(self) -> None:
        code, reason = self._code, self._reason
        if self._presence.dismissed:
            code, reason = _NOT_ALLOWED, "The access token is not valid any more"
        try:
            # Wait only briefly, because a client that does not read does not read the closing message either.
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except OSError:
            return


def _key(asked: StreamName) -> _Key:
    return asked.stream, asked.list, asked.tag.lower(), asked.feed


def _decoded(message: Message) -> dict[str, object]:
    data = message.get("text") or message.get("bytes") or ""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Malformed("A message must be a JSON object") from None
    if not isinstance(found, dict):
        raise Malformed("A message must be a JSON object")
    return found


async def _count(app_context: AppContext, who: int | str) -> None:
    window = await app_context.limiter.take(rate_limits.RateKey("api", who))
    if window is not None and window.wait:
        raise TooMany("Too many requests", retry_after=window.wait)


async def _refuse(reply: Reply, scope: Scope, send: Send) -> None:
    """Refuse a WebSocket handshake.

    The refusal is an HTTP response or, if the server does not support that, the closing of the socket.
    """
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": _NOT_ALLOWED})
        return
    content = encode(reply.body)
    begun = start(reply.status, content, (), reply.headers)
    await send({**begun, "type": "websocket.http.response.start"})
    await send({"type": "websocket.http.response.body", "body": content})

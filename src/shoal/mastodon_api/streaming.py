"""The streaming API: server-sent events, and WebSockets with several streams on one connection.

An event stream resumes after the id of the last event. Notifications and conversations have the same JSON as when listed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from shoal.core.errors import InvalidInput, NotAllowed, NotFound, ShoalError, TooMany, Unauthenticated, Unavailable
from shoal.core.model import MemberList
from shoal.core.text import check_tag
from shoal.graph.cache.coherence import another_request
from shoal.graph.schema import tag_id
from shoal.http import rate_limits
from shoal.http.authentication import bearer_of, caller_of, caller_with, granted
from shoal.http.errors import Malformed, NeedsMember, OutsideScopes, reply_for
from shoal.http.event_streams import EventStream, Heard
from shoal.http.pagination import WithData, listed_data
from shoal.http.params import Id, convert
from shoal.http.responses import Reply, encode, start
from shoal.http.routes import ANONYMOUS, Body, Caller
from shoal.mastodon_api import context as endpoints
from shoal.mastodon_api import conversations, notifications
from shoal.mastodon_api.context import Context, Front, Handler
from shoal.observability.tracing import AUTHENTICATE, enter, name_member, name_route
from shoal.queries import conversations as talks
from shoal.queries import notifications as notices
from shoal.queries import streaming
from shoal.queries.foryou.feed import FOR_YOU_LIST
from shoal.streaming.contract import Position
from shoal.streaming.hub import Connection, Missed, PlacedUpdate
from shoal.streaming.subscriptions import (
    CONVERSATIONS,
    HOME,
    NOTIFICATIONS,
    PRESENCE,
    Everybody,
    Interest,
    Listed,
    TagInterest,
)
from shoal.tasks import cancel


async def notification_json(front: Front, viewer: int, time: int, data: int = 0) -> bytes | None:
    """The viewer's notification by its time; None when it is not for them to see any more."""
    try:
        found = await notices.one(front.reads, viewer, time)
    except NotFound:
        return None
    return encode((await notifications.shown(front, viewer, (found,), data))[0])


async def conversation_json(front: Front, viewer: int, root_id: int, data: int = 0) -> bytes | None:
    """The viewer's conversation by the post that began it; None when there is nothing of it that they may see."""
    try:
        found = await talks.one(front.reads, viewer, root_id)
    except NotFound:
        return None
    return encode((await conversations.shown(front, viewer, (found,), data))[0])


NOTIFIED = "read:notifications"
_ENTRIES = "read:statuses"
_SCOPES = {"user:notification": NOTIFIED}
_PLAIN: dict[str, Interest] = {
    "user": HOME,
    "user:notification": NOTIFICATIONS,
    "direct": CONVERSATIONS,
    "public": Everybody(),
    "public:local": Everybody(),
    "public:media": Everybody(only_media=True),
    "public:local:media": Everybody(only_media=True),
    # Everybody is local here.
    "public:remote": PRESENCE,
    "public:remote:media": PRESENCE,
}


class StreamName(WithData, frozen=True):
    """A stream as a client asks for it."""

    stream: Annotated[str, Meta(max_length=100)] = ""
    list: Id | None = None
    tag: Annotated[str, Meta(max_length=400)] = ""
    last_event_id: Annotated[str, Meta(max_length=100)] | None = None
    """After which event to go on; a client that gives one, and be it empty, is told the id of each event."""


class Stream(NamedTuple):
    """A stream that is there."""

    label: tuple[str, ...]
    """The name and parameters of the stream, as messages to the client carry them."""
    interest: Interest


async def stream_of(front: Front, caller: Caller, asked: StreamName) -> Stream:
    """The stream that is meant. Raises `NotFound`, `Malformed`, or `OutsideScopes` when the token is not good for it."""
    if caller.member_id is None:
        raise NeedsMember
    if not granted(caller.scopes, _SCOPES.get(asked.stream, _ENTRIES)):
        raise OutsideScopes
    if (plain := _PLAIN.get(asked.stream)) is not None:
        return Stream((asked.stream,), plain)
    if asked.stream in {"hashtag", "hashtag:local"}:
        return Stream((asked.stream, asked.tag), TagInterest(tag_id(_tag(asked.tag))))
    if asked.stream == "list":
        if asked.list is None:
            raise Malformed("Missing list name parameter")
        return Stream(
            (asked.stream, str(int(asked.list))), Listed(await _own_list(front, caller.member_id, asked.list))
        )
    raise Malformed("Unknown stream type")


def _tag(text: str) -> str:
    if not text:
        raise Malformed("Missing tag name parameter")
    try:
        return check_tag(text)
    except InvalidInput:
        raise NotFound("Record not found") from None


async def _own_list(front: Front, member_id: int, list_id: int) -> int:
    if list_id == FOR_YOU_LIST and front.settings.for_you_list:
        # Nothing is ever said on it: what is best is not what is newest.
        return list_id
    found = (await front.graph.obj_get((list_id,))).get(list_id)
    if not isinstance(found, MemberList) or found.owner_id != member_id:
        raise NotFound("Record not found")
    return found.id


REFRESH = "refresh"
"""Something may have been missed. No client knows it that was not written for Shoal; it is passed over like any unknown event."""


class StreamEvent(NamedTuple):
    """One event. `payload` is JSON in one line; None where there is nothing more to say."""

    name: str
    payload: bytes | None
    position: str


async def events(
    front: Front, caller: Caller, connection: Connection, heard: Sequence[PlacedUpdate | Missed], data: int
) -> list[StreamEvent]:
    """Turn messages into events as the viewer may see them, with up to `data` bytes of data. Raises `Unavailable`."""
    told = await streaming.told(front.reads, connection, heard)
    with another_request():
        made = [await _event(front, caller, connection.viewer, one, data) for one in told]
    return [event for event in made if event is not None]


async def _event(
    front: Front, caller: Caller, viewer: int, one: streaming.News | streaming.OfViewer, data: int
) -> StreamEvent | None:
    if isinstance(one, streaming.Arrived | streaming.Edited):
        name = "update" if isinstance(one, streaming.Arrived) else "status.update"
        return StreamEvent(name, await front.present.status(viewer, one.entry, data), one.position)
    if isinstance(one, streaming.Removed):
        return StreamEvent("delete", b"%d" % one.id, one.position)
    if isinstance(one, streaming.Notified):
        known = await notification_json(front, viewer, one.time, data) if granted(caller.scopes, NOTIFIED) else None
        return StreamEvent("notification", known, one.position) if known is not None else None
    if isinstance(one, streaming.Conversed):
        talk = await conversation_json(front, viewer, one.root_id, data)
        return StreamEvent("conversation", talk, one.position) if talk is not None else None
    return StreamEvent("filters_changed" if isinstance(one, streaming.Refiltered) else REFRESH, None, one.position)


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
    endpoints.public("GET", "/api/v1/streaming/health", health, answer=Body("text/plain")),
    *(
        endpoints.route(
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


_log = logging.getLogger(__name__)

_PATHS = ("/api/v1/streaming", "/api/v1/streaming/")
_MOST = 50
"""Streams on one socket."""
_CLOSE_SECONDS = 5.0
_GOING_AWAY, _NOT_ALLOWED, _FAILED, _COME_AGAIN = 1001, 1008, 1011, 1013


class SocketFrame(StreamName, frozen=True, kw_only=True):
    """A message from the client."""

    type: Literal["subscribe", "unsubscribe"]


class _Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message to the client."""

    stream: tuple[str, ...]
    event: str
    payload: str | None = None
    id: str | None = None


class Sockets:
    """The application for every WebSocket."""

    def __init__(self, front: Front) -> None:
        self._front = front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One of them."""
        await receive()
        async with AsyncExitStack() as stack:
            try:
                with another_request():
                    text, caller = await self._admit(scope)
                listening = self._front.streams.listening(caller, PRESENCE)
                presence = await stack.enter_async_context(listening)
            except Exception as error:  # noqa: BLE001  # whatever it is, the table of errors answers it
                await _refuse(reply_for(error, where="a WebSocket"), scope, send)
                return
            # Chromium drops a socket that does not come back with the protocol that it offered: here that is the token.
            protocol = next(iter(scope["subprotocols"]), None)
            socket = _Socket(self._front, text, caller, presence, receive, send)
            await socket.run(scope, protocol)

    async def _admit(self, scope: Scope) -> tuple[str, Caller]:
        """The token, and whose it is: in the header, the query, or as the protocol, where browsers can put it."""
        if scope["path"] not in _PATHS:
            raise NotFound
        name_route(_PATHS[0])
        enter(AUTHENTICATE)
        connection = HTTPConnection(scope)
        text = bearer_of(connection) or next(iter(scope["subprotocols"]), "")
        caller, failure = ANONYMOUS, None
        try:
            caller = await caller_with(self._front.uses, connection, text)
        except (Unauthenticated, NotAllowed) as error:
            failure = error
        # Before any refusal, so that guessing tokens is limited as well.
        await _count(self._front, caller.member_id or rate_limits.address_of(scope))
        if failure is not None:
            raise failure
        if caller.member_id is None:
            raise NeedsMember
        name_member(caller.member_id)
        return text, caller


class _Socket:
    """One socket that is open. Its presence in the hub ends when it is to be closed, whoever finds that."""

    def __init__(
        self, front: Front, text: str, caller: Caller, presence: Connection, receive: Receive, send: Send
    ) -> None:
        self._front = front
        self._text = text
        self._caller = caller
        self._presence = presence
        self._receive = receive
        self._send = send
        self._accepted = asyncio.Event()
        self._streams: dict[tuple[str, int | None, str], asyncio.Task[None]] = {}
        self._gone = False
        self._code, self._reason = _GOING_AWAY, ""

    async def run(self, scope: Scope, protocol: str | None) -> None:
        """Until either end has enough. Whoever names a stream in the address hears of all that happens after the handshake."""
        connection = HTTPConnection(scope)
        failure = await self._first(connection.query_params)

        async def check() -> None:
            self._front.ip_guard.check(scope)
            await caller_with(self._front.uses, connection, self._text)

        reading = asyncio.create_task(self._read())
        try:
            await self._send({"type": "websocket.accept", "subprotocol": protocol})
            self._accepted.set()
            if failure is not None:
                await self._refuse(failure)
            async with aclosing(self._front.streams.attended(self._presence, check)) as attended:
                async for _ in attended:
                    # A ping is the sign of life here.
                    pass
        except OSError:
            self._gone = True
        finally:
            await cancel(reading, *self._streams.values())
        if not self._gone:
            await self._close()

    async def _first(self, query: Mapping[str, str]) -> ShoalError | None:
        if not query.get("stream"):
            return None
        try:
            await self._subscribe(convert(query, StreamName))
        except ShoalError as error:
            return error
        return None

    async def _read(self) -> None:
        await self._accepted.wait()
        try:
            while (message := await self._receive())["type"] != "websocket.disconnect":
                try:
                    await self._do(message)
                except ShoalError as error:
                    await self._refuse(error)
            self._gone = True
            self._presence.end()
        except OSError:
            self._gone = True
            self._presence.end()
        except Exception:  # noqa: BLE001  # it may be the last of the socket, never of the process
            _log.exception("what came over a WebSocket could not be worked off")
            self._end(_FAILED, "Something went wrong on our side")

    async def _do(self, message: Message) -> None:
        await _count(self._front, self._presence.viewer)
        frame = convert(_decoded(message), SocketFrame)
        if frame.type == "subscribe":
            await self._subscribe(frame)
        elif (task := self._streams.pop(_key(frame), None)) is not None:
            await cancel(task)

    async def _subscribe(self, asked: StreamName) -> None:
        """Returns when nothing more is missed. Who has the stream already keeps it."""
        key = _key(asked)
        if key in self._streams:
            return
        if len(self._streams) >= _MOST:
            raise TooMany("Too many streams on one socket", retry_after=1)
        with another_request():
            stream = await stream_of(self._front, self._caller, asked)
        connected = asyncio.Event()
        task = self._streams[key] = asyncio.create_task(self._tell(stream, asked, connected))
        waiting = asyncio.create_task(connected.wait())
        try:
            await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    async def _tell(self, stream: Stream, asked: StreamName, connected: asyncio.Event) -> None:
        try:
            await self._hear(stream, asked, connected)
        except Unavailable as error:
            self._end(_COME_AGAIN, str(error))
        except OSError:
            self._gone = True
            self._presence.end()
        except Exception:  # noqa: BLE001  # the same
            _log.exception("a stream on a WebSocket could not go on")
            self._end(_FAILED, "Something went wrong on our side")

    async def _hear(self, stream: Stream, asked: StreamName, connected: asyncio.Event) -> None:
        hub, caller, after = self._front.streams.hub, self._caller, asked.last_event_id
        position = Position(after) if after else None
        connecting = hub.connect(self._presence.viewer, position, to=stream.interest, session=caller.token_id)
        async with connecting as connection:
            connected.set()
            await self._accepted.wait()
            while heard := await connection.take():
                for event in await events(self._front, caller, connection, heard, listed_data(wanted=asked.with_data)):
                    if event.name == REFRESH and after is None:
                        self._end(_COME_AGAIN, "Something may have been missed")
                        return
                    await self._say(stream, event, numbered=after is not None)

    async def _say(self, stream: Stream, event: StreamEvent, *, numbered: bool) -> None:
        payload = None if event.payload is None else event.payload.decode()
        said = _Said(stream.label, event.name, payload, event.position if numbered else None)
        await self._write(said)

    async def _refuse(self, error: ShoalError) -> None:
        reply = reply_for(error, where="a WebSocket")
        body = {**reply.body, "status": reply.status} if isinstance(reply.body, dict) else {"status": reply.status}
        await self._write(body)

    async def _write(self, body: object) -> None:
        """Raises `OSError` for a client that is gone, or reads nothing."""
        async with asyncio.timeout(self._front.streams.pace.patience):
            await self._send({"type": "websocket.send", "text": encode(body).decode()})

    def _end(self, code: int, reason: str) -> None:
        self._code, self._reason = code, reason
        self._presence.end()

    async def _close(self) -> None:
        code, reason = self._code, self._reason
        if self._presence.dismissed:
            code, reason = _NOT_ALLOWED, "The access token is not valid any more"
        try:
            # Whoever reads nothing does not read this either.
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except OSError:
            return


def _key(asked: StreamName) -> tuple[str, int | None, str]:
    return asked.stream, asked.list, asked.tag.lower()


def _decoded(message: Message) -> dict[str, object]:
    data = message.get("text") or message.get("bytes") or ""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Malformed("A message must be a JSON object") from None
    if not isinstance(found, dict):
        raise Malformed("A message must be a JSON object")
    return found


async def _count(front: Front, who: int | str) -> None:
    window = await front.limiter.take(rate_limits.RateKey("api", who))
    if window is not None and window.wait:
        raise TooMany("Too many requests", retry_after=window.wait)


async def _refuse(reply: Reply, scope: Scope, send: Send) -> None:
    """An answer in HTTP where the server can give one, else the plain refusal of a handshake."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": _NOT_ALLOWED})
        return
    content = encode(reply.body)
    begun = start(reply.status, content, (), reply.headers)
    await send({**begun, "type": "websocket.http.response.start"})
    await send({"type": "websocket.http.response.body", "body": content})

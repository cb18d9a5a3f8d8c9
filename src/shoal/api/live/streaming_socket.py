"""Live updates over a WebSocket: several streams on one, which a client takes and leaves while it is open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack, aclosing
from typing import Literal

import msgspec
from starlette.requests import HTTPConnection
from starlette.types import Message, Receive, Scope, Send

from shoal.api.context import Front
from shoal.api.http.authentication import bearer_of, caller_with
from shoal.api.http.calls import ANONYMOUS, Caller
from shoal.api.http.convert import convert
from shoal.api.http.errors import Malformed, NeedsMember, reply_for
from shoal.api.http.limits import ratelimit
from shoal.api.http.pages import listed_data
from shoal.api.http.replies import Reply, encode, start
from shoal.api.live.stream_events import REFRESH, StreamEvent, events
from shoal.api.live.stream_names import Stream, StreamName, stream_of
from shoal.core.errors import NotAllowed, NotFound, ShoalError, TooMany, Unauthenticated, Unavailable
from shoal.graph.cache.coherence import another_request
from shoal.streaming.contract import Position
from shoal.streaming.hub import Connection
from shoal.streaming.subscriptions import PRESENCE
from shoal.tracing.record import AUTHENTICATE, enter, name_member, name_route

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
        await _count(self._front, caller.member_id or ratelimit.address_of(scope))
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
            tasks = [reading, *self._streams.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
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
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

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
    window = await front.limiter.take(ratelimit.RateKey("api", who))
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

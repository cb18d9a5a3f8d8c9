"""The other side: calls that go to the owner of the store in another process."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from shoal.core.errors import Unavailable
from shoal.library.sharing.failures import error_of
from shoal.library.sharing.frames import (
    CallFailed,
    Cancel,
    Changing,
    FrameSocket,
    FromOwner,
    Hello,
    NextItem,
    Request,
    Response,
    StreamEnd,
    packed,
)
from shoal.library.sharing.owner import HEARTBEAT_SECONDS
from shoal.library.sharing.surface import Method, Nouns
from shoal.library.sharing.values import Values
from shoal.ops.socket_files import at

_HELLO_SECONDS = 5.0
_HELLO_BYTES = 1 << 16
SILENCE_SECONDS = 10 * HEARTBEAT_SECONDS
"""An owner that has sent nothing for this long is taken to hang; a busy machine is given time."""
_MOST_CALLS = 200
"""Calls under way at a time; others wait. The owner refuses more than a few above this number."""

_decode = msgspec.msgpack.Decoder(FromOwner).decode
_decode_plain = msgspec.msgpack.Decoder(strict=True).decode


class Call(NamedTuple):
    """A call of the application."""

    noun: str
    name: str
    method: Method
    member: tuple[int, str] | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class OwnerGone(Exception):
    """The owner ended before it answered. `changing`: it had begun to change the store for this call."""

    def __init__(self, *, changing: bool) -> None:
        super().__init__("the process that has the store has ended")
        self.changing = changing


class NotListening(Exception):
    """No process answers at the socket."""


class _Waiting:
    """A call, or a step of a stream, that waits for the owner."""

    def __init__(self) -> None:
        self.changing = False
        self.expect()

    def expect(self) -> None:
        """Wait for another message."""
        self.message: asyncio.Future[Response | CallFailed | StreamEnd] = asyncio.get_running_loop().create_future()

    def lost(self) -> None:
        """End the wait: nothing will come."""
        if not self.message.done():
            self.message.set_exception(OwnerGone(changing=self.changing))
            # A caller that went away does not ask for it.
            self.message.exception()


class CallerConnection:
    """A connection to the owner. Calls in any number share it."""

    def __init__(self, connection: FrameSocket, nouns: Nouns, values: Values, silence: float) -> None:
        self._connection = connection
        self._nouns = nouns
        self._values = values
        self._silence = silence
        self._numbers = count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._room = asyncio.Semaphore(_MOST_CALLS)
        self._background: set[asyncio.Task[None]] = set()
        self._greeted = asyncio.get_running_loop().create_future()
        self.ended = asyncio.create_task(self._read())
        """It is done when the connection has ended."""

    async def greet(self) -> None:
        """Wait for the owner's first message. Raises `NotListening` where none comes, `Unavailable` for another version."""
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                hello: Hello | None = await self._greeted
        except TimeoutError as error:
            raise NotListening("the process that has the store does not answer") from error
        if hello is None:
            raise NotListening("the process that has the store ended the connection")
        if hello.fingerprint != self._values.fingerprint:
            raise Unavailable("the process that has the store runs another version of Shoal: start it again")
        self._connection.most = hello.most

    async def call(self, call: Call) -> Any:
        """Return what the method returns in the owner, or raise what it raises. Raises `OwnerGone` where it ended."""
        async with self._room:
            message = await self._ask(_Waiting(), *self._request(call))
        return self._answer(call, message)

    async def stream(self, call: Call) -> AsyncGenerator[Any, None]:
        """Yield what the method yields in the owner. An item is made when it is wanted."""
        waiting, (id_, frame) = _Waiting(), self._request(call)
        over = False
        try:
            while True:
                message = await self._ask(waiting, id_, frame, keep=True)
                over = not isinstance(message, Response)
                if isinstance(message, StreamEnd):
                    return
                yield self._answer(call, message)
                waiting.expect()
                frame = packed(NextItem(id_), self._connection.most)
        finally:
            self._waiting.pop(id_, None)
            if not over:
                self._cancel(id_)

    def _request(self, call: Call) -> tuple[int, bytes]:
        id_ = next(self._numbers)
        plain = self._values.plain
        kwargs = {name: plain(value) for name, value in call.kwargs.items()}
        request = Request(id_, call.noun, call.name, call.member, list(map(plain, call.args)), kwargs)
        return id_, packed(request, self._connection.most)

    async def _ask(
        self, waiting: _Waiting, id_: int, frame: bytes, *, keep: bool = False
    ) -> Response | CallFailed | StreamEnd:
        if self.ended.done():
            raise OwnerGone(changing=False)
        self._waiting[id_] = waiting
        try:
            # When it fails, the end of the connection tells how far the owner came.
            with suppress(ConnectionError):
                await self._connection.send(frame)
            return await waiting.message
        except asyncio.CancelledError:
            if not keep:
                self._cancel(id_)
            raise
        finally:
            if not keep:
                self._waiting.pop(id_, None)

    def _answer(self, call: Call, message: Response | CallFailed | StreamEnd) -> Any:
        if isinstance(message, CallFailed):
            raise error_of(message)
        if not isinstance(message, Response):
            raise Unavailable("the process that has the store gave no answer")
        if call.method.decoder is not None:
            return call.method.decoder.decode(message.value)
        return self._values.made(_decode_plain(message.value))

    def _cancel(self, id_: int) -> None:
        if not self.ended.done():
            task = asyncio.create_task(self._tell(Cancel(id_)))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _tell(self, message: Cancel) -> None:
        with suppress(ConnectionError):
            await self._connection.send(packed(message, self._connection.most))

    async def _read(self) -> None:
        try:
            with suppress(ConnectionError):
                async with aclosing(self._connection.frames(self._silence)) as frames:
                    async for frame in frames:
                        self._take(frame)
        finally:
            self._connection.shut()
            if not self._greeted.done():
                self._greeted.set_result(None)
            # All at once, and none can come: `ended` is done before any other code runs.
            waiting, self._waiting = self._waiting, {}
            for one in waiting.values():
                one.lost()
            self._connection.close()

    def _take(self, frame: bytes) -> None:
        try:
            message = _decode(frame)
        except msgspec.DecodeError:
            # Another version, which `greet` reports; or a mistake, after which nothing can be trusted.
            if not self._greeted.done():
                self._greeted.set_result(Hello("", self._connection.most))
            self._connection.shut()
            return
        match message:
            case Hello():
                if not self._greeted.done():
                    self._connection.most = message.most
                    self._greeted.set_result(message)
            case Changing(id=id_):
                if id_ in self._waiting:
                    self._waiting[id_].changing = True
            case Response(id=id_) | CallFailed(id=id_) | StreamEnd(id=id_):
                waiting = self._waiting.get(id_)
                if waiting is not None and not waiting.message.done():
                    waiting.message.set_result(message)

    async def close(self) -> None:
        """End the connection."""
        self._connection.shut()
        await asyncio.gather(self.ended, *self._background, return_exceptions=True)


async def connected(path: Path, nouns: Nouns, values: Values, *, silence: float = SILENCE_SECONDS) -> CallerConnection:
    """Connect to the owner at `path`. Raises `NotListening`, and `Unavailable` for an owner that cannot be called."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        with at(path) as address:
            await asyncio.get_running_loop().sock_connect(sock, address)
        _check_user(sock, path)
    except (FileNotFoundError, ConnectionRefusedError, BlockingIOError) as error:
        sock.close()
        raise NotListening(f"no process answers at {path}") from error
    except OSError as error:
        sock.close()
        raise Unavailable(f"{path} cannot be opened: {error.strerror}") from error
    except BaseException:
        sock.close()
        raise
    connection = CallerConnection(FrameSocket(sock, _HELLO_BYTES), nouns, values, silence)
    try:
        await connection.greet()
    except BaseException:
        await connection.close()
        raise
    return connection


def _check_user(sock: socket.socket, path: Path) -> None:
    """Refuse a socket of another user, who may have put it into a folder that everybody may write to."""
    user = _user_of(sock)
    if os.geteuid() not in (0, user) and user != 0:
        raise Unavailable(f"{path} belongs to another user")


def _user_of(sock: socket.socket) -> int:
    """Return the number of the user whose process listens."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return int(user)

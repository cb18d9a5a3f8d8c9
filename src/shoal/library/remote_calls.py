"""Both ends of calls between processes that share a store: the owner executes calls on its network, the caller sends them.

A connection is one process. It may have a bounded number of concurrent calls and streams; further ones are refused. The
owner announces when a call begins to change the store (`graph/memory.py`), and makes no change that it could not
announce.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from shoal.app.network import Network
from shoal.core.errors import InvalidInput, ShoalError, Unavailable
from shoal.graph.contract import announcing
from shoal.library.remote_methods import Method, Nouns, Values, handle_for
from shoal.multiprocess.messages import at, bound, remove
from shoal.multiprocess.rpc import (
    CallFailed,
    Cancel,
    Changing,
    FrameSocket,
    FromCaller,
    FromOwner,
    Heartbeat,
    Hello,
    NextItem,
    Request,
    Response,
    StreamEnd,
    close_in_children,
    error_of,
    failure,
    packed,
)
from shoal.settings import Settings
from shoal.tasks import cancel

_log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 2.0
_MOST_PROCESSES = 64
_MOST_SERVED_CALLS = 256
_MOST_STREAMS = 1_024
_GRACE_SECONDS = 10.0
"""How long the end waits for calls of other processes."""
_ACCEPT_REST_SECONDS = 0.2
_BESIDE_FILES = 8 << 20
"""Bytes of a call beside the two files that an upload may have."""

_decode_from_caller = msgspec.msgpack.Decoder(FromCaller).decode
_encode = msgspec.msgpack.Encoder().encode


class OwnedNetwork:
    """The network of this process, with its methods by name."""

    def __init__(self, shoal: Any, network: Network, nouns: Nouns, values: Values) -> None:
        self.shoal = shoal
        self._network = network
        self.nouns = nouns
        self.values = values.with_handles(self._handle)
        self.most = _most_bytes(network.settings)

    def _handle(self, id_: int, name: str) -> object:
        return handle_for(self._network, id_, name)

    def target(self, noun: str, member: tuple[int, str] | None) -> Any:
        """Return the object of the library whose methods stand under a noun, for a member where it is one of a member."""
        root, _, attribute = noun.partition(".")
        thing = self.shoal if root == "shoal" else self._handle(*(member or (0, "")))
        return getattr(thing, attribute) if attribute else thing


def _most_bytes(settings: Settings) -> int:
    return 2 * max(settings.max_upload_bytes, settings.max_video_bytes) + _BESIDE_FILES


@asynccontextmanager
async def answering(owned: OwnedNetwork, path: Path) -> AsyncIterator[None]:
    """Answer calls at `path` until the block ends. The holder of the store's lock may do this: an old socket is replaced."""
    with at(path) as address:
        remove(path)
        listener = bound(address)
    listener.listen(_MOST_PROCESSES)
    close_in_children(listener)
    server = _Server(owned)
    server.listen(listener)
    try:
        yield
    finally:
        server.deafen(listener)
        remove(path)
        listener.close()
        await server.close()


class _Server:
    """All connections of the owner."""

    def __init__(self, owned: OwnedNetwork) -> None:
        self._owned = owned
        self._served: dict[asyncio.Task[None], _Served] = {}
        self._rest: asyncio.TimerHandle | None = None

    def accept(self, listener: socket.socket) -> None:
        """Begin to serve a process that has connected. It takes no turn of the loop, in which a connection could be lost."""
        try:
            sock, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError:
            # Too many open files, above all.
            loop = asyncio.get_running_loop()
            loop.remove_reader(listener)
            self._rest = loop.call_later(_ACCEPT_REST_SECONDS, self.listen, listener)
            return
        if len(self._served) >= _MOST_PROCESSES:
            _log.warning("more than %d processes call at the same time: another one is refused", _MOST_PROCESSES)
            sock.close()
            return
        served = _Served(self._owned, FrameSocket(sock, self._owned.most))
        task = asyncio.create_task(served.run())
        self._served[task] = served
        task.add_done_callback(lambda done: self._served.pop(done).leave())

    def listen(self, listener: socket.socket) -> None:
        """Accept connections from now on."""
        asyncio.get_running_loop().add_reader(listener, self.accept, listener)

    def deafen(self, listener: socket.socket) -> None:
        """Accept no more connections."""
        if self._rest is not None:
            self._rest.cancel()
        asyncio.get_running_loop().remove_reader(listener)

    async def close(self) -> None:
        """Let calls under way end, begin no others, and end the connections."""
        await asyncio.gather(*(served.finish() for served in self._served.values()))
        await cancel(*self._served)


class _Served:
    """One connection."""

    def __init__(self, owned: OwnedNetwork, connection: FrameSocket) -> None:
        self._owned = owned
        self._connection = connection
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._streams: dict[int, asyncio.Task[None]] = {}
        self._wanted: dict[int, asyncio.Event] = {}
        """For each stream, whether its next item is wanted."""
        self._ending = False

    async def run(self) -> None:
        """Answer until the other side goes."""
        heartbeat = asyncio.create_task(self._beat())
        try:
            with suppress(ConnectionError, msgspec.DecodeError):
                await self._send(Hello(self._owned.values.fingerprint, self._owned.most))
                async with aclosing(self._connection.frames()) as frames:
                    async for frame in frames:
                        self._take(_decode_from_caller(frame))
        finally:
            # First, so that calls under way announce no change any more, and make none.
            self._connection.shut()
            await cancel(heartbeat, *self._calls.values(), *self._streams.values())

    def leave(self) -> None:
        """Close the socket, once the task is over: one that is cancelled before its first step could not do it itself."""
        self._connection.close()

    async def finish(self) -> None:
        """Begin nothing new, and wait for calls under way."""
        self._ending = True
        for task in self._streams.values():
            task.cancel()
        if self._calls:
            await asyncio.wait(self._calls.values(), timeout=_GRACE_SECONDS)

    def _take(self, message: FromCaller) -> None:
        match message:
            case _ if self._ending:
                # The caller repeats what has no answer.
                return
            case Request(id=id_):
                method = self._owned.nouns.get(message.noun, {}).get(message.method)
                streams = method is not None and method.streams
                tasks = self._streams if streams else self._calls
                room = len(tasks) < (_MOST_STREAMS if streams else _MOST_SERVED_CALLS)
                task = asyncio.create_task(self._carry_out(message, method, room=room))
                tasks[id_] = task
                task.add_done_callback(lambda _: (tasks.pop(id_, None), self._wanted.pop(id_, None)))
            case NextItem(id=id_):
                if id_ in self._wanted:
                    self._wanted[id_].set()
            case Cancel(id=id_):
                task_ = self._calls.get(id_) or self._streams.get(id_)
                if task_ is not None:
                    task_.cancel()

    async def _carry_out(self, request: Request, method: Method | None, *, room: bool) -> None:
        id_ = request.id
        announcing.set(self._announcer(id_))
        try:
            made = self._begun(request, method, room=room)
            if method is not None and method.streams:
                await self._stream(id_, made)
            else:
                await self._answer(id_, method, await made)
        except ConnectionError:
            return
        except Exception as error:  # noqa: BLE001  # it is raised in the process that called
            with suppress(ConnectionError):
                await self._send(failure(id_, error))

    def _begun(self, request: Request, method: Method | None, *, room: bool) -> Any:
        if method is None:
            raise InvalidInput(f"there is no method {request.noun}.{request.method}")
        if not room:
            raise Unavailable("too many calls of this process are under way", retry_after=1.0)
        return method.function(
            self._owned.target(request.noun, request.member),
            *map(self._owned.values.made, request.args),
            **{name: self._owned.values.made(value) for name, value in request.kwargs.items()},
        )

    async def _answer(self, id_: int, method: Method | None, answer: object) -> None:
        plain = method is None or method.decoder is None
        body = _encode(self._owned.values.plain(answer) if plain else answer)
        await self._send(Response(id_, msgspec.Raw(body)))

    async def _stream(self, id_: int, items: AsyncGenerator[object, None]) -> None:
        wanted = self._wanted[id_] = asyncio.Event()
        async with aclosing(items):
            async for item in items:
                await self._answer(id_, None, item)
                await wanted.wait()
                wanted.clear()
        if not self._ending:
            await self._send(StreamEnd(id_))

    def _announcer(self, id_: int) -> Any:
        announced = False

        async def announce() -> None:
            nonlocal announced
            if announced:
                return
            try:
                await self._send(Changing(id_))
            except ConnectionError as error:
                raise Unavailable("the process that called has gone") from error
            announced = True

        return announce

    async def _send(self, message: FromOwner) -> None:
        await self._connection.send(packed(message, self._owned.most))

    async def _beat(self) -> None:
        with suppress(ConnectionError, ShoalError):
            while True:
                await asyncio.sleep(HEARTBEAT_SECONDS)
                if not self._connection.busy:
                    await self._send(Heartbeat())


_HELLO_SECONDS = 5.0
_HELLO_BYTES = 1 << 16
SILENCE_SECONDS = 10 * HEARTBEAT_SECONDS
"""An owner that has sent nothing for this long is taken to hang; a busy machine is given time."""
_MOST_SENT_CALLS = 200
"""Calls under way at a time; others wait. The owner refuses more than a few above this number."""

_decode_from_owner = msgspec.msgpack.Decoder(FromOwner).decode
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
        self._room = asyncio.Semaphore(_MOST_SENT_CALLS)
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
            message = _decode_from_owner(frame)
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

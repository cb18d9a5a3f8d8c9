"""Requests, streams and passed connections between the processes of a host, over the links of `multiprocess.link`.

The server speaks first: `Hello` states the version of this protocol. A request has an id that its answers repeat. Requests in
flight are bounded on both sides: the client waits, and the server refuses. A server that ends before it answers leaves one of
two outcomes: without `Begun` nothing was changed and the request may be repeated; after `Begun` the outcome is unknown.

| message | from | meaning |
|---|---|---|
| `Hello` | server | the versions of protocol and service, and the maximum bytes of a message |
| `Request` | client | a call, or a stream that yields its first item |
| `Next` | client | request for the next item of a stream |
| `Cancel` | client | cancellation of a call or a stream |
| `Begun` | server | a call starts to change something |
| `Notice` | server | progress of a call, dropped if the client does not read |
| `Response`, `Failure`, `End` | server | the result of a call or an item; an error; the end of a stream |
| `Heartbeat` | server | a sign of life, every two seconds |
| `Passed` | both | a client connection to be continued: its descriptor, and the bytes that the client has sent |
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from shoal.core.errors import InvalidInput, ShoalError, Unavailable
from shoal.multiprocess import link
from shoal.multiprocess.link import Link, LinkClosed

_log = logging.getLogger(__name__)

PROTOCOL = 1
_HEARTBEAT_SECONDS = 2.0
SILENCE_SECONDS = 60.0
"""Seconds without a message after which a server counts as hung; long enough for a busy machine."""
_MOST_CALLS = 256
_MOST_STREAMS = 1_024
_MOST_SENT_CALLS = 200
"""Concurrent calls of a client; further ones wait. Cancelled calls may still run, so the server allows a few more."""
_HELLO_BYTES = 1 << 16
_ACCEPT_PAUSE_SECONDS = 0.2
_OTHER_VERSION = "the process that has the store runs another version of Shoal: start it again"
_TOO_MANY = "too many calls of this process are under way"
_INTERNAL = "the process that has the store met an error of its own; its log says which"


class Hello(msgspec.Struct, tag="hello", array_like=True):
    protocol: int
    fingerprint: str
    """A digest of the service's methods and types, if they depend on its version."""
    most: int
    """Maximum bytes of a message."""


class Request(msgspec.Struct, tag="request", array_like=True):
    id: int
    body: msgspec.Raw
    streams: bool = False


class Next(msgspec.Struct, tag="next", array_like=True):
    id: int


class Cancel(msgspec.Struct, tag="cancel", array_like=True):
    id: int


class Begun(msgspec.Struct, tag="begun", array_like=True):
    id: int


class Notice(msgspec.Struct, tag="notice", array_like=True):
    id: int
    body: msgspec.Raw


class Response(msgspec.Struct, tag="response", array_like=True):
    id: int
    body: msgspec.Raw


class Failure(msgspec.Struct, tag="failure", array_like=True):
    """An error as a message, with the names of its classes in method resolution order.

    With the id 0, it means that the server refuses the connection.
    """

    id: int
    kinds: list[str]
    message: str
    details: dict[str, str | float | None]


class End(msgspec.Struct, tag="end", array_like=True):
    id: int


class Heartbeat(msgspec.Struct, tag="heartbeat", array_like=True):
    pass


class Passed(msgspec.Struct, tag="passed", array_like=True):
    data: bytes


_decode_from_client = msgspec.msgpack.Decoder(Request | Next | Cancel | Passed).decode
_decode_from_server = msgspec.msgpack.Decoder(
    Hello | Begun | Notice | Response | Failure | End | Heartbeat | Passed
).decode

Take = Callable[[socket.socket, bytes], None]
"""Continues a passed connection, whose client has sent these bytes."""


def _take_passed(take: Take | None, message: object, descriptor: int) -> bool:
    """Return whether the message passes a connection. Call `take` with its socket; close any other descriptor."""
    if descriptor >= 0:
        if isinstance(message, Passed) and take is not None:
            take(socket.socket(fileno=descriptor), message.data)
        else:
            os.close(descriptor)
    return isinstance(message, Passed)


class ServedCall:
    def __init__(self, id_: int, peer: Peer) -> None:
        self.peer = peer
        self._id = id_
        self._begun = False

    async def begin(self) -> None:
        """Tell the client that the request begins to change something. If this raises `LinkClosed`, change nothing."""
        if not self._begun:
            self.peer.link.send(Begun(self._id))
            await self.peer.link.flushed()
            self._begun = True

    def notify(self, body: bytes) -> None:
        """Send a notice, unless the client does not read."""
        self.peer.link.offer(Notice(self._id, msgspec.Raw(body)))


def _no_items(_body: msgspec.Raw, _call: ServedCall) -> AsyncGenerator[bytes, None]:
    raise InvalidInput("this process does not support requests with streamed responses")


@dataclass(frozen=True, slots=True)
class Service:
    """The functions by which a server answers requests, with its limits. Bodies and responses are MessagePack."""

    answer: Callable[[msgspec.Raw, ServedCall], Awaitable[bytes]]
    items: Callable[[msgspec.Raw, ServedCall], AsyncGenerator[bytes, None]] = _no_items
    take: Take | None = None
    fingerprint: str = ""
    most: int = 1 << 20
    """Maximum bytes of a message."""
    processes: int = 64
    """Maximum number of clients."""


@asynccontextmanager
async def serving(path: Path, service: Service, *, grace: float = 0.0) -> AsyncIterator[None]:
    """Serve at `path` until the block ends, then cancel requests that run for more than `grace` seconds.

    Call this only while holding the store's lock, because it replaces the socket of another process.
    """
    server = _Server(service, link.listen(path, service.processes))
    heartbeats = asyncio.create_task(server.beat(), name="shoal-heartbeats")
    try:
        yield
    finally:
        server.stop_listening()
        link.remove(path)
        await server.close(grace)
        heartbeats.cancel()
        await asyncio.gather(heartbeats, return_exceptions=True)


class _Server:
    def __init__(self, service: Service, listener: socket.socket) -> None:
        self.service = service
        self.peers: set[Peer] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.closing = False
        self._listener = listener
        self._pause: asyncio.TimerHandle | None = None
        self._listen()

    def _listen(self) -> None:
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def stop_listening(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:
            # The usual reason is too many open files, so pause and try again.
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._listener)
            self._pause = loop.call_later(_ACCEPT_PAUSE_SECONDS, self._listen)
            return
        if not link.is_trusted(sock):
            _log.warning("rejected a connection from a process of operating-system user %d", link.user_of(sock))
            sock.close()
        elif len(self.peers) >= self.service.processes:
            _log.warning("rejected a connection: %d processes are already connected", self.service.processes)
            message = f"{self.service.processes} processes are already connected: try again later"
            with sock, suppress(OSError):
                sock.send(link.frame(Failure(0, [Unavailable.__name__], message, {}), _HELLO_BYTES))
        else:
            self.peers.add(Peer(self, sock))

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            for peer in self.peers:
                peer.link.offer(Heartbeat())

    async def close(self, grace: float) -> None:
        """Stop accepting requests, wait at most `grace` seconds for running requests, and close the connections."""
        self.closing = True
        for peer in self.peers:
            peer.cancel_streams()
        if self.tasks and grace:
            await asyncio.wait(self.tasks, timeout=grace)
        # Shut the links before canceling the requests: a request that cannot announce a change does not make it.
        for peer in list(self.peers):
            peer.link.shut()
        for task in (tasks := list(self.tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for peer in list(self.peers):
            peer.link.close()


class Peer:
    """The server's end of a connection to a client."""

    def __init__(self, server: _Server, sock: socket.socket) -> None:
        self._server = server
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._streams: dict[int, asyncio.Task[None]] = {}
        self._next_requested: dict[int, asyncio.Event] = {}
        """For each stream, whether its next item was requested."""
        self.link = Link(sock, server.service.most, _decode_from_client, self._received, self._ended)
        with suppress(LinkClosed):
            self.link.send(Hello(PROTOCOL, server.service.fingerprint, server.service.most))

    def cancel_streams(self) -> None:
        for task in self._streams.values():
            task.cancel()

    def _ended(self) -> None:
        self._server.peers.discard(self)
        for task in (*self._calls.values(), *self._streams.values()):
            task.cancel()

    def _received(self, message: Request | Next | Cancel | Passed, descriptor: int) -> None:
        if _take_passed(self._server.service.take, message, descriptor):
            return
        match message:
            case Request() if not self._server.closing and self.link.open:
                self._start(message)
            case Next(id=id_) if id_ in self._next_requested:
                self._next_requested[id_].set()
            case Cancel(id=id_):
                if (task := self._calls.get(id_) or self._streams.get(id_)) is not None:
                    task.cancel()

    def _start(self, request: Request) -> None:
        tasks, most = (self._streams, _MOST_STREAMS) if request.streams else (self._calls, _MOST_CALLS)
        task = asyncio.create_task(self._run(request, refused=len(tasks) >= most))
        tasks[request.id] = task
        self._server.tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            tasks.pop(request.id, None)
            self._next_requested.pop(request.id, None)
            self._server.tasks.discard(task)

        task.add_done_callback(done)

    async def _run(self, request: Request, *, refused: bool) -> None:
        service, call = self._server.service, ServedCall(request.id, self)
        with suppress(LinkClosed):
            try:
                if refused:
                    await self._fail(request.id, Unavailable(_TOO_MANY, retry_after=1.0))
                elif request.streams:
                    await self._stream(request.id, service.items(request.body, call))
                else:
                    await self._send(Response(request.id, msgspec.Raw(await service.answer(request.body, call))))
            except LinkClosed:
                raise
            except Exception as error:  # noqa: BLE001  # it is raised in the process that called
                await self._fail(request.id, error)

    async def _fail(self, id_: int, error: Exception) -> None:
        """Send an error to the client. If that fails, close the link, so that the client does not wait forever."""
        try:
            await self._send(_failure(id_, error))
        except LinkClosed:
            raise
        except Exception:  # noqa: BLE001  # whatever it is, the client must learn that there is no answer
            _log.exception("sending an error to another process failed")
            self.link.close()

    async def _stream(self, id_: int, items: AsyncGenerator[bytes, None]) -> None:
        next_requested = self._next_requested[id_] = asyncio.Event()
        async with aclosing(items):
            async for item in items:
                await self._send(Response(id_, msgspec.Raw(item)))
                await next_requested.wait()
                next_requested.clear()
        if not self._server.closing:
            await self._send(End(id_))

    async def _send(self, message: msgspec.Struct) -> None:
        self.link.send(message)
        await self.link.flushed()


class PeerGone(Unavailable):
    """The server ended or became silent before it answered. `begun` means that the call may have changed data."""

    def __init__(self, *, begun: bool, silent: float = 0.0) -> None:
        what = (
            f"has been silent for {silent:.0f} s: look at its log, or restart it"
            if silent
            else "ended before it answered"
        )
        super().__init__(f"the process that has the store {what}")
        self.begun = begun


class _Waiting:
    """A call, or a request for the next item of a stream, that waits for the server's reply."""

    def __init__(self, notice: Callable[[msgspec.Raw], None] | None = None) -> None:
        self.begun = False
        self.notice = notice
        self.expect()

    def expect(self) -> None:
        self.reply: asyncio.Future[Response | Failure | End] = asyncio.get_running_loop().create_future()


class Client:
    """The client's end of a connection to a server, shared by concurrent calls."""

    def __init__(self, sock: socket.socket, silence: float, take: Take | None) -> None:
        loop = asyncio.get_running_loop()
        self._silence = silence
        self._silent = False
        self._take = take
        self._ids = count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._call_slots = asyncio.Semaphore(_MOST_SENT_CALLS)
        self._hello: asyncio.Future[Hello | Failure | None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        """Done when the connection has ended."""
        self.link = Link(sock, _HELLO_BYTES, _decode_from_server, self._received, self._ended)
        self._watching = asyncio.create_task(self._watch())

    async def greeted(self, fingerprint: str) -> None:
        """Wait for the server's first message. Raises `Unavailable` if its version differs, or if it refuses the connection."""
        match await self._hello:
            case Hello() as hello if (hello.protocol, hello.fingerprint) == (PROTOCOL, fingerprint):
                self.link.most = hello.most
            case Failure() as refusal:
                raise _error_of(refusal)
            case None if not self.link.malformed:
                raise self._gone(begun=False)
            case _:
                raise Unavailable(_OTHER_VERSION)

    async def call(self, body: bytes, notice: Callable[[msgspec.Raw], None] | None = None) -> msgspec.Raw:
        """Return the server's answer; `notice` is called with each notice before it.

        Raises the error that the server raised, `PeerGone` if it did not answer, and `Unavailable` or `TooLarge` if the
        request was not sent.
        """
        async with self._call_slots:
            id_, waiting = next(self._ids), _Waiting(notice)
            try:
                return self._answer(await self._ask(Request(id_, msgspec.Raw(body)), waiting))
            except asyncio.CancelledError:
                self._cancel(id_)
                raise
            finally:
                self._waiting.pop(id_, None)

    async def stream(self, body: bytes) -> AsyncGenerator[msgspec.Raw, None]:
        """Yield the server's items, each computed when it is requested. Raises the errors of `call`."""
        id_, waiting = next(self._ids), _Waiting()
        message: Request | Next = Request(id_, msgspec.Raw(body), streams=True)
        over = False
        try:
            while True:
                reply = await self._ask(message, waiting)
                over = not isinstance(reply, Response)
                if isinstance(reply, End):
                    return
                yield self._answer(reply)
                waiting.expect()
                message = Next(id_)
        finally:
            self._waiting.pop(id_, None)
            if not over:
                self._cancel(id_)

    def tell(self, body: bytes) -> None:
        """Send a request without waiting for its response. Raises `Unavailable` if the request was not sent."""
        self.link.send(Request(next(self._ids), msgspec.Raw(body)))

    async def close(self) -> None:
        self.link.shut()
        await asyncio.shield(self.ended)
        await asyncio.gather(self._watching, return_exceptions=True)

    async def _ask(self, message: Request | Next, waiting: _Waiting) -> Response | Failure | End:
        if self.ended.done():
            raise self._gone(begun=False)
        self._waiting[message.id] = waiting
        # Wait for the reply even if the link is closed: a message that arrived earlier may be the reply, or the notice (`Begun`)
        # that the server has begun a change.
        with suppress(LinkClosed):
            self.link.send(message)
        return await waiting.reply

    def _answer(self, reply: Response | Failure | End) -> msgspec.Raw:
        if isinstance(reply, Failure):
            raise _error_of(reply)
        if not isinstance(reply, Response):
            raise Unavailable("the process that owns the store did not respond")
        return reply.body

    def _cancel(self, id_: int) -> None:
        with suppress(Unavailable):
            self.link.send(Cancel(id_))

    def _received(self, message: Any, descriptor: int) -> None:
        if not self._hello.done():
            self._hello.set_result(message if isinstance(message, Hello | Failure) else Hello(0, "", 0))
        if _take_passed(self._take, message, descriptor):
            return
        waiting = self._waiting.get(getattr(message, "id", 0))
        if waiting is None:
            return
        match message:
            case Begun():
                waiting.begun = True
            case Notice(body=body):
                if waiting.notice is not None:
                    _notify(waiting, waiting.notice, body)
            case Response() | Failure() | End():
                if not waiting.reply.done():
                    waiting.reply.set_result(message)

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while (rest := self.link.heard_at + self._silence - loop.time()) > 0:  # noqa: ASYNC110  # the time moves
            await asyncio.sleep(rest)
        self._silent = True
        # Messages that have already arrived are still read: one may report that the server has begun a change. From now on, the
        # server begins no change, because it must first report that over this link.
        self.link.shut()

    def _gone(self, *, begun: bool) -> PeerGone:
        return PeerGone(begun=begun, silent=self._silence if self._silent else 0.0)

    def _ended(self) -> None:
        # Complete all futures without awaiting, so that no other code runs in between.
        self._watching.cancel()
        if not self.ended.done():
            self.ended.set_result(None)
        if not self._hello.done():
            self._hello.set_result(None)
        waiting, self._waiting = self._waiting, {}
        for call in waiting.values():
            if not call.reply.done():
                call.reply.set_exception(self._gone(begun=call.begun))
                # Mark the error as retrieved, because a caller that was canceled does not retrieve it.
                call.reply.exception()


async def connect(
    path: Path, fingerprint: str = "", *, silence: float = SILENCE_SECONDS, take: Take | None = None
) -> Client:
    """Connect to the server at `path`, which counts as hung after `silence` seconds without a message.

    `fingerprint` identifies the version of the protocol; `take` accepts connections that the server passes on. Raises
    `NotListening` if no server listens there, and `Unavailable` if the server cannot be used.
    """
    client = Client(link.connect(path), silence, take)
    try:
        await client.greeted(fingerprint)
    except BaseException:
        await client.close()
        raise
    return client


_DETAILS = ("field", "retry_after", "held_id")


def _notify(waiting: _Waiting, notice: Callable[[msgspec.Raw], None], body: msgspec.Raw) -> None:
    """Call `notice`, which the caller has passed to `Client.call`, with the body of a notice from the server.

    If `notice` raises an error, that `Client.call` raises it too, and the connection stays open.
    """
    try:
        notice(body)
    except Exception as error:  # noqa: BLE001  # it is raised where the request was made
        if not waiting.reply.done():
            waiting.reply.set_exception(error)


def _failure(id_: int, error: Exception) -> Failure:
    """Return an error as a message. Unexpected errors are logged, and replaced by a fixed sentence."""
    if isinstance(error, TimeoutError):
        return Failure(id_, ["TimeoutError"], "", {})
    if not isinstance(error, ShoalError):
        _log.error("a call from another process failed", exc_info=error)
        return Failure(id_, [ShoalError.__name__], _INTERNAL, {})
    kinds = [kind.__name__ for kind in type(error).__mro__ if issubclass(kind, ShoalError)]
    details = {name: getattr(error, name) for name in _DETAILS if hasattr(error, name)}
    # A file name that is no UTF-8 has surrogates, which MessagePack cannot encode.
    text = str(error).encode("utf-8", "backslashreplace").decode()
    return Failure(id_, kinds, text, details)


def _error_of(failure: Failure) -> Exception:
    if failure.kinds == ["TimeoutError"]:
        return TimeoutError()
    known = {kind.__name__: kind for kind in _kinds(ShoalError)}
    kind = next((known[name] for name in failure.kinds if name in known), ShoalError)
    error = kind.__new__(kind, failure.message)
    for name, value in failure.details.items():
        if name in _DETAILS:
            setattr(error, name, value)
    return error


def _kinds(kind: type[ShoalError]) -> Iterator[type[ShoalError]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _kinds(subclass)

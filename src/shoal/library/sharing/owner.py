"""The owner's side: calls of other processes are made here, on the network that this process has.

A connection is one process. It may have a bounded number of calls and streams under way; those beyond are refused. The owner
announces when a call begins to change the store (`graph/announcing.py`), and makes no change that it could not announce.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from shoal.core.errors import InvalidInput, ShoalError, Unavailable
from shoal.graph.embedded import announcing
from shoal.library.sharing.failures import failure
from shoal.library.sharing.frames import (
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
    packed,
)
from shoal.library.sharing.surface import Method, Nouns, handle_for
from shoal.library.sharing.values import Values
from shoal.ops.socket_files import at, bound, remove
from shoal.settings import Settings
from shoal.wiring import Network

_log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 2.0
_MOST_PROCESSES = 64
_MOST_CALLS = 256
_MOST_STREAMS = 1_024
_GRACE_SECONDS = 10.0
"""How long the end waits for calls of other processes."""
_ACCEPT_REST_SECONDS = 0.2
_BESIDE_FILES = 8 << 20
"""Bytes of a call beside the two files that an upload may have."""

_decode = msgspec.msgpack.Decoder(FromCaller).decode
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
        for task in (tasks := list(self._served)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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
                        self._take(_decode(frame))
        finally:
            # First, so that calls under way announce no change any more, and make none.
            self._connection.shut()
            tasks = [heartbeat, *self._calls.values(), *self._streams.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

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
                room = len(tasks) < (_MOST_STREAMS if streams else _MOST_CALLS)
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

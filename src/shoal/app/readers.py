"""Several processes on one SQLite file: one owns it, and the others read it.

Reader processes report to the owner and ask it to materialize timelines (`warm`); HTTP connections are passed in both directions.
A reader stays connected while both processes live, and reconnects when another process becomes the owner.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from shoal.core.errors import ShoalError, Unavailable
from shoal.core.model import Token
from shoal.core.tokens import Origin
from shoal.http.connection_passing import Balance, OwnerPassing, Passing, ReadableRoutes, ReaderPassing, refuse
from shoal.mastodon_api.context import AppContext
from shoal.multiprocess.link import NotListening
from shoal.multiprocess.rpc import Client, Passed, Peer, ServedCall, Service, connect, serving
from shoal.multiprocess.shared_memory import MOST_PROCESSES, OWNER, SharedMemory
from shoal.queries.home import warm_up
from shoal.throttled_log import ThrottledLog

_outage = ThrottledLog(logging.getLogger(__name__))

_MOST_TASKS = 1_024
"""Maximum number of concurrent tasks for the other processes; further requests and passed connections are refused."""
_MOST_BYTES = 2 << 20
"""Maximum bytes received from a client that are passed on with its connection: more than two reads of an event loop."""


class Join(msgspec.Struct, tag="join", array_like=True):
    """Message of a reader process: while it is connected, the owner may pass connections to it."""

    slot: int


class Warm(msgspec.Struct, tag="warm", array_like=True):
    """Message of a reader process that asks the owner to materialize a member's home timeline."""

    member: int


class TokenUsed(msgspec.Struct, tag="used", array_like=True):
    token: int
    origin: tuple[str, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Join | Warm | TokenUsed).decode

Continue = Callable[[socket.socket, bytes], Coroutine[Any, Any, None]]
"""Serves a passed connection, whose client has already sent the given bytes."""


class _Tasks:
    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task. Raises `Unavailable` if too many tasks are running."""
        if len(self._running) >= _MOST_TASKS:
            work.close()
            raise Unavailable("too many concurrent requests from other processes")
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def close(self, *, cancel: bool) -> None:
        tasks = list(self._running)
        if cancel:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _continue(tasks: _Tasks, take: Continue, sock: socket.socket, data: bytes) -> None:
    """Serve a connection that another process passed on, in a task. Answer 503 if there are too many tasks."""
    try:
        tasks.start(take(sock, data))
    except Unavailable:
        refuse(sock.detach())


class StoreOwner:
    """The owner's side of the connections to its reader processes. `path` is the owner's socket."""

    def __init__(self, memory: SharedMemory, path: Path) -> None:
        self._memory = memory
        self._path = path
        self._balance = Balance(memory.busy, OWNER)
        self._readers: dict[int, Peer] = {}
        self._tasks = _Tasks()
        self._warming: dict[int, asyncio.Task[None]] = {}
        self._warm_tasks = _Tasks()

    def passing(self, routes: ReadableRoutes) -> Passing:
        return OwnerPassing(routes, self._balance, self._readers.keys, self._send)

    def _send(self, slot: int, descriptor: int, data: bytes) -> None:
        reader = self._readers.get(slot)
        if reader is None:
            raise Unavailable("this reader process has disconnected")
        reader.link.send(Passed(data), descriptor)

    @asynccontextmanager
    async def met(self, take: Continue, app_context: AppContext) -> AsyncIterator[None]:
        """Accept connections from reader processes during the block. Call it only while holding the store's lock."""

        def passed(sock: socket.socket, data: bytes) -> None:
            _continue(self._tasks, take, sock, data)

        # A restarted reader may connect before the owner notices that its old connection ended: allow two for each.
        service = Service(
            partial(self._answer, app_context), take=passed, most=_MOST_BYTES, processes=2 * MOST_PROCESSES
        )
        try:
            async with serving(self._path, service), self._balance.publishing():
                yield
        finally:
            await self._tasks.close(cancel=True)
            await self._warm_tasks.close(cancel=True)

    async def _answer(self, app_context: AppContext, body: msgspec.Raw, call: ServedCall) -> bytes:
        match _decode(body):
            case Join(slot=slot):
                await self._keep(slot, call.peer)
            case Warm(member=member):
                # The rebuild continues if this reader gives up, so its next request finds the timeline materialized.
                await asyncio.shield(self._rebuild(app_context, member))
            case TokenUsed() as used:
                token = (await app_context.graph.obj_get((used.token,))).get(used.token)
                if isinstance(token, Token):
                    app_context.uses.note(token, partial(Origin, *used.origin))
        return b"\xc0"

    def _rebuild(self, app_context: AppContext, member: int) -> asyncio.Task[None]:
        """Return the task that materializes a member's timeline; concurrent requests for a member get one task."""
        if (task := self._warming.get(member)) is None:
            task = self._warming[member] = self._warm_tasks.start(_warm(app_context, member))
            task.add_done_callback(lambda _: self._warming.pop(member, None))
        return task

    async def _keep(self, slot: int, reader: Peer) -> None:
        """Keep the reader process with the number `slot` registered until it disconnects, which cancels this call."""
        if not OWNER < slot < self._memory.processes:
            reader.link.close()
            return
        if (before := self._readers.get(slot)) is not None:
            before.link.close()
        self._readers[slot] = reader
        try:
            await asyncio.Event().wait()
        finally:
            if self._readers.get(slot) is reader:
                del self._readers[slot]
                self._memory.busy[slot] = 0


async def _warm(app_context: AppContext, member: int) -> None:
    reads = app_context.reads
    try:
        # The timeline may have been materialized since the reader's check.
        if await reads.timelines.floor(member) is None or member in reads.rebuilding:
            await warm_up(reads, member)
    except ShoalError as error:
        _outage.warning("a timeline requested by a reader process could not be materialized: %s", error)
        raise


_RETRY_SECONDS = 0.05
_OWNER_SECONDS = 100.0
_WARM_SECONDS = 10.0


class StoreReader:
    """The reader's side of the connection to the owner. `path` is the owner's socket."""

    def __init__(self, memory: SharedMemory, slot: int, path: Path) -> None:
        self._slot = slot
        self._path = path
        self._balance = Balance(memory.busy, slot)
        self._client: Client | None = None
        self._reached = asyncio.Event()
        self._take: Continue | None = None
        self._tasks = _Tasks()

    def alive(self) -> bool:
        return self._client is not None and self._client.link.open

    def passing(self, routes: ReadableRoutes) -> Passing:
        return ReaderPassing(routes, self._balance, OWNER, self._send)

    def _send(self, slot: int, descriptor: int, data: bytes) -> None:  # noqa: ARG002  # there is one owner
        self._owner().link.send(Passed(data), descriptor)

    def _owner(self) -> Client:
        if self._client is None or not self._client.link.open:
            raise Unavailable("the process that owns the store is unreachable")
        return self._client

    async def warm(self, member: int) -> None:
        """Ask the owner to materialize a member's timeline. Raises `Unavailable` if that fails or takes too long."""
        owner = self._owner()
        try:
            async with asyncio.timeout(_WARM_SECONDS):
                await owner.call(_encode(Warm(member)))
        except (ShoalError, TimeoutError) as error:
            raise Unavailable("the timeline could not be materialized") from error

    def used(self, token: int, origin: Origin) -> None:
        """Tell the owner that a token was used. Do nothing without a connection; a later use is reported instead."""
        with suppress(Unavailable):
            self._owner().tell(_encode(TokenUsed(token, tuple(origin))))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Stay connected to the owner during the block. Raises `Unavailable` if no owner starts within 100 seconds."""
        task = asyncio.create_task(self._stay_connected(), name="shoal-owner")
        try:
            try:
                async with asyncio.timeout(_OWNER_SECONDS):
                    await self._reached.wait()
            except TimeoutError:
                raise Unavailable("the process that owns the store did not start") from None
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self._tasks.close(cancel=False)

    @asynccontextmanager
    async def met(
        self,
        take: Continue,
        app_context: AppContext,  # noqa: ARG002  # only the owner acts on requests
    ) -> AsyncIterator[None]:
        """Accept connections that the owner passes on, during the block."""
        self._take = take
        self._join()
        try:
            async with self._balance.publishing():
                yield
        finally:
            self._take = None

    def _join(self) -> None:
        with suppress(Unavailable):
            self._owner().tell(_encode(Join(self._slot)))

    async def _stay_connected(self) -> None:
        while True:
            with suppress(NotListening, Unavailable):
                self._client = client = await connect(self._path, take=self._passed)
                try:
                    self._reached.set()
                    if self._take is not None:
                        self._join()
                    await asyncio.shield(client.ended)
                finally:
                    await client.close()
            await asyncio.sleep(_RETRY_SECONDS)

    def _passed(self, sock: socket.socket, data: bytes) -> None:
        """Serve a connection that the owner passed on, or close it if this process is stopping."""
        if self._take is None:
            sock.close()
        else:
            _continue(self._tasks, self._take, sock, data)

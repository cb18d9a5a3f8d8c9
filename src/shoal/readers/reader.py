"""The reader's side: in touch with the owner for as long as both live, and again when another one has begun."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from shoal.core.errors import Unavailable
from shoal.core.tokens import Origin
from shoal.http.connection_passing import Balance, Passing, ReadableRoutes, ReaderPassing
from shoal.mastodon_api.context import Front
from shoal.ops.socket_files import at
from shoal.readers.link import CONNECTION, HERE, USED, WARM, WARMED, ProcessLink, ProcessMessage
from shoal.readers.memory import SharedMemory
from shoal.readers.messages import OWNER, ConnectionParts, Take, TokenUsed, id_of

_AGAIN_SECONDS = 0.05
_OWNER_SECONDS = 100.0
_WARM_SECONDS = 10.0
_MOST_WAITING = 1_024


class _Warming(asyncio.Future[bool]):
    """The answer to requests to warm up one member's timeline, for all callers that wait for it."""

    waiters = 0
    lost_at = 0.0
    """When the last request counts as lost, by the clock of the event loop."""


class StoreReader:
    """One of the processes that read beside the owner. `path`: where the owner listens."""

    def __init__(self, memory: SharedMemory, place: int, path: Path) -> None:
        self._place = place
        self._path = path
        self._balance = Balance(memory.busy, place)
        self._link: ProcessLink | None = None
        self._reached = asyncio.Event()
        self._take: Take | None = None
        self._taking: set[asyncio.Task[None]] = set()
        self._warming: dict[int, _Warming] = {}

    def alive(self) -> bool:
        """Return whether the owner lives and knows this reader, so that the log of changes has everything."""
        return self._link is not None and self._link.open

    def passing(self, routes: ReadableRoutes) -> Passing:
        return ReaderPassing(routes, self._balance, OWNER, self._send)

    def _send(self, place: int, descriptor: int, data: bytes) -> None:  # noqa: ARG002  # there is one owner
        self._to_owner().send(CONNECTION, ConnectionParts.headed(data), descriptor)

    def _to_owner(self) -> ProcessLink:
        if self._link is None or not self._link.open:
            raise Unavailable("the process that owns the store cannot be reached")
        return self._link

    async def warm(self, member: int) -> None:
        """Have the owner warm up a member's timeline. Raises `Unavailable`."""
        loop = asyncio.get_running_loop()
        waiting = self._warming.get(member) or _Warming(loop=loop)
        if loop.time() >= waiting.lost_at:
            if not waiting.waiters and len(self._warming) >= _MOST_WAITING:
                raise Unavailable("too many timelines are being warmed up")
            self._to_owner().send(WARM, member.to_bytes(8, "big"))
            self._warming[member], waiting.lost_at = waiting, loop.time() + _WARM_SECONDS
        waiting.waiters += 1
        try:
            async with asyncio.timeout(_WARM_SECONDS):
                done = await asyncio.shield(waiting)
        except TimeoutError:
            done = False
        finally:
            # Others may still wait for the answer.
            waiting.waiters -= 1
            if not waiting.waiters and self._warming.get(member) is waiting:
                del self._warming[member]
        if not done:
            raise Unavailable("a timeline could not be warmed up")

    def used(self, token: int, origin: Origin) -> None:
        """Have the owner note that a token is used. Where it cannot be reached, the next request tells it."""
        with suppress(Unavailable):
            self._to_owner().send(USED, msgspec.msgpack.encode(TokenUsed(token, tuple(origin))))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Be in touch with the owner until the block ends; it begins once there is one. Raises `Unavailable` where none comes."""
        task = asyncio.create_task(self._keep_in_touch(), name="shoal-owner")
        try:
            try:
                async with asyncio.timeout(_OWNER_SECONDS):
                    await self._reached.wait()
            except TimeoutError:
                raise Unavailable("the process that owns the store did not begin") from None
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, *self._taking, return_exceptions=True)
            if self._link is not None:
                self._link.close()

    @asynccontextmanager
    async def met(
        self,
        take: Take,
        front: Front,  # noqa: ARG002  # the owner alone acts on what others want
    ) -> AsyncIterator[None]:
        """Take connections that the owner passes on, until the block ends."""
        self._take = take
        with suppress(Unavailable):
            self._report()
        try:
            async with self._balance.told():
                yield
        finally:
            self._take = None

    def _report(self) -> None:
        self._to_owner().send(HERE, self._place.to_bytes(8, "big"))

    async def _keep_in_touch(self) -> None:
        while True:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
            try:
                with at(self._path) as address:
                    sock.connect(address)
            except OSError:
                sock.close()
            else:
                gone = asyncio.Event()
                joining = ConnectionParts(self._begin)
                self._link = ProcessLink(sock, partial(self._heard, joining), gone.set)
                self._reached.set()
                if self._take is not None:
                    self._report()
                await gone.wait()
                joining.close()
                self._give_up()
            await asyncio.sleep(_AGAIN_SECONDS)

    def _begin(self, sock: socket.socket, data: bytes) -> None:
        """Take a connection, if this process still takes any."""
        if self._take is None:
            sock.close()
            return
        task = asyncio.create_task(self._take(sock, data))
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)

    def _heard(self, joining: ConnectionParts, message: ProcessMessage) -> None:
        if joining.takes(message):
            return
        if message.kind == WARMED:
            waiting = self._warming.pop(id_of(message.data), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message.data[8:] == b"\x01")

    def _give_up(self) -> None:
        warming, self._warming = self._warming, {}
        for waiting in warming.values():
            if not waiting.done():
                waiting.set_result(False)

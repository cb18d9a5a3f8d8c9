"""Several processes on one SQLite file: one owns it, and the others read it.

Readers report to the owner and ask it to warm timelines; connections pass both ways. A reader stays connected while both
processes live, and reconnects when another process becomes the owner.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from shoal.core.errors import ShoalError, Unavailable
from shoal.core.model import Token
from shoal.core.tokens import Origin
from shoal.http.connection_passing import Balance, OwnerPassing, Passing, ReadableRoutes, ReaderPassing
from shoal.mastodon_api.context import Front
from shoal.multiprocess.messages import (
    CONNECTION,
    HERE,
    OWNER,
    USED,
    WARM,
    WARMED,
    ConnectionParts,
    ProcessLink,
    ProcessMessage,
    Take,
    TokenUsed,
    at,
    bound,
    id_of,
    remove,
)
from shoal.multiprocess.shared_memory import SharedMemory
from shoal.queries.home import warm_up
from shoal.tasks import cancel
from shoal.throttled_log import ThrottledLog

_outage = ThrottledLog(logging.getLogger(__name__))

_MOST_TASKS = 1_024
"""Maximum concurrent tasks for readers; further requests are refused, and the reader continues without."""


class StoreOwner:
    """The process that makes all changes, as the readers see it. `path`: its socket."""

    def __init__(self, memory: SharedMemory, path: Path) -> None:
        self._memory = memory
        self._path = path
        self._balance = Balance(memory.busy, OWNER)
        self._links: dict[int, ProcessLink] = {}
        self._unknown: set[ProcessLink] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def readers(self) -> int:
        """Number of connected readers."""
        return len(self._links)

    def passing(self, routes: ReadableRoutes) -> Passing:
        return OwnerPassing(routes, self._balance, self._links.keys, self._send)

    def _send(self, place: int, descriptor: int, data: bytes) -> None:
        link = self._links.get(place)
        if link is None:
            raise Unavailable("this reader has gone")
        link.send(CONNECTION, ConnectionParts.headed(data), descriptor)

    @asynccontextmanager
    async def met(self, take: Take, front: Front) -> AsyncIterator[None]:
        """Accept readers until the block ends. Call only while holding the store's lock: an old socket is replaced."""
        with at(self._path) as address:
            remove(self._path)
            listener = bound(address, socket.SOCK_SEQPACKET)
            listener.listen(self._memory.processes)
        loop = asyncio.get_running_loop()
        loop.add_reader(listener, self._accept, listener, take, front)
        try:
            async with self._balance.told():
                yield
        finally:
            loop.remove_reader(listener)
            listener.close()
            remove(self._path)
            for link in [*self._links.values(), *self._unknown]:
                link.close()
            await cancel(*self._tasks)

    def _accept(self, listener: socket.socket, take: Take, front: Front) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        conversation = _Conversation(self, take, front)
        conversation.link = link = ProcessLink(sock, conversation.heard, conversation.ended)
        self._unknown.add(link)

    def reports(self, place: int, link: ProcessLink) -> None:
        """Register a reader in its slot."""
        if not OWNER < place < self._memory.processes:
            link.close()
            return
        if (before := self._links.get(place)) is not None:
            before.close()
        self._unknown.discard(link)
        self._links[place] = link

    def left(self, place: int, link: ProcessLink) -> None:
        """Remove a disconnected reader."""
        self._unknown.discard(link)
        if self._links.get(place) is link:
            del self._links[place]
            self._memory.busy[place] = 0

    def begin(self, work: Coroutine[Any, Any, None]) -> bool:
        """Start a task, unless too many are running."""
        if len(self._tasks) >= _MOST_TASKS:
            work.close()
            return False
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True


class _Conversation:
    """The connection of one reader."""

    link: ProcessLink

    def __init__(self, owner: StoreOwner, take: Take, front: Front) -> None:
        self._owner = owner
        self._front = front
        self._joining = ConnectionParts(lambda sock, data: owner.begin(take(sock, data)))
        self._place = OWNER

    def heard(self, message: ProcessMessage) -> None:
        match message.kind:
            case _ if self._joining.takes(message):
                return
            case kind if kind == HERE:
                self._place = id_of(message.data)
                self._owner.reports(self._place, self.link)
            case kind if kind == WARM:
                if not self._owner.begin(self._warm(id_of(message.data))):
                    self._warmed(message.data, done=False)
            case kind if kind == USED:
                self._owner.begin(self._note(msgspec.msgpack.decode(message.data, type=TokenUsed)))

    def ended(self) -> None:
        self._joining.close()
        self._owner.left(self._place, self.link)

    async def _warm(self, member: int) -> None:
        reads = self._front.reads
        done = False
        try:
            # It may have become warm since the reader's check.
            if await reads.timelines.floor(member) is None or member in reads.rebuilding:
                await warm_up(reads, member)
            done = True
        except ShoalError as error:
            _outage.warning("a timeline could not be warmed up for a reader: %s", error)
        finally:
            self._warmed(member.to_bytes(8, "big"), done=done)

    def _warmed(self, member: bytes, *, done: bool) -> None:
        if self.link.open:
            self.link.send(WARMED, member + bytes([done]))

    async def _note(self, used: TokenUsed) -> None:
        token = (await self._front.graph.obj_get((used.token,))).get(used.token)
        if isinstance(token, Token):
            self._front.uses.note(token, partial(Origin, *used.origin))


_AGAIN_SECONDS = 0.05
_OWNER_SECONDS = 100.0
_WARM_SECONDS = 10.0
_MOST_WAITING = 1_024


class _Warming(asyncio.Future[bool]):
    """A pending request to warm one member's timeline, shared by all waiting callers."""

    waiters = 0
    lost_at = 0.0
    """When the last request counts as lost, by the clock of the event loop."""


class StoreReader:
    """A reader process. `path`: the owner's socket."""

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
        """Return whether the owner is connected, so that the change log is complete."""
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
        """Request the owner to warm a member's timeline. Raises `Unavailable`."""
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
            # Others may still wait for the result.
            waiting.waiters -= 1
            if not waiting.waiters and self._warming.get(member) is waiting:
                del self._warming[member]
        if not done:
            raise Unavailable("a timeline could not be warmed up")

    def used(self, token: int, origin: Origin) -> None:
        """Report a token use to the owner. If it is not connected, a later request reports it."""
        with suppress(Unavailable):
            self._to_owner().send(USED, msgspec.msgpack.encode(TokenUsed(token, tuple(origin))))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Stay connected to the owner until the block ends. Waits for an owner; raises `Unavailable` if there is none."""
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
        front: Front,  # noqa: ARG002  # only the owner acts on requests
    ) -> AsyncIterator[None]:
        """Accept connections passed on by the owner until the block ends."""
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
        """Accept a connection, unless this process is stopping."""
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

"""The owner's side: readers report to it, have timelines warmed up, and connections pass both ways."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from shoal.core.errors import ShoalError, Unavailable
from shoal.core.model import Token
from shoal.core.tokens import Origin
from shoal.http.connection_passing import Balance, OwnerPassing, Passing, ReadableRoutes
from shoal.mastodon_api.context import Front
from shoal.ops.socket_files import at, bound, remove
from shoal.queries.home import warm_up
from shoal.readers.link import CONNECTION, HERE, USED, WARM, WARMED, ProcessLink, ProcessMessage
from shoal.readers.memory import SharedMemory
from shoal.readers.messages import OWNER, ConnectionParts, Take, TokenUsed, id_of
from shoal.throttled_log import ThrottledLog

_outage = ThrottledLog(logging.getLogger(__name__))

_MOST_TASKS = 1_024
"""Things that readers want done at a time; what is beyond is refused, and the reader does without it."""


class StoreOwner:
    """The process that makes every change, for the readers beside it. `path`: where it listens to them."""

    def __init__(self, memory: SharedMemory, path: Path) -> None:
        self._memory = memory
        self._path = path
        self._balance = Balance(memory.busy, OWNER)
        self._links: dict[int, ProcessLink] = {}
        self._unknown: set[ProcessLink] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def readers(self) -> int:
        """Return how many readers report to it."""
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
        """Listen to readers until the block ends. Whoever holds the store's lock may call this: an old socket is replaced."""
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
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, listener: socket.socket, take: Take, front: Front) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        conversation = _Conversation(self, take, front)
        conversation.link = link = ProcessLink(sock, conversation.heard, conversation.ended)
        self._unknown.add(link)

    def reports(self, place: int, link: ProcessLink) -> None:
        """A reader says which one it is."""
        if not OWNER < place < self._memory.processes:
            link.close()
            return
        if (before := self._links.get(place)) is not None:
            before.close()
        self._unknown.discard(link)
        self._links[place] = link

    def left(self, place: int, link: ProcessLink) -> None:
        """A reader has gone."""
        self._unknown.discard(link)
        if self._links.get(place) is link:
            del self._links[place]
            self._memory.busy[place] = 0

    def begin(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do something beside requests, unless too much is under way."""
        if len(self._tasks) >= _MOST_TASKS:
            work.close()
            return False
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True


class _Conversation:
    """The messages of one reader, acted on."""

    link: ProcessLink

    def __init__(self, owner: StoreOwner, take: Take, front: Front) -> None:
        self._owner = owner
        self._front = front
        self._joining = ConnectionParts(lambda sock, data: owner.begin(take(sock, data)))
        self._place = OWNER

    def heard(self, message: ProcessMessage) -> None:
        """Act on a message."""
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
        """The reader has gone."""
        self._joining.close()
        self._owner.left(self._place, self.link)

    async def _warm(self, member: int) -> None:
        reads = self._front.reads
        done = False
        try:
            # It may be warm: the reader looked while it was filled.
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

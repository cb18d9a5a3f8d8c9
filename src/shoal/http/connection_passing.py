"""Connections that pass from one process to another: several processes take them from one socket, and not every one can do all.

A process that owns a store can answer everything, a reader beside it only reads. The request line decides, before the request is
read: whatever a reader cannot answer goes to the owner, with the connection itself. The client notices nothing, and no byte of
what follows is copied between processes. When the owner has more to do than a reader, connections whose clients only read go the
other way.

For example, a client of a reader asks for its home, and then posts:

1. `GET /api/v1/timelines/home`: the reader answers.
2. `POST /api/v1/statuses`: the reader sends the descriptor of the connection and these bytes to the owner, and forgets both. The
   owner goes on as if it had taken the connection itself.
3. The client asks for its home and for a thread. The owner answers, or, where it is busier, hands the connection on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Protocol

from shoal.core.errors import Unavailable
from shoal.http.application import Trie
from shoal.http.routes import Route
from shoal.tasks import running

_HEAD_END = b"\r\n\r\n"
_BUSIER = 200
"""Thousandths of its time by which a process must be busier than another for connections to move there."""
_STREAK = 2
"""Requests in a row that only read, after which a connection may leave the owner."""
_EVERY_SECONDS = 0.05
_SMOOTHING = 0.3
_REST_SECONDS = 0.005
"""Between two connections that move because of work: how busy both are is known with a delay."""
_WAIT_SECONDS = 5.0
_LOOK_SECONDS = 0.02
_NOBODY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json; charset=utf-8\r\nretry-after: 5\r\n"
    b"connection: close\r\ncontent-length: 59\r\n\r\n"
    b'{"error":"The server is starting again; try in a moment"}\r\n'
)

Send = Callable[[int, int, bytes], None]
"""Sends a descriptor and bytes to the process in a place. Raises `Unavailable`."""


class Passing(Protocol):
    """Says where the next request of a connection is answered."""

    def only_reads(self, data: bytes) -> bool:
        """Whether this is one whole request that a reader can answer."""
        ...

    def place(self, *, reads: bool, streak: int) -> int | None:
        """Return the place of the process that is to have a connection; None: this one.

        `reads`: whether its next request only reads. `streak`: how many in a row have, before that.
        """
        ...

    def give(self, place: int, descriptor: int, data: bytes) -> None:
        """Have a process go on with a connection. The descriptor is closed."""
        ...


class ReadableRoutes:
    """The routes that a reader can answer: those whose answers are made of the graph, timelines and the clock alone."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._trie: Trie[Route] = Trie()
        for route in routes:
            if route.method == "GET":
                self._trie.add("GET", route.path, route)

    def has(self, data: bytes) -> bool:
        """Whether these bytes are one whole request, for such a route."""
        if not data.startswith(b"GET /") or data.find(_HEAD_END) != len(data) - 4:
            return False
        target = data[4 : data.find(b" ", 4)].partition(b"?")[0]
        if b"%" in target or not target.isascii():
            return False
        found = self._trie.find(target.decode())
        if found is None:
            return False
        route = found[0]["GET"]
        return route.remembered and not route.by_owner


class Balance:
    """How busy the processes are, as each says in its word of a shared memory, and whether a connection is to move for it."""

    def __init__(self, busy: memoryview, place: int) -> None:
        self._busy = busy
        self._place = place
        self._moved = 0.0

    def better(self, places: Iterable[int]) -> int | None:
        """Return the least busy of these places, if a connection had better be there."""
        least = min(places, key=self._busy.__getitem__, default=None)
        if least is None or self._busy[self._place] - self._busy[least] < _BUSIER:
            return None
        now = time.monotonic()
        if now - self._moved < _REST_SECONDS:
            return None
        self._moved = now
        return least

    @asynccontextmanager
    async def told(self) -> AsyncIterator[None]:
        """Tell the others how busy this process is, until the block ends."""
        async with running(self._tell(), "shoal-busy"):
            yield

    async def _tell(self) -> None:
        worked, at, share = time.process_time(), time.monotonic(), 0.0
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            now_worked, now = time.process_time(), time.monotonic()
            share += _SMOOTHING * (min(1.0, (now_worked - worked) / (now - at)) - share)
            worked, at = now_worked, now
            self._busy[self._place] = int(1_000 * share)


class OwnerPassing:
    """The owner answers everything, and hands readers what they can do when it has more to do than they. `readers` are there."""

    def __init__(
        self, routes: ReadableRoutes, balance: Balance, readers: Callable[[], Iterable[int]], send: Send
    ) -> None:
        self._routes = routes
        self._balance = balance
        self._readers = readers
        self._send = send

    def only_reads(self, data: bytes) -> bool:
        return self._routes.has(data)

    def place(self, *, reads: bool, streak: int) -> int | None:
        return self._balance.better(self._readers()) if reads and streak >= _STREAK else None

    def give(self, place: int, descriptor: int, data: bytes) -> None:
        try:
            self._send(place, descriptor, data)
        except Unavailable:
            _refuse(descriptor)
        else:
            os.close(descriptor)


class ReaderPassing:
    """A reader answers what it can, and has the owner do the rest. `owner`: the owner's place."""

    def __init__(self, routes: ReadableRoutes, balance: Balance, owner: int, send: Send) -> None:
        self._routes = routes
        self._balance = balance
        self._owner = owner
        self._send = send
        self._giving: set[asyncio.Task[None]] = set()

    def only_reads(self, data: bytes) -> bool:
        return self._routes.has(data)

    def place(self, *, reads: bool, streak: int) -> int | None:  # noqa: ARG002  # the owner can do whatever follows
        return self._balance.better((self._owner,)) if reads else self._owner

    def give(self, place: int, descriptor: int, data: bytes) -> None:
        task = asyncio.create_task(self._give(place, descriptor, data), name="shoal-passing")
        self._giving.add(task)
        task.add_done_callback(self._giving.discard)

    async def _give(self, place: int, descriptor: int, data: bytes) -> None:
        """An owner that has just died is started again in a moment: until then the client waits."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                self._send(place, descriptor, data)
            except Unavailable:
                if time.monotonic() > deadline:
                    _refuse(descriptor)
                    return
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                os.close(descriptor)
                return


def _refuse(descriptor: int) -> None:
    with socket.socket(fileno=descriptor) as sock, contextlib.suppress(OSError):
        sock.send(_NOBODY)

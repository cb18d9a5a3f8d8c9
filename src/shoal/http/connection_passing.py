"""Passing of connections between processes that accept them from one socket, of which only one can serve every request.

The process that owns a store serves everything; readers next to it only read. The request line decides before the request is
parsed: a reader passes the connection itself to the owner for anything else. The client does not notice, and no later byte is
copied between processes. When the owner is busier than a reader, connections that only read go the other way.

For example, a client of a reader requests its home timeline, and then posts:

1. `GET /api/v1/timelines/home`: the reader responds.
2. `POST /api/v1/statuses`: the reader sends the descriptor of the connection and these bytes to the owner, and forgets both. The
   owner continues as if it had accepted the connection itself.
3. The client requests its home timeline and a thread. The owner responds, or passes the connection on if it is busier.
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
"""Difference in load, in thousandths of the time, above which connections move to another process."""
_STREAK = 2
"""Consecutive read-only requests after which a connection may leave the owner."""
_EVERY_SECONDS = 0.05
_SMOOTHING = 0.3
_REST_SECONDS = 0.005
"""Minimum interval between connections that move because of load, which is known with a delay."""
_WAIT_SECONDS = 5.0
_LOOK_SECONDS = 0.02
_NOBODY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json; charset=utf-8\r\nretry-after: 5\r\n"
    b"connection: close\r\ncontent-length: 59\r\n\r\n"
    b'{"error":"The server is starting again; try in a moment"}\r\n'
)

Send = Callable[[int, int, bytes], None]
"""Sends a descriptor and bytes to the process at an index. Raises `Unavailable`."""


class Passing(Protocol):
    """Decides which process serves the next request of a connection."""

    def only_reads(self, data: bytes) -> bool:
        """Return whether this is one complete request that a reader can serve."""
        ...

    def place(self, *, reads: bool, streak: int) -> int | None:
        """Return the index of the process to pass a connection to; None to keep it.

        `reads`: whether its next request only reads. `streak`: the number of consecutive requests before that did.
        """
        ...

    def give(self, place: int, descriptor: int, data: bytes) -> None:
        """Pass a connection to a process, and close the descriptor."""
        ...


class ReadableRoutes:
    """The routes that a reader can serve: their responses depend only on the graph, timelines and the clock."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._trie: Trie[Route] = Trie()
        for route in routes:
            if route.method == "GET":
                self._trie.add("GET", route.path, route)

    def has(self, data: bytes) -> bool:
        """Return whether these bytes are one complete request for such a route."""
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
    """The load of all processes, in shared memory, and the decision whether a connection should move."""

    def __init__(self, busy: memoryview, place: int) -> None:
        self._busy = busy
        self._place = place
        self._moved = 0.0

    def better(self, places: Iterable[int]) -> int | None:
        """Return the least busy of these processes if a connection should move there."""
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
        """Publish the load of this process until the block ends."""
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
    """The owner serves everything, and passes read-only connections to `readers` when it is busier than they are."""

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
    """A reader serves what it can, and passes the rest to the `owner` (an index)."""

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
        """Retry while an owner that died is restarted: the client waits."""
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

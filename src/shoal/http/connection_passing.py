"""Connections that pass between the processes of a server, which accept them from one listening socket.

The process that owns a store (the owner) can answer every request; a reader process can only answer requests that read. A reader
process decides by the request line. If it cannot answer the request, it passes the connection to the owner, with the bytes that the
client has sent, and the client does not notice. When the owner is busier than a reader process, connections whose clients only read
move to that process.

For example, a client of a reader process requests its home timeline, and then posts:

1. `GET /api/v1/timelines/home`: the reader process answers.
2. `POST /api/v1/statuses`: the reader process sends the descriptor of the connection and these bytes to the owner, and closes its
own descriptor. The owner continues as if it had accepted the connection itself.
3. The client reads its home timeline and a thread. The owner answers or, if it is busier, passes the connection on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from shoal.core.errors import Unavailable
from shoal.http.application import Trie
from shoal.http.routes import Route
from shoal.tasks import running

_HEAD_END = b"\r\n\r\n"
_BUSIER = 200
"""A connection moves to another process if this process is busier by at least this many thousandths of CPU time."""
_STREAK = 2
"""Consecutive requests that only read, after which a connection may leave the owner."""
_EVERY_SECONDS = 0.05
_SMOOTHING = 0.3
_PAUSE_SECONDS = 0.005
"""Pause between two moves of connections, because the load is measured with a delay."""
_WAIT_SECONDS = 5.0
_RETRY_SECONDS = 0.02
_UNAVAILABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json; charset=utf-8\r\nretry-after: 5\r\n"
    b"connection: close\r\ncontent-length: 59\r\n\r\n"
    b'{"error":"The server is starting again; try in a moment"}\r\n'
)

Send = Callable[[int, int, bytes], None]
"""Sends the descriptor of a connection, and the bytes received from its client, to the process in a slot (an index).

Raises `Unavailable`.
"""


class ReadableRoutes:
    """The routes that a reader process can answer: their responses depend only on the graph, timelines and the clock."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._trie: Trie[Route] = Trie()
        for route in routes:
            if route.method == "GET":
                self._trie.add("GET", route.path, route)

    def has(self, data: bytes) -> bool:
        """Return whether `data` is exactly one complete request, and its route is one that a reader process can answer."""
        if not data.startswith(b"GET /") or data.find(_HEAD_END) != len(data) - 4:
            return False
        target = data[4 : data.find(b" ", 4)].partition(b"?")[0]
        if b"%" in target or not target.isascii():
            return False
        found = self._trie.find(target.decode())
        if found is None:
            return False
        route = found[0]["GET"]
        return route.cached and not route.by_owner


class Balance:
    """Compares the loads of the processes, in shared memory, and decides whether a connection should move."""

    def __init__(self, busy: memoryview, slot: int) -> None:
        self._busy = busy
        self._slot = slot
        self._moved = 0.0

    def better(self, slots: Iterable[int]) -> int | None:
        """Return the slot of the least busy process among `slots`, if it is much less busy than this process; else None."""
        least = min(slots, key=self._busy.__getitem__, default=None)
        if least is None or self._busy[self._slot] - self._busy[least] < _BUSIER:
            return None
        now = time.monotonic()
        if now - self._moved < _PAUSE_SECONDS:
            return None
        self._moved = now
        return least

    @asynccontextmanager
    async def publishing(self) -> AsyncIterator[None]:
        async with running(self._tell(), "shoal-busy"):
            yield

    async def _tell(self) -> None:
        worked, at, share = time.process_time(), time.monotonic(), 0.0
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            now_worked, now = time.process_time(), time.monotonic()
            share += _SMOOTHING * (min(1.0, (now_worked - worked) / (now - at)) - share)
            worked, at = now_worked, now
            self._busy[self._slot] = int(1_000 * share)


class Passing(ABC):
    def __init__(self, routes: ReadableRoutes, balance: Balance, send: Send) -> None:
        self._routes = routes
        self._balance = balance
        self._send = send

    def only_reads(self, data: bytes) -> bool:
        """Return whether `data` is exactly one complete request, and its route is one that a reader process can answer."""
        return self._routes.has(data)

    @abstractmethod
    def target(self, *, reads: bool, streak: int) -> int | None:
        """Return the slot of the process that should serve a connection; None for this process.

        Args:
            reads: Whether the next request only reads.
            streak: The number of consecutive requests before it that only read.
        """

    @abstractmethod
    def give(self, slot: int, descriptor: int, data: bytes) -> None:
        """Have another process continue a connection. Closes the descriptor."""


class OwnerPassing(Passing):
    """The policy of the owner process: it serves every request, but passes connections to `readers` that are less busy."""

    def __init__(
        self, routes: ReadableRoutes, balance: Balance, readers: Callable[[], Iterable[int]], send: Send
    ) -> None:
        super().__init__(routes, balance, send)
        self._readers = readers

    def target(self, *, reads: bool, streak: int) -> int | None:
        return self._balance.better(self._readers()) if reads and streak >= _STREAK else None

    def give(self, slot: int, descriptor: int, data: bytes) -> None:
        try:
            self._send(slot, descriptor, data)
        except Unavailable:
            refuse(descriptor)
        else:
            os.close(descriptor)


class ReaderPassing(Passing):
    """The policy of a reader process: it serves the routes in `routes`, and passes other requests to the owner process."""

    def __init__(self, routes: ReadableRoutes, balance: Balance, owner: int, send: Send) -> None:
        super().__init__(routes, balance, send)
        self._owner = owner
        self._giving: set[asyncio.Task[None]] = set()

    def target(self, *, reads: bool, streak: int) -> int | None:  # noqa: ARG002  # the owner can answer any later request
        return self._balance.better((self._owner,)) if reads else self._owner

    def give(self, slot: int, descriptor: int, data: bytes) -> None:
        task = asyncio.create_task(self._give(slot, descriptor, data), name="shoal-passing")
        self._giving.add(task)
        task.add_done_callback(self._giving.discard)

    async def _give(self, slot: int, descriptor: int, data: bytes) -> None:
        # Let the client wait, because a dead owner process is restarted within seconds.
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                self._send(slot, descriptor, data)
            except Unavailable:
                if time.monotonic() > deadline:
                    refuse(descriptor)
                    return
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                os.close(descriptor)
                return


def refuse(descriptor: int) -> None:
    """Answer a connection with 503 and close it."""
    with socket.socket(fileno=descriptor) as sock, contextlib.suppress(OSError):
        sock.send(_UNAVAILABLE)

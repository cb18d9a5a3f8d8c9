"""Messages between the owner of a store and a reader beside it, over a Unix socket that keeps them apart (`SOCK_SEQPACKET`).

| message | from | says |
|---|---|---|
| `HERE` | reader | its place among the processes |
| `CONNECTION` | both | here is a connection, and what its client has sent: the descriptor comes along |
| `MORE` | both | more of what that client has sent |
| `WARM` | reader | this member's timeline is wanted |
| `WARMED` | owner | it has been looked after, or not: one byte |
| `USED` | reader | this token was used, from there |

Nothing is waited for when a message is sent. One that does not fit into the socket waits in a queue with a bound.
"""

from __future__ import annotations

import array
import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from shoal.core.errors import Unavailable

_log = logging.getLogger(__name__)

HERE, CONNECTION, MORE, WARM, WARMED, USED = b"h", b"c", b"m", b"w", b"W", b"u"
_PIECE = 32 << 10
"""Bytes of one message, at most: many of them fit into a socket."""
_MOST_WAITING = 4_096
_ROOM = 1 << 20
_AT_ONCE = 64
"""Messages that are read in one turn of the loop."""


class ProcessMessage(NamedTuple):
    """A message. `descriptor` is -1 where none came along; whoever gets the message closes it."""

    kind: bytes
    data: bytes
    descriptor: int = -1


class _Waiting(NamedTuple):
    parts: bytes
    descriptor: int


class ProcessLink:
    """One end of the connection between two processes, on the running loop. `heard` is called with each message, `ended` once."""

    def __init__(self, sock: socket.socket, heard: Callable[[ProcessMessage], None], ended: Callable[[], None]) -> None:
        sock.setblocking(False)
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM)
        self._sock = sock
        self._heard = heard
        self._ended = ended
        self._waiting: deque[_Waiting] = deque()
        self._loop = asyncio.get_running_loop()
        self.open = True
        self._loop.add_reader(sock, self._readable)

    def send(self, kind: bytes, data: bytes = b"", descriptor: int = -1) -> None:
        """Send a message; the descriptor stays the caller's. Raises `Unavailable` when the link has ended, or is full."""
        pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)] or [b""]
        if not self.open or len(self._waiting) + len(pieces) > _MOST_WAITING:
            raise Unavailable("the other process does not listen")
        for number, piece in enumerate(pieces):
            self._send(_Waiting((MORE if number else kind) + piece, -1 if number else descriptor))

    def _send(self, message: _Waiting) -> None:
        if not self._waiting and self._sent(message):
            return
        # Its own copy: the caller closes the descriptor.
        if message.descriptor >= 0:
            message = message._replace(descriptor=os.dup(message.descriptor))
        self._waiting.append(message)
        self._loop.add_writer(self._sock, self._writable)

    def _sent(self, message: _Waiting) -> bool:
        passed = []
        if message.descriptor >= 0:
            passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [message.descriptor]))]
        try:
            self._sock.sendmsg([message.parts], passed)
        except BlockingIOError:
            return False
        except OSError:
            self.close()
        return True

    def _writable(self) -> None:
        while self._waiting and self._sent(self._waiting[0]):
            if not self._waiting:
                return
            self._drop(self._waiting.popleft())
        if not self._waiting and self.open:
            self._loop.remove_writer(self._sock)

    def _readable(self) -> None:
        for _ in range(_AT_ONCE):
            if not self.open:
                return
            try:
                data, descriptors, _flags, _address = socket.recv_fds(self._sock, _PIECE + 1, 1)
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            if not data:
                self.close()
                return
            try:
                self._heard(ProcessMessage(data[:1], data[1:], descriptors[0] if descriptors else -1))
            except Exception:  # noqa: BLE001  # one message must not end the link
                _log.exception("a message of another process could not be acted on")

    @staticmethod
    def _drop(message: _Waiting) -> None:
        if message.descriptor >= 0:
            os.close(message.descriptor)

    def close(self) -> None:
        """End the link: what waits is lost."""
        if not self.open:
            return
        self.open = False
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()
        while self._waiting:
            self._drop(self._waiting.popleft())
        self._ended()

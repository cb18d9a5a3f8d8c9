"""Unix sockets next to a store, which only its owner may open, and messages between the owner and reader processes
(`SOCK_SEQPACKET`).

| message | from | meaning |
|---|---|---|
| `HERE` | reader | its slot among the processes |
| `CONNECTION` | both | a client connection and what the client has sent: the descriptor is attached |
| `MORE` | both | more data from that client |
| `WARM` | reader | request to warm this member's timeline |
| `WARMED` | owner | the timeline is warm or not: one byte |
| `USED` | reader | this token was used, from this address |

Sending never waits. A message that does not fit into the socket is queued; the queue is bounded.
"""

from __future__ import annotations

import array
import asyncio
import logging
import os
import socket
import stat
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from shoal.core.errors import Unavailable


@contextmanager
def at(path: Path) -> Iterator[str]:
    """Yield a short address for `path`, which may be longer than the 107 bytes of a socket address."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def bound(address: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """Return a bound socket whose file only the owner may open, from the moment it exists."""
    listener = socket.socket(socket.AF_UNIX, kind)
    try:
        os.fchmod(listener.fileno(), stat.S_IRUSR | stat.S_IWUSR)
        listener.bind(address)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def remove(path: Path) -> None:
    """Delete a socket file if it exists."""
    with suppress(FileNotFoundError):
        path.unlink()


_log = logging.getLogger(__name__)

HERE, CONNECTION, MORE, WARM, WARMED, USED = b"h", b"c", b"m", b"w", b"W", b"u"
_PIECE = 32 << 10
"""Maximum bytes of a message: many of them fit into a socket."""
_MOST_WAITING = 4_096
_ROOM = 1 << 20
_AT_ONCE = 64
"""Messages read per iteration of the event loop."""


class ProcessMessage(NamedTuple):
    """A message. `descriptor` is -1 if none is attached; the receiver closes it."""

    kind: bytes
    data: bytes
    descriptor: int = -1


class _Waiting(NamedTuple):
    parts: bytes
    descriptor: int


class ProcessLink:
    """One end of a connection between two processes, on the running loop. `heard` is called with each message, `ended` once."""

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
        """Send a message; the caller keeps its descriptor. Raises `Unavailable` if the link is closed or its queue is full."""
        pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)] or [b""]
        if not self.open or len(self._waiting) + len(pieces) > _MOST_WAITING:
            raise Unavailable("the other process does not listen")
        for number, piece in enumerate(pieces):
            self._send(_Waiting((MORE if number else kind) + piece, -1 if number else descriptor))

    def _send(self, message: _Waiting) -> None:
        if not self._waiting and self._sent(message):
            return
        # Duplicate it: the caller closes the descriptor.
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
        """Close the link; queued messages are lost."""
        if not self.open:
            return
        self.open = False
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()
        while self._waiting:
            self._drop(self._waiting.popleft())
        self._ended()


OWNER = 0
"""The owner's slot."""
_MOST_BYTES = 1 << 20
"""Maximum bytes of a client to pass on: more than one read of an event loop."""


Take = Callable[[socket.socket, bytes], Coroutine[Any, Any, None]]
"""Continues a connection whose client has sent these bytes."""


class TokenUsed(msgspec.Struct, array_like=True):
    token: int
    origin: tuple[str, ...]


def id_of(data: bytes) -> int:
    return int.from_bytes(data[:8], "big")


class ConnectionParts:
    """Reassembly of a connection from messages: its descriptor, and the bytes that its client has sent."""

    def __init__(self, taken: Callable[[socket.socket, bytes], object]) -> None:
        self._taken = taken
        self._socket: socket.socket | None = None
        self._size = 0
        self._data = b""

    @staticmethod
    def headed(data: bytes) -> bytes:
        """Return data with a length prefix."""
        return len(data).to_bytes(4, "big") + data

    def takes(self, message: ProcessMessage) -> bool:
        """Process a message that is part of a connection; return False for any other."""
        if message.kind == CONNECTION:
            self.close()
            if message.descriptor < 0:
                return True
            self._socket = socket.socket(fileno=message.descriptor)
            self._size, self._data = int.from_bytes(message.data[:4], "big"), message.data[4:]
        elif message.kind == MORE:
            self._data += message.data
        else:
            if message.descriptor >= 0:
                os.close(message.descriptor)
            return False
        if self._socket is not None and len(self._data) >= min(self._size, _MOST_BYTES):
            sock, self._socket = self._socket, None
            self._taken(sock, self._data)
        return True

    def close(self) -> None:
        """Discard an incomplete connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

"""Unix sockets between the processes of a host: socket files that only their owner may open, and framed messages.

A frame is a header of four bytes and a message in MessagePack. The header holds the length of the message and a bit
that says whether a file descriptor is attached. The descriptor is sent with the first byte of its frame.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

import msgspec

from shoal.core.errors import ShoalError, TooLarge, Unavailable

_log = logging.getLogger(__name__)

_HEADER = 4
_ATTACHED = 1 << 31
_CHUNK = 1 << 16
_BUFFER_BYTES = 1 << 20
_READS = 64
"""Reads per iteration of the event loop."""
_MOST_QUEUED = 4_096
"""Messages that wait for the other process to read."""
_STALL_SECONDS = 30.0
"""Seconds after which a process that reads nothing counts as hung."""

_encode = msgspec.msgpack.Encoder().encode


@contextmanager
def at(path: Path) -> Iterator[str]:
    """Yield a short address for the socket `path`, which may exceed the 107 bytes of a socket address."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def listen(path: Path, backlog: int) -> socket.socket:
    """Listen at `path`, and replace a socket that a killed process left there. Only this operating-system user may open it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Set the mode before `bind` creates the file, so that the file never has other permissions.
        os.fchmod(listener.fileno(), stat.S_IRUSR | stat.S_IWUSR)
        remove(path)
        with at(path) as address:
            listener.bind(address)
        listener.listen(backlog)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    _open.add(listener)
    return listener


class NotListening(ShoalError):
    """No process listens at the socket."""


def connect(path: Path) -> socket.socket:
    """Connect to the process that listens at `path`.

    Raises `NotListening` if there is none, and `Unavailable` if it cannot be reached or runs as another
    operating-system user, who may have created the file in a shared folder.
    """
    with ExitStack() as stack:
        sock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
        try:
            with at(path) as address:
                sock.connect(address)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
            raise NotListening(f"no process is listening at {path}") from error
        except PermissionError as error:
            raise Unavailable(f"the store belongs to another user: no permission to open {path}") from error
        except OSError as error:
            raise Unavailable(f"cannot open {path}: {error.strerror}") from error
        if not is_trusted(sock):
            raise Unavailable(f"{path} belongs to another user")
        stack.pop_all()
        return sock


def is_trusted(sock: socket.socket) -> bool:
    """Return whether to trust the process at the other end: it runs as our user or as root, or we run as root."""
    return os.geteuid() == 0 or user_of(sock) in {0, os.geteuid()}


def user_of(sock: socket.socket) -> int:
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


_open: WeakSet[socket.socket] = WeakSet()
"""Sockets to close in forked processes: an open copy there would hide the end of this process from the other side."""


def _close_all() -> None:
    for sock in list(_open):
        # Close the descriptor directly, because `sock.close` leaves it open while an event loop uses the socket.
        if (number := sock.detach()) >= 0:
            os.close(number)


os.register_at_fork(after_in_child=_close_all)


class LinkClosed(Unavailable):
    """The link is closed, or the other process has ended."""

    def __init__(self) -> None:
        super().__init__("the other process has exited")


def frame(message: msgspec.Struct, most: int, *, attached: bool = False) -> bytes:
    """Return a message as a frame.

    Raises `TooLarge` if the message has more than `most` bytes, or contains an integer of more than 64 bits.
    """
    try:
        body = _encode(message)
    except OverflowError as error:
        raise TooLarge("a number has more than 64 bits") from error
    if len(body) > most:
        raise TooLarge(f"a call between processes has at most {most} bytes (got {len(body)})")
    return (len(body) | _ATTACHED * attached).to_bytes(_HEADER, "big") + body


class Link:
    """One end of a socket connection to another process. Messages have at most `most` bytes.

    `received` is called with each decoded message and its file descriptor, which it must close (-1: none). `ended` is called
    once, at the end.
    """

    def __init__(
        self,
        sock: socket.socket,
        most: int,
        decode: Callable[[bytes], Any],
        received: Callable[[Any, int], None],
        ended: Callable[[], None],
    ) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        _open.add(sock)
        self.most = most
        self.open = True
        """Whether messages can be sent."""
        self.malformed = False
        """Whether the other side sent bytes that are no message."""
        self._sock = sock
        self._decode = decode
        self._received = received
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self.heard_at = self._sent_at = self._loop.time()
        self._buffer = bytearray()
        self._descriptors: deque[int] = deque()
        """Received descriptors whose frames are incomplete. A read may end with the descriptor of the next frame."""
        self._queue: deque[tuple[memoryview, int]] = deque()
        self._drained = asyncio.Event()
        self._drained.set()
        self._loop.add_reader(sock, self._readable)

    def send(self, message: msgspec.Struct, descriptor: int = -1) -> None:
        """Send a message, or queue it if the socket is full. The caller keeps its descriptor.

        Raises `LinkClosed`, `Unavailable` if the queue is full, and `TooLarge`. After any of these errors, nothing was
        sent.
        """
        data = memoryview(frame(message, self.most, attached=descriptor >= 0))
        if len(self._queue) >= _MOST_QUEUED:
            raise Unavailable("too many messages to the other process are queued, because it does not read them")
        sent = 0
        if self.open and not self._queue:
            sent = self._write(data, descriptor)
        if not self.open:
            raise LinkClosed
        if sent == len(data):
            return
        attached = os.dup(descriptor) if descriptor >= 0 and not sent else -1
        self._queue.append((data[sent:], attached))
        if self._drained.is_set():
            self._drained.clear()
            self._sent_at = self._loop.time()
            self._loop.add_writer(self._sock, self._writable)

    def offer(self, message: msgspec.Struct) -> None:
        """Send a message, or drop it if the link is closed or the other process does not read."""
        if self.open and not self._queue:
            with suppress(LinkClosed):
                self.send(message)

    async def flushed(self) -> None:
        """Wait until the kernel has all messages: the other process receives them even if this process is killed.

        Raises `LinkClosed`, also if the other process reads nothing for 30 seconds.
        """
        while self._queue:
            try:
                async with asyncio.timeout_at(self._sent_at + _STALL_SECONDS):
                    await self._drained.wait()
            except TimeoutError:
                if self._loop.time() >= self._sent_at + _STALL_SECONDS:
                    self.shut()
        if not self.open:
            raise LinkClosed

    def _write(self, data: memoryview, descriptor: int) -> int:
        """Return the number of bytes that the socket accepted. The descriptor is sent with the first byte."""
        try:
            if descriptor >= 0:
                return socket.send_fds(self._sock, [data], [descriptor])
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self.shut()
            return 0

    def _writable(self) -> None:
        while self._queue:
            data, descriptor = self._queue[0]
            sent = self._write(data, descriptor)
            if not sent:
                return
            self._sent_at = self._loop.time()
            if descriptor >= 0:
                os.close(descriptor)
            if sent < len(data):
                self._queue[0] = (data[sent:], -1)
                return
            self._queue.popleft()
        self._drained.set()
        self._loop.remove_writer(self._sock)

    def _readable(self) -> None:
        for _ in range(_READS):
            try:
                data, descriptors, flags, _address = socket.recv_fds(self._sock, _CHUNK, 1, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                data, descriptors, flags = b"", [], 0
            if not data:
                self.close()
                return
            if flags & socket.MSG_CTRUNC and not descriptors:
                # This process has too many open files, so the received descriptor is lost. Queue -1 in its place, or
                # its frame would get the descriptor of a later frame.
                descriptors = [-1]
            self.heard_at = self._loop.time()
            self._buffer += data
            if not self._take(descriptors):
                self.malformed = True
                self.close()
            # The kernel ends a read after a passed file descriptor, so there may be more data to read.
            if self._sock.fileno() < 0 or (len(data) < _CHUNK and not descriptors):
                return

    def _take(self, descriptors: list[int]) -> bool:
        """Process all frames that have arrived completely, with the passed `descriptors`. Return False if a frame is malformed."""
        self._descriptors += descriptors
        while len(self._buffer) >= _HEADER and self._sock.fileno() >= 0:
            header = int.from_bytes(self._buffer[:_HEADER], "big")
            end = _HEADER + (header & ~_ATTACHED)
            if end > _HEADER + self.most:
                return False
            if len(self._buffer) < end:
                break
            body = bytes(memoryview(self._buffer)[_HEADER:end])
            del self._buffer[:end]
            try:
                message = self._decode(body)
                attached = header & _ATTACHED and self._descriptors
                self._received(message, self._descriptors.popleft() if attached else -1)
            except msgspec.DecodeError:
                return False
            except Exception:  # noqa: BLE001  # it ends the link, not the event loop's callback
                _log.exception("handling a message from another process failed")
                return False
        return len(self._descriptors) <= 1

    def shut(self) -> None:
        """Stop sending and receiving. Data that has already arrived is still processed before the link ends."""
        if not self.open:
            return
        self.open = False
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._loop.remove_writer(self._sock)
        for _, descriptor in self._queue:
            if descriptor >= 0:
                os.close(descriptor)
        self._queue.clear()
        self._drained.set()

    def close(self) -> None:
        """End the link at once. Messages that were not sent or not read are lost."""
        self.shut()
        if self._sock.fileno() < 0:
            return
        self._loop.remove_reader(self._sock)
        self._sock.close()
        while self._descriptors:
            if (descriptor := self._descriptors.popleft()) >= 0:
                os.close(descriptor)
        self._ended()

"""Messages and errors between the process that owns a store and the processes that call it, in frames on a socket.

A frame is four bytes of length and a message in MessagePack. `send` hands the bytes to the kernel before it returns, so the
other process reads them even if this process is killed a moment later.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncGenerator, Iterator
from typing import Any
from weakref import WeakSet

import msgspec

from shoal.core.errors import ShoalError, TooLarge

_LENGTH = 4
_CHUNK = 1 << 16
_SEND_SECONDS = 30.0


class Request(msgspec.Struct, tag="request", array_like=True):
    """A call of a method, such as `member.lists`, with its arguments as plain values. A stream returns its first item."""

    id: int
    noun: str
    method: str
    member: tuple[int, str] | None
    args: list[Any]
    kwargs: dict[str, Any]


class NextItem(msgspec.Struct, tag="next", array_like=True):
    """Request for the next item of a stream."""

    id: int


class Cancel(msgspec.Struct, tag="cancel", array_like=True):
    """Cancellation of a call or a stream."""

    id: int


class Hello(msgspec.Struct, tag="hello", array_like=True):
    """The first message of the owner: a digest of its methods and types, and the maximum bytes of a message."""

    fingerprint: str
    most: int


class Changing(msgspec.Struct, tag="changing", array_like=True):
    """Notice that a call starts to change the store."""

    id: int


class Response(msgspec.Struct, tag="response", array_like=True):
    """The result of a call, or an item of a stream."""

    id: int
    value: msgspec.Raw


class CallFailed(msgspec.Struct, tag="failed", array_like=True):
    """An error, with the names of its classes in method resolution order."""

    id: int
    kinds: list[str]
    message: str
    details: dict[str, str | float | None]


class StreamEnd(msgspec.Struct, tag="end", array_like=True):
    """The end of a stream."""

    id: int


class Heartbeat(msgspec.Struct, tag="heartbeat", array_like=True):
    """A sign of life of the owner."""


FromCaller = Request | NextItem | Cancel
FromOwner = Hello | Changing | Response | CallFailed | StreamEnd | Heartbeat

_encode = msgspec.msgpack.Encoder().encode


def packed(message: FromCaller | FromOwner, most: int) -> bytes:
    """Return a message as a frame. Raises `TooLarge` if it exceeds `most` bytes, or contains a number of more than 64 bits."""
    try:
        body = _encode(message)
    except OverflowError as error:
        raise TooLarge("a number has more than 64 bits") from error
    if len(body) > most:
        raise TooLarge(f"a call between processes may have {most} bytes, not {len(body)}")
    return len(body).to_bytes(_LENGTH, "big") + body


class FrameSocket:
    def __init__(self, sock: socket.socket, most: int) -> None:
        self.most = most
        """Maximum bytes of a frame from the other side."""
        sock.setblocking(False)
        close_in_children(sock)
        self._sock = sock
        self._waiting: list[bytes] = []
        self._sender: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether frames are queued."""
        return self._sender is not None

    async def send(self, frame: bytes) -> None:
        """Hand a frame to the kernel. Raises `ConnectionError` if the other side is gone, or reads nothing for 30 seconds."""
        if self._closed:
            raise ConnectionError("closed")
        if self._sender is None:
            try:
                sent = self._sock.send(frame)
            except BlockingIOError:
                sent = 0
            if sent == len(frame):
                return
            frame = frame[sent:]
            self._sender = asyncio.create_task(self._send_waiting())
        self._waiting.append(frame)
        # A cancelled caller must not leave a partial frame.
        await asyncio.shield(self._sender)

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                frames, self._waiting = self._waiting, []
                async with asyncio.timeout(_SEND_SECONDS):
                    await asyncio.get_running_loop().sock_sendall(self._sock, b"".join(frames))
        except (OSError, TimeoutError) as error:
            self.shut()
            raise ConnectionError("the other side reads nothing") from error
        finally:
            self._sender = None

    async def frames(self, silence: float | None = None) -> AsyncGenerator[bytes, None]:
        """Iterate over frames until the other side closes. Raises `ConnectionError` for one that is too long.

        After `silence` seconds without data, the connection is shut down; frames received until then are still yielded.
        """
        loop = asyncio.get_running_loop()
        held = bytearray()
        while True:
            while len(held) >= _LENGTH:
                length = int.from_bytes(held[:_LENGTH], "big")
                if length > self.most:
                    raise ConnectionError("a frame is too long")
                if len(held) < _LENGTH + length:
                    break
                frame = bytes(held[_LENGTH : _LENGTH + length])
                del held[: _LENGTH + length]
                yield frame
            try:
                async with asyncio.timeout(silence):
                    chunk = await loop.sock_recv(self._sock, _CHUNK)
            except TimeoutError:
                self.shut()
                silence = None
                continue
            except ConnectionError:
                return
            if not chunk:
                return
            held += chunk

    def shut(self) -> None:
        """Shut the connection down: the other side can send nothing more, and both read to the end."""
        self._closed = True
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        """Close the socket. It must not be read any more."""
        self._closed = True
        if self._sender is not None:
            self._sender.cancel()
        self._sock.close()


_open: WeakSet[socket.socket] = WeakSet()


def close_in_children(sock: socket.socket) -> None:
    """Close a socket in forked processes: an open copy there would hide the end of this one from the other side."""
    _open.add(sock)


def _close_all() -> None:
    for sock in list(_open):
        # An event loop that waits for a socket keeps it open after `close`.
        if (number := sock.detach()) >= 0:
            os.close(number)


os.register_at_fork(after_in_child=_close_all)


_log = logging.getLogger(__name__)

_INTERNAL = "the process that has the store met an error of its own; its log says which"
_DETAILS = ("field", "retry_after")


def failure(call: int, error: Exception) -> CallFailed:
    """Return an error as a message. Unexpected errors are logged, and replaced by a fixed sentence."""
    if isinstance(error, TimeoutError):
        return CallFailed(call, ["TimeoutError"], "", {})
    if not isinstance(error, ShoalError):
        _log.error("a call of another process failed", exc_info=error)
        return CallFailed(call, [ShoalError.__name__], _INTERNAL, {})
    kinds = [kind.__name__ for kind in type(error).__mro__ if issubclass(kind, ShoalError)]
    details = {name: getattr(error, name) for name in _DETAILS if hasattr(error, name)}
    return CallFailed(call, kinds, str(error), details)


def error_of(failed: CallFailed) -> Exception:
    if failed.kinds == ["TimeoutError"]:
        return TimeoutError()
    known = {kind.__name__: kind for kind in _kinds(ShoalError)}
    kind = next((known[name] for name in failed.kinds if name in known), ShoalError)
    error = kind.__new__(kind, failed.message)
    for name, value in failed.details.items():
        if name in _DETAILS:
            setattr(error, name, value)
    return error


def _kinds(kind: type[ShoalError]) -> Iterator[type[ShoalError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _kinds(one)

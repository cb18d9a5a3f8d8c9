"""Parts of the messages between processes."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from shoal.readers.link import CONNECTION, MORE, ProcessMessage

OWNER = 0
"""The owner's place among the processes."""
_MOST_BYTES = 1 << 20
"""Bytes that a client has sent, at most: one read of a loop is less."""


Take = Callable[[socket.socket, bytes], Coroutine[Any, Any, None]]
"""Goes on with a connection whose client has sent these bytes."""


class TokenUsed(msgspec.Struct, array_like=True):
    """A token was used."""

    token: int
    origin: tuple[str, ...]


def id_of(data: bytes) -> int:
    """Return the number in a message."""
    return int.from_bytes(data[:8], "big")


class ConnectionParts:
    """Puts the parts of a connection together: its descriptor, and what its client has sent, in one message or several."""

    def __init__(self, taken: Callable[[socket.socket, bytes], object]) -> None:
        self._taken = taken
        self._socket: socket.socket | None = None
        self._size = 0
        self._data = b""

    @staticmethod
    def headed(data: bytes) -> bytes:
        """Return data behind its length."""
        return len(data).to_bytes(4, "big") + data

    def takes(self, message: ProcessMessage) -> bool:
        """Take a message that is a part of a connection; False for any other."""
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
        """Forget a connection that is not whole."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

"""MessagePack messages with a length prefix, over the pipes between the server and a child process.

This module imports little, because every child process imports it.
"""

from __future__ import annotations

from typing import BinaryIO

import msgspec

PREFIX = 4
"""Number of bytes in front of a message that contain its length, big-endian."""
_ENCODER = msgspec.msgpack.Encoder()


def frame(message: object) -> bytearray:
    """Encode a message, copying its contents only once."""
    buffer = bytearray(PREFIX)
    _ENCODER.encode_into(message, buffer, PREFIX)
    buffer[:PREFIX] = (len(buffer) - PREFIX).to_bytes(PREFIX, "big")
    return buffer


def read_frame(source: BinaryIO) -> bytes:
    """Return the next encoded message; empty if the other side has closed the pipe or exited."""
    prefix = source.read(PREFIX)
    size = int.from_bytes(prefix, "big")
    data = source.read(size)
    return data if len(prefix) == PREFIX and len(data) == size else b""


def write_frame(sink: BinaryIO, message: object) -> None:
    sink.write(frame(message))
    sink.flush()

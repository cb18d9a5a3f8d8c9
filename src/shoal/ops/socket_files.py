"""Socket files beside a store, which only the owner of the store may open."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def at(path: Path) -> Iterator[str]:
    """An address for `path` that is short however long the path is: that of a socket may have 107 bytes."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def bound(address: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """A listening socket whose file only the owner may open, from its first moment."""
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
    """Delete a socket file. Nothing happens where there is none."""
    with suppress(FileNotFoundError):
        path.unlink()

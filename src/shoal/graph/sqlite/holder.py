"""The process that has a store open. Its number stands in the store's lock file, so that others can name it."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from shoal import private
from shoal.core.errors import InUse

_LONGEST_COMMAND = 200


def note(lock: int) -> None:
    """Write the number of this process to the lock file. A full disk does not prevent opening the store."""
    with suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)


def told(lock: int) -> str:
    """The process that was written down, such as ", 57 (shoal serve)"; nothing where none was, or where it has ended."""
    with suppress(OSError, ValueError):
        pid = int(os.pread(lock, 20, 0))
        return f", {pid} ({_command(pid)})"
    return ""


def _command(pid: int) -> str:
    """The command as it was typed, without folders of programs and without the interpreter before a script."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    if Path(words[0]).name.startswith("python") and len(words) > 1 and not words[1].startswith("-"):
        del words[0]
    return " ".join([Path(words[0]).name, *words[1:]])[:_LONGEST_COMMAND]


def own(path: Path) -> int:
    """Take the lock file that says which process owns the store. Raises `InUse`."""
    lock = private.open_file(f"{path}-lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        by = told(lock)
        os.close(lock)
        raise InUse(f"the store {path.name} is in use by another process{by}: stop that one first") from error
    note(lock)
    _held.add(lock)
    return lock


def release(lock: int) -> None:
    """Let the next process have the store."""
    _held.discard(lock)
    os.close(lock)


def _leave_to_parent() -> None:
    """Close the locks that came along with a fork: otherwise the store stays locked for as long as any child lives."""
    while _held:
        os.close(_held.pop())


_held: set[int] = set()
os.register_at_fork(after_in_child=_leave_to_parent)

"""The process that has a store open. Its number stands in the store's lock file, so that others can name it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

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

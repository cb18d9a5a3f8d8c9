"""The process that has a store open: its number stands in the store's lock file, for whoever finds that locked."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_LONGEST_COMMAND = 200


def note(lock: int) -> None:
    """Write down that it is this process. A disk that is full keeps nobody from opening a store."""
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
    """What somebody typed: without the folders of programs, and without the interpreter before a script."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    if Path(words[0]).name.startswith("python") and len(words) > 1 and not words[1].startswith("-"):
        del words[0]
    return " ".join([Path(words[0]).name, *words[1:]])[:_LONGEST_COMMAND]

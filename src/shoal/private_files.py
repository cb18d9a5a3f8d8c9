"""Files and folders with access for their owner only, whatever the umask, for private data and secrets."""

from __future__ import annotations

import os
import stat
from pathlib import Path

FILE = 0o600
FOLDER = 0o700


def make_folder(path: Path) -> None:
    """Create a folder and its parents, private to this user. Folders that exist are left unchanged."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(FOLDER, exist_ok=True)


def open_file(path: str | Path, flags: int) -> int:
    """Open a file as `os.open` does; a missing file is created, private to this user."""
    handle = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, FILE)
    try:
        narrow(handle)
    except BaseException:
        os.close(handle)
        raise
    return handle


def write(path: Path, data: bytes) -> None:
    with os.fdopen(open_file(path, os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.write(data)


def write_new(path: Path, data: bytes) -> None:
    """Create a private file. Raises `FileExistsError` if it exists. A file that could not be written completely is removed."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def narrow(what: int | Path) -> None:
    """Remove the permissions of other users on an open file or folder, or on one by its path.

    Does nothing if the file does not exist, or if another user owns it and this process does not run as root.
    """
    try:
        known = os.stat(what)  # noqa: PTH116  # it may be a handle
        if os.geteuid() in {0, known.st_uid} and stat.S_IMODE(known.st_mode) & 0o077:
            os.chmod(what, stat.S_IMODE(known.st_mode) & FOLDER)  # noqa: PTH101  # as above
    except FileNotFoundError:
        return

"""Files and folders that only their owner can access, whatever the umask, for private data and secrets."""

from __future__ import annotations

import os
import stat
from pathlib import Path

FILE = 0o600
FOLDER = 0o700


def make_folder(path: Path) -> None:
    """Create a folder and its parents so that only this user can access them. Existing folders are not changed."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(FOLDER, exist_ok=True)


def open_file(path: str | Path, flags: int) -> int:
    """Open a file like `os.open`. A missing file is created so that only this user can access it."""
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
    """Create a file that only this user can access.

    Raises `FileExistsError` if it exists. If writing fails, the file is removed.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def narrow(what: int | Path) -> None:
    """Remove the permissions of other users on an open file, or on the file or folder at a path.

    Does nothing if the path does not exist, or if another user owns it and this process does not run as root.
    """
    try:
        known = os.stat(what)  # noqa: PTH116  # it may be a handle
        if os.geteuid() in {0, known.st_uid} and stat.S_IMODE(known.st_mode) & 0o077:
            os.chmod(what, stat.S_IMODE(known.st_mode) & FOLDER)  # noqa: PTH101  # as above
    except FileNotFoundError:
        return

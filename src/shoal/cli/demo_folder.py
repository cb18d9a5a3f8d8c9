"""The folder of a demo: the state between two runs, and how the folder is emptied."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from shoal import private_files
from shoal.core.errors import InvalidInput, Unavailable

STORE = "shoal.db"
_MEMORY = "demo.json"


class Demo(msgspec.Struct):
    """The state of a demo folder between two runs: the plan's seed and moment, and whether it was carried out."""

    seed: int
    members: int
    days: int
    now_ms: int
    done: bool = False


def recall(folder: Path) -> Demo | None:
    """Return the state of the folder; None for a folder without a network.

    Raises `InvalidInput` for a network that is no demo, or a state that cannot be read.
    """
    path = folder / _MEMORY
    if not path.exists():
        if (folder / STORE).exists():
            raise InvalidInput(f"{folder / STORE} is no demo: name another folder with --folder")
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Demo)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{path} cannot be read: --fresh makes a new network") from error


def remember(folder: Path, state: Demo) -> None:
    """Store the state for the next run. A crash leaves either the old or the new."""
    begun = folder / f"{_MEMORY}.part"
    private_files.write(begun, msgspec.json.encode(state))
    begun.replace(folder / _MEMORY)


def clear(folder: Path) -> None:
    """Remove the files that a demo made, and only those. Raises `Unavailable` while somebody serves it."""
    if not (folder / _MEMORY).exists():
        return
    with _owned(folder):
        for path in folder.glob(f"{STORE}*"):
            # Who waits for a lock file that is gone, and who makes it anew, would both own the store.
            if path.is_file() and path.name != f"{STORE}-lock":
                path.unlink()
        if (folder / f"{STORE}.media").exists():
            shutil.rmtree(folder / f"{STORE}.media")
        (folder / _MEMORY).unlink()


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    """Hold the store's own lock, without opening a store that may be broken or of another version."""
    lock = private_files.open_file(folder / f"{STORE}-lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise Unavailable(f"the network in {folder} is being served: stop that server first") from error
    finally:
        os.close(lock)

"""The folder of a cluster on this machine: who holds it, which ports it remembers, and what a dead one has left running.

One process holds a folder at a time. When it is killed its engines live on; whoever takes the folder next, or clears it,
ends them first. They are known by where they run - in the folder, with no terminal - so no list of them has to be right.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from shoal import private_files
from shoal.core.errors import InvalidInput, Unavailable
from shoal.ops.engines.program import free_port

_LOCK = "cluster.lock"
_PORTS = "cluster.json"
_ENTERED = 0o711
"""Others may pass through a folder, and not read what is in it."""
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 90.0
"""How long a cluster may take to stop: its servers finish what they have in hand."""


@contextmanager
def held(folder: Path) -> Iterator[Path]:
    """Make the folder if need be, hold it, and end what an earlier holder left running; the folder's full path.

    Raises `Unavailable` while another process holds it, `InvalidInput` for a folder that engines could not reach.
    """
    made = not folder.exists()
    folder.mkdir(private_files.FOLDER, parents=True, exist_ok=True)
    folder = folder.resolve()
    if made and os.geteuid() == 0:
        # Engines run as other users then; each has a folder of its own in this one.
        folder.chmod(_ENTERED)
    _check_reachable(folder)
    lock = private_files.open_file(folder / _LOCK, os.O_RDWR)
    try:
        if not _take(lock):
            raise Unavailable(f"a cluster is up in {folder.name}: `shoal cluster down` stops it")
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        clear(folder)
        yield folder
    finally:
        os.close(lock)


def end(folder: Path) -> bool:
    """Stop the cluster in a folder, or what a dead one has left running; whether there was anything to stop.

    Raises `Unavailable` for one that does not stop in time.
    """
    folder = folder.resolve()
    if not (folder / _LOCK).exists():
        return False
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    try:
        if _take(lock):
            return clear(folder) > 0
        os.kill(int(os.pread(lock, 20, 0)), signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not _take(lock):
            if time.monotonic() > deadline:
                raise Unavailable("the cluster does not stop")
            time.sleep(_POLL_SECONDS)
        return True
    finally:
        os.close(lock)


def clear(folder: Path) -> int:
    """Kill what runs in the folder and has no terminal; how many processes that was. What they had on disk is safe."""
    killed: set[int] = set()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while left := _running_in(folder) | set(filter(_not_buried, killed)):
        if time.monotonic() > deadline:
            raise Unavailable(f"processes of an earlier cluster do not end: {sorted(left)}")
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= left
        time.sleep(_POLL_SECONDS)
    return len(killed)


class Ports:
    """The ports of a folder's servers, by their names: the same at every start, as far as nobody else has taken them."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _PORTS
        self.known: dict[str, int] = {}
        """Ports that were given out so far, by name, here or by an earlier cluster."""
        if self._path.exists():
            try:
                self.known = msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
            except msgspec.DecodeError as error:
                raise InvalidInput(f"{self._path} cannot be read: delete it, and ports are chosen anew") from error

    def get(self, name: str) -> int:
        """The port of this server, free at the moment."""
        others = {port for other, port in self.known.items() if other != name}
        port = self.known.get(name, 0)
        while not port or port in others or not _free(port):
            port = free_port()
        if self.known.get(name) != port:
            self.known[name] = port
            private_files.write(self._path, msgspec.json.encode(self.known))
        return port


def _take(lock: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _check_reachable(folder: Path) -> None:
    """As root we start engines as other users: they must be able to come to the folder."""
    if os.geteuid() != 0:
        return
    for path in (folder, *folder.parents):
        if not path.stat().st_mode & 0o001:
            raise InvalidInput(f"engines run as other users, and may not enter {path}: name another --folder")


def _running_in(folder: Path) -> set[int]:
    """The processes whose directory is beneath the folder, but for those of people: with a terminal, or of our session."""
    found = set()
    for entry in Path("/proc").iterdir():
        # It may end at any moment, or be somebody else's.
        with contextlib.suppress(OSError, ValueError):
            where = (entry / "cwd").readlink()
            if entry.name.isdigit() and folder in where.parents and not _of_people(entry):
                found.add(int(entry.name))
    return found


def _not_buried(pid: int) -> bool:
    """Whether a process that was killed is still listed: PostgreSQL does not start beside a dead one that is."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        # Our own children are buried when we ask for them.
        return int(fields[1]) != os.getpid()
    return False


def _of_people(process: Path) -> bool:
    fields = (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    session, terminal = int(fields[3]), int(fields[4])
    return terminal != 0 or session == os.getsid(0)


def _free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False

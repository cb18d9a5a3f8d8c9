"""A program of an engine, run in a folder of its own on a free port of this machine, until it is stopped.

Nothing here is asynchronous: engines are started and stopped by commands and tests, beside whatever they serve.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from shoal import private_files
from shoal.core.errors import Unavailable

_LAST_WORDS = 8_000
_POLL_SECONDS = 0.02
_PORTS = range(15_000, 32_000)
"""Below those that a system gives to outgoing connections, as a rule."""
_given: dict[int, int] = {}
"""The ports that this process was given, each with the socket that keeps other processes off it (see `_claimed`).

They are numbers of files: nobody closes them, and a socket object would complain of that when the process ends.
"""


class NotInstalled(Unavailable):
    """The program is not on this machine; the message says which Debian package has it."""


def find(name: str, package: str, *folders: str) -> str:
    """The path of a program: on the PATH, or in one of these folders (newest version last). Raises `NotInstalled`."""
    found = shutil.which(name) or next(
        (path for folder in reversed(folders) if (path := shutil.which(name, path=folder))), None
    )
    if found is None:
        raise NotInstalled(f"{name} is not installed: apt-get install {package}")
    return found


def free_port() -> int:
    """A port that nobody listens on at the moment, and that no outgoing connection takes before its engine is up.

    No process of this machine is given the port of another one: engines take seconds to listen on theirs.
    """
    for port in random.sample(_PORTS, len(_PORTS)):
        if port not in _given and (claim := _claimed(port)):
            with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
                _given[port] = claim.detach()
                return port
            claim.close()
    raise OSError("no port is free")


def _claimed(port: int) -> socket.socket | None:
    """A socket that has the name of this port, until this process ends; None where another process has it."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        # In the abstract namespace of Linux: a name goes with its last process, and leaves no file.
        claim.bind(f"\0shoal-port-{port}")
    except OSError:
        claim.close()
        return None
    return claim


def hand_over(folder: Path, user: str | None) -> None:
    """Give a folder and what is in it to another user: several engines refuse to run as root."""
    if user is None or os.geteuid() != 0:
        return
    account = pwd.getpwnam(user)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid)


class Program:
    """One process of an engine. `start` may be called again after `stop` or `kill`: it finds its folder as it was left."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        *,
        url: str = "",
        user: str | None = None,
        environ: Mapping[str, str] | None = None,
        answers: Callable[[], bool] = lambda: True,
        patience: float = 60.0,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.name = name
        self.folder = folder
        self.url = url
        """Where clients find it."""
        self._command = list(command)
        self._user = user if os.geteuid() == 0 else None
        self._environ = {**os.environ, **(environ or {})}
        self._answers = answers
        self._patience = patience
        self._stop_signal = stop_signal
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """The file that the program's output goes to."""
        return self.folder / f"{self.name}.log"

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The number of the process; None when it was never started, or was stopped."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Return when it answers. Raises `Unavailable`, with the end of its log, when it ends or stays silent."""
        private_files.narrow(self.folder)
        with os.fdopen(private_files.open_file(self.log, os.O_WRONLY | os.O_APPEND), "ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # a program that we named
                self._command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environ,
                user=self._user,
                extra_groups=[] if self._user else None,
                start_new_session=True,
                umask=0o077,
            )
        deadline = time.monotonic() + self._patience
        while not self._answers():
            if not self.running or time.monotonic() > deadline:
                self.kill()
                raise Unavailable(f"{self.name} did not start: {self.last_words()}")
            time.sleep(_POLL_SECONDS)

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text("utf-8", "replace")[-_LAST_WORDS:] if self.log.exists() else ""

    def stop(self, patience: float = 20.0) -> None:
        """Ask it to end, and wait; what does not end in time is killed."""
        self._signal(self._stop_signal)
        self._wait(patience)

    def kill(self) -> None:
        """End it at once, with all its children."""
        self._signal(signal.SIGKILL)
        self._wait(20.0)

    def pause(self) -> None:
        """Stop it where it stands: connections stay open, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        if number is self._stop_signal:
            # The first process ends the others in its own order.
            self._process.send_signal(number)
            return
        for pid in _family(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _wait(self, patience: float) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()
        self._process = None


def _family(pid: int) -> list[int]:
    """A process and all that descend from it, also those that made a group of their own."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                parent = int((entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def listens(port: int) -> bool:
    """Whether somebody takes connections on this port of this machine."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False

"""The program of an engine, run in its own folder on a free port of this machine until it is stopped.

The API is synchronous: commands and tests start and stop engines next to the services that they run.
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
"""Ports below the usual range of ephemeral ports."""
_given: dict[int, int] = {}
"""The ports assigned to this process, each with the socket that reserves it among processes (see `_claimed`).

The values are file descriptors: a socket object would warn at exit because it is never closed.
"""


class NotInstalled(Unavailable):
    """The program is not installed; the message names the Debian package."""


def find(name: str, package: str, *folders: str) -> str:
    """Find a program on the PATH or else in the last of `folders` that has it. Raises `NotInstalled`."""
    found = shutil.which(name) or next(
        (path for folder in reversed(folders) if (path := shutil.which(name, path=folder))), None
    )
    if found is None:
        raise NotInstalled(f"{name} is not installed: install it with `apt-get install {package}`")
    return found


def free_port() -> int:
    """Return a free port outside the ephemeral range, so that it stays free until the engine listens on it.

    The port is reserved for this process until the process ends, because an engine takes seconds to start.
    """
    for port in random.sample(_PORTS, len(_PORTS)):
        if port not in _given and (claim := _claimed(port)):
            with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
                _given[port] = claim.detach()
                return port
            claim.close()
    raise OSError("no free port found")


def _claimed(port: int) -> socket.socket | None:
    """Return a socket that reserves the port until this process ends; None if another process has reserved it."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        # The name is in Linux's abstract namespace, so it disappears with its last process and leaves no file.
        claim.bind(f"\0shoal-port-{port}")
    except OSError:
        claim.close()
        return None
    return claim


def hand_over(folder: Path, user: str | None) -> None:
    """Change the owner of a folder and its contents, because several engines refuse to run as root."""
    if user is None or os.geteuid() != 0:
        return
    account = pwd.getpwnam(user)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid)


class Program:
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
        self._command = list(command)
        self._user = user if os.geteuid() == 0 else None
        self._environ = {**os.environ, **(environ or {})}
        self._answers = answers
        self._patience = patience
        self._stop_signal = stop_signal
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the process and wait until it answers.

        Raises `Unavailable` with the end of its log if it exits or does not answer in time.
        """
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
        return self.log.read_text("utf-8", "replace")[-_LAST_WORDS:] if self.log.exists() else ""

    def stop(self, patience: float = 20.0) -> None:
        """Ask the process to exit and wait. After `patience` seconds, kill it."""
        self._signal(self._stop_signal)
        self._wait(patience)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._wait(20.0)

    def pause(self) -> None:
        """Suspend the process. Its connections stay open, but nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        if number is self._stop_signal:
            # The main process stops its child processes itself, in the required order.
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
    """Return a process and all its descendants, even those in another process group."""
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
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False

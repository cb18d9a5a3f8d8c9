"""Start `shoal` commands and programs of the tests as forks of a process that has imported their modules.

A new interpreter spends 0.9 seconds of processor time on imports before a server listens; a fork spends 0.1 seconds. `Forking`
replaces `subprocess.Popen` in test processes. The started process is a child of the caller, so `Popen` waits for it and signals it
as usual. Its entry in `/proc/PID/cmdline` is that of the process it was forked from, so a test that reads the command line uses
`Interpreter`.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from execnet.gateway_io import popen_bootstrapline

from tests.async_runner import at_a_desk
from tests.engines.shutdown import at_the_end

Interpreter = subprocess.Popen
"""The class that `Forking` replaces."""

_COMMAND = re.compile(
    rf"(?:prlimit\0--nofile=(?P<files>\d+)\0)?{re.escape(sys.executable)}\0(?P<options>(?:-P\0)?(?:-W\0ignore\0)?)-m\0"
    r"(?P<arguments>(?:shoal\.cli|uvicorn|(?P<confined>shoal\.media\.(?:worker|confined))"
    # The imports of the next version depend on each other.
    r"|tests\.(?!upgrades\.)[\w.]+)(?:\0.*)?)"
    # pytest-xdist starts a worker.
    rf"|{re.escape(sys.executable)}\0-u\0(?P<worker>-c\0{re.escape(popen_bootstrapline)})",
    re.DOTALL,
)
"""The commands that run in a fork. Their words are separated by zeros."""
_SERVER = "tests.cheap_server"
"""The module that is imported before the fork for commands without memory limits."""
_WORKERS = "tests.fork_workers"
"""The module that is imported before the fork for workers of pytest-xdist."""
worker_arguments: list[str] | None = None
"""The arguments of pytest that name the tests; None if workers are started as usual."""
_DETAILS = (
    *(
        "args",
        "executable",
        "preexec_fn",
        "close_fds",
        "pass_fds",
        "cwd",
        "env",
        "startupinfo",
        "creationflags",
        "shell",
    ),
    *("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"),
    *("restore_signals", "gid", "gids", "uid", "umask", "start_new_session", "process_group"),
)
"""The parameters of `Popen._execute_child` from Python 3.11 on."""
_ROOT = Path(__file__).resolve().parent.parent
_PR_SET_CHILD_SUBREAPER = 36
_lock = threading.Lock()


class Forking(subprocess.Popen[Any]):
    """A `Popen` that runs the commands of `_COMMAND` in a fork, and any other command as usual."""

    def _execute_child(self, *values: Any) -> None:
        details = dict(zip(_DETAILS, values, strict=True))
        words = [details["args"]] if isinstance(details["args"], str | bytes | os.PathLike) else details["args"]
        found = _COMMAND.fullmatch("\0".join(map(os.fsdecode, words)))
        special = [name for name in ("shell", "pass_fds", "gid", "gids", "uid") if details[name]]
        if found is not None and found["worker"] and worker_arguments is None:
            found = None
        if found is None or special or details["preexec_fn"] not in {None, at_a_desk}:
            super()._execute_child(*values)  # type: ignore[misc]
            return
        template = (_WORKERS, *(worker_arguments or ())) if found["worker"] else (found["confined"] or _SERVER,)
        request = {
            "options": (found["options"] or "").split("\0"),
            "arguments": (found["worker"] or found["arguments"]).split("\0"),
            "files": found["files"],
            "environment": dict(os.environ if details["env"] is None else details["env"]),
            "cwd": str(Path(details["cwd"] or ".").absolute()),
            **{name: details[name] for name in ("umask", "start_new_session", "process_group")},
        }
        pipes = [details[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        try:
            descriptors = [number if pipe == -1 else pipe for number, pipe in enumerate(pipes)]
            self.pid = _fork(template, request, descriptors)
            self._child_created = True
        finally:
            self._close_pipe_fds(*values[10:16])  # type: ignore[attr-defined]


def _fork(template: tuple[str, ...], request: Mapping[str, object], descriptors: Sequence[int]) -> int:
    """Return the process ID of a new fork, which becomes a child of this process."""
    # `fork_template.py` exits the parent of the fork at once; this process adopts the orphan.
    libc = ctypes.CDLL(None)
    body = json.dumps(request).encode()
    with _lock:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            try:
                pid = _asked(_template(*template), body, descriptors)
            except ConnectionError:
                # The process that forks was killed, like a worker of pytest-xdist that is replaced. Start another one.
                _template.cache_clear()
                pid = _asked(_template(*template), body, descriptors)
            if not pid:
                raise OSError(f"no process was forked for {template[0]}: see standard error")
            return pid
        finally:
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _asked(connection: socket.socket, body: bytes, descriptors: Sequence[int]) -> int:
    """Return the process ID of a new fork, or 0 if it ended before it reported one. Raises `ConnectionError`."""
    socket.send_fds(connection, [len(body).to_bytes(4, "big")], descriptors)
    connection.sendall(body)
    answer = connection.recv(4)
    if not answer:
        raise ConnectionResetError("the process that forks has ended")
    return int.from_bytes(answer, "big")


@functools.cache
def _template(module: str, *arguments: str) -> socket.socket:
    """Start the process that forks, and return the connection to it. It exits when this process closes the connection."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", "tests.fork_template", str(theirs.fileno()), module, *arguments]
        process = Interpreter(command, cwd=_ROOT, pass_fds=[theirs.fileno()])
    at_the_end.callback(process.wait)
    at_the_end.callback(ours.close)
    return ours

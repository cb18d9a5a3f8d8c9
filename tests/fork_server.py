"""Start `shoal` commands as forks of a process that has imported Shoal.

A new interpreter spends 0.9 seconds of processor time on imports before a server listens; a fork spends 0.1 seconds. The started
process is a child of the caller, so `subprocess.Popen` waits for it and signals it as usual. Its entry in `/proc/PID/cmdline` is
that of the process it was forked from, so a test that reads the command line starts a new interpreter.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import json
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_MODULE = "shoal.cli"
_PRELOADED = "shoal.cli.serve"
_PR_SET_CHILD_SUBREAPER = 36
_REQUEST_BYTES = 1 << 20
_lock = threading.Lock()


class Forked(subprocess.Popen[str]):
    """A running `shoal` command, with its standard output as a text stream in `stdout`.

    Args:
        arguments: The words after `shoal`.
        environment: All environment variables of the process.
        stderr: The file for standard error; that of the caller if None.
        files: The maximum number of open files; 0 keeps the limit of the caller.
    """

    # `Popen.__init__` would start a new interpreter. The other methods of `Popen` read the attributes set here.
    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        stderr: IO[bytes] | None = None,
        files: int = 0,
    ) -> None:
        self._child_created = False
        ours, theirs = os.pipe()
        request = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "cwd": str(Path.cwd()),
            "files": files,
        }
        try:
            self.pid = _fork(request, theirs, stderr.fileno() if stderr else 2)
        finally:
            os.close(theirs)
        self.args = ["shoal", *arguments]
        self.stdin = self.stderr = None
        self.stdout = os.fdopen(ours, encoding="utf-8")
        self.returncode: int | Any = None
        self.text_mode = self.universal_newlines = True
        self.encoding, self.errors, self.pipesize = "utf-8", None, -1
        self._input, self._communication_started = None, False
        self._waitpid_lock = threading.Lock()
        self._sigint_wait_secs = 0.25
        self._closed_child_pipe_fds = True
        self._child_created = True


def _fork(request: Mapping[str, object], stdout: int, stderr: int) -> int:
    """Return the process ID of a new fork, which becomes a child of this process."""
    # The forking process exits its own child at once; this process adopts the orphan.
    libc = ctypes.CDLL(None)
    body = json.dumps(request).encode()
    with _lock:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            connection = _template()
            socket.send_fds(connection, [len(body).to_bytes(4, "big")], [stdout, stderr])
            connection.sendall(body)
            return int.from_bytes(connection.recv(4), "big")
        finally:
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@functools.cache
def _template() -> socket.socket:
    """Start the process that forks, and return the connection to it. It exits when this process closes the connection."""
    # Imported here because the process that forks runs this file as a script, without the tests on its path.
    from tests.engines.shutdown import at_the_end  # noqa: PLC0415

    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    at_the_end.callback(process.wait)
    at_the_end.callback(ours.close)
    return ours


def _serve(connection: socket.socket) -> None:
    """Fork a process for each request until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    __import__(_PRELOADED)
    gc.collect()
    gc.freeze()
    while True:
        size, descriptors, _, _ = socket.recv_fds(connection, 4, 2)
        if not size:
            return
        body = bytearray()
        while len(body) < int.from_bytes(size, "big"):
            body += connection.recv(_REQUEST_BYTES)
        reading, writing = os.pipe()
        if between := os.fork():
            os.close(writing)
            answer = os.read(reading, 4)
            os.waitpid(between, 0)
            connection.sendall(answer)
            for descriptor in (reading, *descriptors):
                os.close(descriptor)
            continue
        if pid := os.fork():
            os.write(writing, pid.to_bytes(4, "big"))
            os._exit(0)
        os.close(reading)
        os.close(writing)
        connection.close()
        _run(json.loads(body), *descriptors)


def _run(request: Any, stdout: int, stderr: int) -> None:
    """Run the command in this process, and exit with its status."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for descriptor in {stdout, stderr} - {1, 2}:
        os.close(descriptor)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    if files := request["files"]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    sys.argv = [_MODULE, *request["arguments"]]
    status = 1
    try:
        runpy.run_module(_MODULE, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  # the interpreter would print it, too
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))

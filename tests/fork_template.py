"""The process that forks, for `fork_server.py`: `python -m tests.fork_template DESCRIPTOR MODULE`.

It imports the module, and then runs each command that it reads from the socket in a fork.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import resource
import runpy
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

_REQUEST_BYTES = 1 << 20


def _serve(connection: socket.socket) -> None:
    """Fork a process for each request until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    while True:
        size, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
        if not size:
            return
        body = bytearray()
        while len(body) < int.from_bytes(size, "big"):
            body += connection.recv(_REQUEST_BYTES)
        reading, writing = os.pipe()
        if between := os.fork():
            os.close(writing)
            # Empty if the fork ended before it wrote its process ID.
            answer = os.read(reading, 4).ljust(4, b"\0")
            os.waitpid(between, 0)
            connection.sendall(answer)
            for descriptor in (reading, *descriptors):
                os.close(descriptor)
            continue
        # This process exits, so that the caller adopts the fork.
        parent = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == parent:
            time.sleep(0.0001)
        request = json.loads(body)
        if request["start_new_session"]:
            os.setsid()
        if request["process_group"] >= 0:
            os.setpgid(0, request["process_group"])
        os.write(writing, os.getpid().to_bytes(4, "big"))
        os.close(reading)
        os.close(writing)
        connection.close()
        _run(request, descriptors)


def _run(request: Any, descriptors: Sequence[int]) -> None:
    """Run the command in this process, and exit with its status."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["cwd"])
    sys.path[:1] = [] if "-P" in request["options"] else [request["cwd"]]
    if "ignore" in request["options"]:
        warnings.simplefilter("ignore")
    if request["umask"] >= 0:
        os.umask(request["umask"])
    if files := int(request["files"] or 0):
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    module, *_ = sys.argv = request["arguments"]
    status = 1
    try:
        if module == "-c":
            sys.argv = ["-c"]
            exec(request["arguments"][1], {"__name__": "__main__"})  # noqa: S102
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
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
    gc.disable()
    import_module(sys.argv[2])
    gc.enable()
    _serve(socket.socket(fileno=int(sys.argv[1])))

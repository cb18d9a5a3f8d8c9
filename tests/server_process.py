"""A Shoal server in a separate process, for tests that send it requests or kill it, and helpers for processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tests.fork_server import Interpreter


class Server:
    """A running `shoal serve`."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def kill(self) -> None:
        """Kill the server with SIGKILL, which gives it no time to flush."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)

    def stop(self) -> int:
        """Stop the server with SIGTERM and return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def served(
    store: Path | str,
    *options: str,
    files: int = 0,
    log: Path | None = None,
    module: str = "shoal.cli",
    start_method: str = "fork",
    **environment: str,
) -> Iterator[Server]:
    """Serve a store on a free port until the block ends; `files` limits the number of open files.

    `store` is the path of an SQLite file or a value of the setting: a URL, or a shard map as JSON. Standard error is appended to
    `log`. There are no rate limits, and posts are not refused for late deliveries, which also occur on a busy machine.

    The server is a fork of a process that has imported Shoal, with cheap password hashes. With `start_method="spawn"`, it is a new
    interpreter with real hashes, which takes 0.9 seconds more processor time.
    """
    named = store if isinstance(store, str) else f"sqlite:///{store}"
    limited = ["prlimit", f"--nofile={files}"] if files else []
    command = [*limited, sys.executable, "-m", module, "--store", named, "serve", "--port", "0", *options]
    environ = {**os.environ, "SHOAL_RATE_LIMITS": "false", "SHOAL_MOST_BEHIND_SECONDS": "0", **environment}
    start = subprocess.Popen if start_method == "fork" else Interpreter
    with log.open("ab") if log else nullcontext() as written:
        process = start(command, stdout=subprocess.PIPE, stderr=written, text=True, env=environ)
    try:
        yield Server(process, first_url(process))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()


def first_url(process: subprocess.Popen[str], patience: float = 120.0) -> str:
    """Return the first URL that a server prints, which shows that it is ready."""
    assert process.stdout is not None
    until = time.monotonic() + patience
    while time.monotonic() < until:
        line = process.stdout.readline()
        if not line:
            raise AssertionError(f"the server exited with status {process.wait(60)} before it was ready")
        if found := re.search(r"https?://[^\s/]+", line):
            return found.group()
    # Otherwise a caller's `with` block would wait for it.
    process.kill()
    raise AssertionError("the server was not ready in time")


def alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> list[int]:
    """Return the ids of the child processes of a process."""
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]

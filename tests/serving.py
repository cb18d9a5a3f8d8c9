"""A served Shoal in a process of its own, for tests that speak HTTP to it or kill it, and what became of processes."""

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

from tests.forked import Forked


class Server:
    """A running `shoal serve`."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def kill(self) -> None:
        """`kill -9`: no farewell, no flush."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self) -> int:
        """Ask it to stop; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


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
    """Serve a store on a free port until the block ends; with `files` it may not open more than so many.

    A store is an SQLite file, or what the setting takes: a URL, or a shard map as JSON. The `log` is added to that file.
    There are no rate limits, and no posts are refused for late deliveries, which a busy machine has too.

    The server is a fork of a process that has imported Shoal. With `start_method="spawn"` or another `module`, it is a new
    interpreter, which takes 0.9 seconds of processor time more.
    """
    named = store if isinstance(store, str) else f"sqlite:///{store}"
    arguments = ["--store", named, "serve", "--port", "0", *options]
    environ = {**os.environ, "SHOAL_RATE_LIMITS": "false", "SHOAL_MOST_BEHIND_SECONDS": "0", **environment}
    with log.open("ab") if log else nullcontext() as written:
        process: subprocess.Popen[str]
        if start_method == "fork" and module == "shoal.cli":
            process = Forked(arguments, environ, stderr=written, files=files)
        else:
            command = [*(["prlimit", f"--nofile={files}"] if files else []), sys.executable, "-m", module, *arguments]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=written, text=True, env=environ)
    try:
        yield Server(process, first_url(process))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


def first_url(process: subprocess.Popen[str], patience: float = 120.0) -> str:
    """Return the first URL that a server prints: it is ready then."""
    assert process.stdout is not None
    until = time.monotonic() + patience
    while time.monotonic() < until:
        line = process.stdout.readline()
        if not line:
            raise AssertionError(f"the server ended with status {process.wait(5)} before it was ready")
        if found := re.search(r"https?://[^\s/]+", line):
            return found.group()
    # Otherwise the caller's `with` waits for it.
    process.kill()
    raise AssertionError("the server was not ready in time")


def alive(pid: int) -> bool:
    """Whether a process is there, and has not ended without being fetched."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> list[int]:
    """Return the processes that this one has begun and that are there."""
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]

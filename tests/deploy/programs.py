"""Third-party programs that tests run with the configuration files of `deploy/`."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PATIENCE = 60.0


def changed(text: str, *changes: tuple[str, str]) -> str:
    """Return the text of a configuration file with other names, ports or paths."""
    for before, after in changes:
        assert before in text, f"the file does not contain {before!r}"
        text = text.replace(before, after)
    return text


def program(name: str) -> str:
    """Return the path of a program. A missing program fails the test in CI and skips it elsewhere."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed")
    return found


@contextlib.contextmanager
def running(command: list[str], port: int, folder: Path) -> Iterator[None]:
    """Run a program, and wait until it accepts connections on the port."""
    environment = {**os.environ, "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        until = time.monotonic() + PATIENCE
        while not _answers(port):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.02)
        yield
    finally:
        # nginx stops its workers and exits. Caddy waits as long as clients keep connections open.
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False

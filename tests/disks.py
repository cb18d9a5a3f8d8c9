"""File systems that are small enough to fill."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(at: Path, size: str) -> Iterator[Path]:
    """Mount a tmpfs of `size` (in the format of `mount`) at a new directory. Skips the test without permission to mount."""
    at.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(at)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        if os.environ.get("CI") and os.geteuid() == 0:
            pytest.fail(f"CI cannot mount a small disk: {mounted.stderr}")
        pytest.skip(f"no permission to mount a small disk: {mounted.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)

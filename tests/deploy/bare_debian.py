"""Bare Debian directories to run commands in: overlays on the one created by `scripts/bare`, which stays unchanged."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

BARE = Path(sys.prefix, "bare")
WHEELS = Path(sys.prefix, "wheels")
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/run/wheels", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
"""Variables that make pip install from the wheels fetched by `scripts/bare`."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def needed() -> None:
    """Skip the test without a bare Debian directory; in CI, fail instead unless the kernel does not allow mounting."""
    mounting_needed()
    if (BARE / "usr/bin/python").exists():
        return
    if os.environ.get("CI"):
        pytest.fail("there is no bare Debian directory: run scripts/bare as root")
    pytest.skip("there is no bare Debian directory: run scripts/bare as root")


def mounting_needed() -> None:
    """Skip the test if the kernel does not allow mounting, as in an unprivileged container; without root, skip or fail in CI."""
    if os.geteuid() != 0:
        if os.environ.get("CI"):
            pytest.fail("only root can mount")
        pytest.skip("only root can mount")
    if refusal := _refusal():
        pytest.skip(f"this machine does not allow mounting: {refusal}")


@functools.cache
def _refusal() -> str:
    tried = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(tried, capture_output=True, text=True, check=False).stderr.strip()


@contextlib.contextmanager
def layer(folder: Path) -> Iterator[Path]:
    """Mount a private bare Debian with `/proc`, `/dev` and the wheels for pip; it is unmounted when the block ends."""
    needed()
    folder.mkdir()
    with contextlib.ExitStack() as stack:

        def mount(*words: str | Path) -> None:
            subprocess.run(["mount", *words], check=True, capture_output=True, text=True)
            stack.callback(subprocess.run, ["umount", "-l", words[-1]], check=True)

        # Changes are kept in memory: the file system of a container may itself be an overlay, which cannot be an upper layer.
        mount("-t", "tmpfs", "tmpfs", folder)
        for name in ("upper", "work", "root"):
            (folder / name).mkdir()
        places = f"lowerdir={BARE},upperdir={folder / 'upper'},workdir={folder / 'work'}"
        root = folder / "root"
        mount("-t", "overlay", "overlay", "-o", places, root)
        (root / "run/wheels").mkdir(parents=True, exist_ok=True)
        mount("--bind", WHEELS, root / "run/wheels")
        mount("-t", "proc", "proc", root / "proc")
        mount("--rbind", "/dev", root / "dev")
        yield root


def sh(
    root: Path, command: str, environment: Mapping[str, str] | None = None, *, user: str = "0:0", at: str = "/"
) -> subprocess.CompletedProcess[str]:
    """Run a shell command in a bare Debian directory."""
    inside = ["/usr/sbin/chroot", f"--userspec={user}", str(root), "/bin/sh", "-c", f"cd {at} && {command}"]
    environment = {"PATH": PATH, "HOME": "/root", **OFFLINE, **(environment or {})}
    return subprocess.run(inside, env=environment, capture_output=True, text=True, check=False, timeout=300)

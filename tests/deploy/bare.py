"""Bare Debian directories to run commands in: layers over the one that `scripts/bare` makes, which stays as it is."""

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
"""For pip, which takes what `scripts/bare` has fetched."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def needed() -> None:
    """Skip the test at a desk where no such directory can be had; in CI it fails, but where the kernel refuses it."""
    mounting_needed()
    if (BARE / "usr/bin/python").exists():
        return
    if os.environ.get("CI"):
        pytest.fail("there is no bare Debian: scripts/bare makes it, as root")
    pytest.skip("there is no bare Debian: scripts/bare makes it, as root")


def mounting_needed() -> None:
    """Skip the test where nobody may mount, as in a container without that right; and at a desk without root, which fails in CI."""
    if os.geteuid() != 0:
        if os.environ.get("CI"):
            pytest.fail("only root can mount")
        pytest.skip("only root can mount")
    if refusal := _refusal():
        pytest.skip(f"this machine lets nobody mount: {refusal}")


@functools.cache
def _refusal() -> str:
    tried = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(tried, capture_output=True, text=True, check=False).stderr.strip()


@contextlib.contextmanager
def layer(folder: Path) -> Iterator[Path]:
    """A bare Debian of one's own, with `/proc`, `/dev` and the wheels for pip mounted; it is gone when the block ends."""
    needed()
    folder.mkdir()
    with contextlib.ExitStack() as stack:

        def mount(*words: str | Path) -> None:
            subprocess.run(["mount", *words], check=True, capture_output=True, text=True)
            stack.callback(subprocess.run, ["umount", "-l", words[-1]], check=True)

        # What is written lies in memory: the file system of a container may itself be a layer.
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
    """Run a command in a shell in such a directory."""
    inside = ["/usr/sbin/chroot", f"--userspec={user}", str(root), "/bin/sh", "-c", f"cd {at} && {command}"]
    environment = {"PATH": PATH, "HOME": "/root", **OFFLINE, **(environment or {})}
    return subprocess.run(inside, env=environment, capture_output=True, text=True, check=False, timeout=300)

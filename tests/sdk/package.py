"""The TypeScript package: its tools, which `make setup` installs, and its build, which all test files share."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scripts.openapi import document

ROOT = Path(__file__).resolve().parents[2]
SDK = ROOT / "sdk" / "typescript"
NODE = Path(sys.executable).parent / "node"


def node(script: str | Path, *arguments: str | Path, cwd: Path = SDK, **variables: str) -> str:
    """Run a script with Node and return its output. Fail the test if the script fails."""
    environment = {"PATH": f"{NODE.parent}:/usr/bin:/bin", "HOME": "/tmp", "CI": "true", **variables}  # noqa: S108
    ended = subprocess.run(
        [NODE, script, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def need(package: Path) -> None:
    """Skip the test if the packages of a directory are not installed; in CI, fail it."""
    if not (package / "node_modules").exists() or not NODE.exists():
        reason = f"the npm packages of {package.relative_to(ROOT)} are not installed: make setup"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def build(folder: Path) -> None:
    """Generate the types and compile the package into `dist`, without declarations. `folder` is for a temporary file.

    Without changes since the last build, nothing is written: another worker may be reading the files.
    """
    need(SDK)
    description = folder / "openapi.json"
    description.write_text(document())
    build_folder = SDK / "build"
    build_folder.mkdir(exist_ok=True)
    with (build_folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sources = (path for folder in ("src", "scripts") for path in sorted((SDK / folder).rglob("*.*")))
        written = (path.read_bytes() for path in sources if path.name != "schema.ts")
        state = hashlib.sha256(b"\0".join([description.read_bytes(), *written])).hexdigest()
        stamp = build_folder / "state"
        if stamp.exists() and stamp.read_text() == state and (SDK / "dist" / "index.js").exists():
            return
        node("scripts/generate.mjs", SHOAL_OPENAPI=str(description))
        node("scripts/compile.mjs")
        stamp.write_text(state)


def bundle(target: Path, entry: Path | str, *options: str) -> Path:
    """Bundle a module for browsers."""
    node("node_modules/esbuild/bin/esbuild", entry, "--bundle", "--minify", f"--outfile={target}", *options)
    return target


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """Serve the files of a directory on a free port until the block ends, and yield the URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(60)

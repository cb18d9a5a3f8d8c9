"""The built wheel in a separate environment, as users install it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.server_process import first_url

ROOT = Path(__file__).resolve().parent.parent


def bare() -> dict[str, str]:
    """Return environment variables without references to the checkout."""
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


class Installed(NamedTuple):
    """A virtual environment with the wheel, and an empty working directory."""

    programs: Path
    folder: Path

    @property
    def python(self) -> str:
        """Return the path of the interpreter."""
        return str(self.programs / "python")

    def run(self, *command: str) -> str:
        """Run a program of the environment in the working directory, and return its output."""
        return subprocess.run(
            [self.programs / command[0], *command[1:]],
            cwd=self.folder,
            env=bare(),
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    @contextmanager
    def serving(self, *command: str) -> Iterator[str]:
        """Run a server program of the environment until the block ends, and yield its URL."""
        with subprocess.Popen(
            [self.programs / command[0], *command[1:]], cwd=self.folder, env=bare(), stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield first_url(process, patience=120.0)
            finally:
                process.kill()


@contextmanager
def _made_once(tmp_path_factory: pytest.TempPathFactory, name: str) -> Iterator[tuple[Path, bool]]:
    """Yield a directory that all workers of a test run share, and whether the caller has to fill it. Other workers wait."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, done = root / name, root / f"{name}.done"
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder.mkdir(exist_ok=True)
        yield folder, not done.exists()
        done.touch()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the wheel and of the source distribution that it was built from."""
    for tool in ("build", "hatchling"):
        if find_spec(tool) is None:
            if os.environ.get("CI"):
                pytest.fail(f"{tool} is not installed")
            pytest.skip(f"{tool} is not installed: pip install {tool}")
    with _made_once(tmp_path_factory, "dist") as (folder, is_first):
        if is_first:
            command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return a virtual environment with the wheel. A path file makes the other packages of this environment importable."""
    with _made_once(tmp_path_factory, "elsewhere") as (folder, is_first):
        if is_first:
            _install(next(built.glob("*.whl")), folder)
    return Installed(folder / "venv" / "bin", tmp_path_factory.mktemp("work"))


def _install(wheel: Path, folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(pip, check=True, capture_output=True, text=True)
    ours = Path(pytest.__file__).parents[1]
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    # Python ignores path files in a directory that a path file names, so the path file of the checkout has no effect.
    (site / "others.pth").write_text(f"{ours}\n")

"""The built wheel in an environment of its own: what readers of the pages have."""

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

from tests.serving import first_url

ROOT = Path(__file__).resolve().parent.parent


def bare() -> dict[str, str]:
    """An environment that leads nowhere else."""
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


class Installed(NamedTuple):
    """An environment that has the wheel, and an empty folder to work in."""

    programs: Path
    folder: Path

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.programs / "python")

    def run(self, *command: str) -> str:
        """Run one of its programs there; return its output."""
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
        """Run one of its programs until the block ends; give the address that it serves at."""
        with subprocess.Popen(
            [self.programs / command[0], *command[1:]], cwd=self.folder, env=bare(), stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield first_url(process, patience=120.0)
            finally:
                process.kill()


@contextmanager
def _made_once(tmp_path_factory: pytest.TempPathFactory, name: str) -> Iterator[tuple[Path, bool]]:
    """Yield a folder that all workers of a test run share, and whether the caller has to fill it. Other workers wait."""
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
    """The folder with the wheel and the source distribution that it was built from."""
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
    """An environment with the wheel. Other packages are those of this one, which a path file makes importable."""
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
    # Path files in a folder that a path file names are not read: the checkout's own one has no effect.
    (site / "others.pth").write_text(f"{ours}\n")

"""The built wheel in an environment of its own: what readers of the pages have."""

from __future__ import annotations

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


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the source distribution that it was built from."""
    for tool in ("build", "hatchling"):
        if find_spec(tool) is None:
            if os.environ.get("CI"):
                pytest.fail(f"{tool} is not installed")
            pytest.skip(f"{tool} is not installed: pip install {tool}")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with the wheel. Other packages are those of this one, which a path file makes importable."""
    folder = tmp_path_factory.mktemp("elsewhere")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    wheel = next(built.glob("*.whl"))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(pip, check=True, capture_output=True, text=True)
    ours = Path(pytest.__file__).parents[1]
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    # Path files in a folder that a path file names are not read: the checkout's own one has no effect.
    (site / "others.pth").write_text(f"{ours}\n")
    work = folder / "work"
    work.mkdir()
    return Installed(python.parent, work)

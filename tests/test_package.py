"""The package works without the checkout: built, installed elsewhere, and used as the README says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests import pages
from tests.serving import first_url

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


class Installed(NamedTuple):
    """An environment that has the wheel, and an empty folder to work in."""

    programs: Path
    folder: Path

    def run(self, *command: str) -> str:
        """Run one of its programs there; return its output."""
        return subprocess.run(
            [self.programs / command[0], *command[1:]],
            cwd=self.folder,
            env=_bare(),
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    @contextmanager
    def serving(self, *command: str) -> Iterator[str]:
        """Run one of its programs until the block ends; give the address that it serves at."""
        with subprocess.Popen(
            [self.programs / command[0], *command[1:]], cwd=self.folder, env=_bare(), stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield first_url(process, patience=120.0)
            finally:
                process.kill()


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
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


def test_every_file_of_the_package_is_in_the_wheel_and_in_the_source_distribution(built: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "src/shoal"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    files = {name for name in listed.split() if (ROOT / name).exists()}
    assert "src/shoal/py.typed" in files
    wheel = next(built.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        assert files <= {f"src/{name}" for name in archive.namelist()}
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        assert files <= {name.partition("/")[2] for name in archive.getnames()}
    assert wheel.name.startswith(f"shoal-{PROJECT['version']}-")


def test_the_installed_package_is_the_wheel_and_not_the_checkout(installed: Installed) -> None:
    shown = installed.run(
        "python", "-c", "import shoal, sys; print(shoal.__file__, shoal.__version__, *sys.path, sep='\\n')"
    )
    file, version, *path = shown.splitlines()
    assert file.startswith(str(installed.programs.parent))
    assert version == PROJECT["version"]
    assert str(ROOT / "src") not in path
    assert str(ROOT) not in path


def test_an_installed_demo_answers(installed: Installed) -> None:
    with installed.serving("shoal", "demo", "--members", "10", "--days", "1", "--port", "0") as url:
        assert httpx.get(f"{url}/ready").status_code == 200
        assert httpx.get(f"{url}/api/v1/instance").json()["stats"]["user_count"] == 10
        assert httpx.get(f"{url}/docs").status_code == 200


def test_the_scripts_of_the_readme_run_beside_the_installed_package(installed: Installed) -> None:
    assert installed.run("python", "-c", pages.code(pages.README, "python", "Shoal.open")) == pages.PROMISED
    pages.type_commands(installed.programs, installed.folder)
    script = pages.code(pages.README, "python", "mastodon")
    with installed.serving("shoal", "serve", "--port", "0") as url:
        shown = installed.run("python", "-c", script.replace("http://127.0.0.1:8500", url))
    assert "Hello from a client" in shown


def test_the_version_is_that_of_the_newest_release_in_the_changelog() -> None:
    releases = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(PROJECT['version'])} \(\d{{4}}-\d\d-\d\d\)", releases[1])


def _bare() -> dict[str, str]:
    """An environment that leads nowhere else."""
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}

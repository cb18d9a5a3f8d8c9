"""The package works without the checkout: built, installed elsewhere, and used as the README documents."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import httpx
from packaging.requirements import Requirement

from tests import doc_snippets
from tests.wheel import Installed

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_wheel_and_source_distribution_contain_every_package_file(built: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = {name for name in listed.split() if (ROOT / name).exists()}
    assert {"src/shoal/py.typed", "src/shoal_demo/photos/CREDITS.md"} <= files
    files |= {"src/shoal/sync/_generated.py", "src/shoal/library/_generated.py"}
    wheel = next(built.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        assert files <= {f"src/{name}" for name in archive.namelist()}
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        assert files <= {name.partition("/")[2] for name in archive.getnames()}
    assert wheel.name.startswith(f"shoal-{PROJECT['version']}-")


def test_installed_package_is_loaded_from_wheel_and_not_from_checkout(installed: Installed) -> None:
    shown = installed.run(
        "python", "-c", "import shoal, sys; print(shoal.__file__, shoal.__version__, *sys.path, sep='\\n')"
    )
    file, version, *path = shown.splitlines()
    assert file.startswith(str(installed.programs.parent))
    assert version == PROJECT["version"]
    assert str(ROOT / "src") not in path
    assert str(ROOT) not in path


def test_shoal_demo_of_installed_package_serves_requests(installed: Installed) -> None:
    demo = installed.serving("shoal", "demo", "--members", "10", "--days", "1", "--port", "0")
    # A test machine may be slow.
    with demo as url, httpx.Client(base_url=url, timeout=60) as client:
        assert client.get("/ready").status_code == 200
        assert client.get("/api/v1/instance").json()["stats"]["user_count"] == 10
        assert client.get("/docs").status_code == 200


def test_readme_scripts_run_with_installed_package(installed: Installed) -> None:
    assert (
        installed.run("python", "-c", doc_snippets.code(doc_snippets.README, "python", "Shoal.open"))
        == doc_snippets.PROMISED
    )
    doc_snippets.type_commands(installed.programs, installed.folder)
    script = doc_snippets.code(doc_snippets.README, "python", "mastodon")
    with installed.serving("shoal", "serve", "--port", "0") as url:
        shown = installed.run("python", "-c", script.replace("http://127.0.0.1:8500", url))
    assert "Hello from a client" in shown


def test_package_version_equals_newest_release_in_changelog() -> None:
    releases = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(PROJECT['version'])} \(\d{{4}}-\d\d-\d\d\)", releases[1])


def test_security_floors_page_equals_package_requirements() -> None:
    page = (ROOT / "docs/decisions/dependencies.md").read_text().partition("## Security floors")[2]
    rows = re.findall(r"^\| ([\w, -]+?)(?: \(extra `dev`\))? \| ([\d., ]+) \|", page, re.MULTILINE)
    listed = {
        name: floor for names, floors in rows for name, floor in zip(names.split(", "), floors.split(", "), strict=True)
    }
    required = [Requirement(line) for line in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]]
    floors = {each.name: bound.version for each in required for bound in each.specifier if bound.operator == ">="}
    assert {"pillow", "starlette", "pytest"} <= listed.keys()
    assert listed == {name: floors[name] for name in listed}

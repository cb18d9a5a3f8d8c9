"""The environment that each Makefile target installs: runtime targets install less than development targets."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.longest_test_files import LONGEST

ROOT = Path(__file__).resolve().parent.parent


def planned(tmp_path: Path, *arguments: str) -> str:
    """Return the commands that make would run without an existing environment."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    command = ["make", "--no-print-directory", "-n", f"VENV={tmp_path / 'venv'}", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("target", ["demo", "serve"])
def test_make_demo_and_serve_install_no_development_tools_or_engines(tmp_path: Path, target: str) -> None:
    steps = planned(tmp_path, target)
    assert "scripts/setup" in steps
    assert "scripts/engines" not in steps
    assert "scripts/clients" not in steps
    assert f"{tmp_path / 'venv'} dev" not in steps


def test_make_docs_without_environment_installs_docs_extra_and_builds_site(tmp_path: Path) -> None:
    steps = planned(tmp_path, "docs")
    assert f"scripts/setup {tmp_path / 'venv'} docs" in steps
    assert f"{tmp_path / 'venv'}/bin/mkdocs build" in steps
    assert "scripts/engines" not in steps
    assert f"{tmp_path / 'venv'} dev" not in steps


@pytest.mark.parametrize("target", ["setup", "check", "audit", "quick", "test", "test-all", "coverage", "bench"])
def test_make_development_targets_install_dev_extra_into_ready_environment(tmp_path: Path, target: str) -> None:
    steps = planned(tmp_path, target)
    assert f"{tmp_path / 'venv'} dev" in steps
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / ".ready").touch()
    assert f"{tmp_path / 'venv'} dev" in planned(tmp_path, target)


@pytest.mark.parametrize("target", ["ready", "setup", "check", "docs", "cluster", "shots"])
def test_makefile_targets_generate_missing_sync_library(tmp_path: Path, target: str) -> None:
    assert "-m scripts.sync_library" in planned(tmp_path, target, f"SYNC={tmp_path / '_generated.py'}")


def test_make_check_audits_installed_packages(tmp_path: Path) -> None:
    assert "-m scripts.audit" in planned(tmp_path, "check")


def test_make_port_variable_sets_port_of_demo_and_serve(tmp_path: Path) -> None:
    for target in ("demo", "serve"):
        assert f"shoal {target} --port 8500" in planned(tmp_path, target)
        assert f"shoal {target} --port 8600" in planned(tmp_path, target, "PORT=8600")


def test_runtime_dependencies_contain_no_development_tools() -> None:
    needed = " ".join(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    for tool in ("pytest", "playwright", "nodejs", "mypy", "ruff", "schemathesis", "toot"):
        assert tool not in needed


def test_test_runner_list_of_longest_test_files_names_existing_files() -> None:
    assert [name for name in LONGEST if not (ROOT / name).is_file()] == []

"""The list of tests in the second tier."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scripts import tiers as script
from tests.tiers import DEEP, KEPT

ROOT = Path(__file__).resolve().parent.parent


def test_second_tier_list_names_existing_tests() -> None:
    files = sorted({name.partition("::")[0] for name in (*DEEP, *KEPT)})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", *files]
    environ = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    listed = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in (*DEEP, *KEPT):
        assert any(line.startswith(name) for line in listed), name


def test_contributing_page_lists_second_tier_tests() -> None:
    text = script.PAGE.read_text("utf-8")
    assert script.page(text) == text, "run python -m scripts.tiers"

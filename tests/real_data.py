"""The folder of real data for some tests, next to the repository. Its README describes the data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def real_data(*names: str) -> Path:
    """Return the folder if it has all of these files. Otherwise skip the test, or fail in CI if the folder exists."""
    missing = [name for name in names if not (DATA / name).exists()]
    if missing and os.environ.get("CI") and DATA.exists():
        pytest.fail(f"{DATA} exists but has no {missing[0]}")
    if missing:
        pytest.skip(f"real data is missing from {DATA}")
    return DATA

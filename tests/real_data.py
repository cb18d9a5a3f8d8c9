"""Where the real data of some tests is: beside the repository. Its README says what it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def real_data(*names: str) -> Path:
    """The folder, if all of these are in it. Otherwise the test is skipped at a desk; in CI it fails if the folder is there."""
    missing = [name for name in names if not (DATA / name).exists()]
    if missing and os.environ.get("CI") and DATA.exists():
        pytest.fail(f"{DATA} is there, but not its {missing[0]}")
    if missing:
        pytest.skip(f"the real data is not at {DATA}")
    return DATA

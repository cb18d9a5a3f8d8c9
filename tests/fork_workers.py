"""The collected tests, for `fork_template.py`: workers of pytest-xdist that are forked from it do not import them again."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

# The workers report what fails.
os.environ.pop("PYTEST_ADDOPTS", None)
with Path(os.devnull).open("w") as nothing, redirect_stdout(nothing):
    pytest.main(["--collect-only", "-qq", *sys.argv[3:]])
# Only the modules are needed.
gc.unfreeze()

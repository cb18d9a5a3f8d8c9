"""A check for test runs without engines."""

from __future__ import annotations

import os

import pytest


def wanted() -> None:
    """Skip the test in a run without engines, such as `make quick`."""
    if os.environ.get("SHOAL_ENGINES") == "none":
        pytest.skip("this run has no engines")

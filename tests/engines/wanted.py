"""Whether tests that need an engine are wanted."""

from __future__ import annotations

import os

import pytest


def wanted() -> None:
    """Skip the test in a run without engines, which is `make quick`."""
    if os.environ.get("SHOAL_ENGINES") == "none":
        pytest.skip("this run is without engines")

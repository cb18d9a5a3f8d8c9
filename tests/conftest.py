"""Fixtures for every suite."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.engines.ending import at_the_end
from tests.examples import examples
from tests.side_by_side import LONGEST
from tests.stores import BACKENDS, DURABLE, Backend
from tests.wheel import built, installed

__all__ = ["built", "installed"]

# A slow machine is no error. In CI the examples are the same each time, so that a failure is of the change at hand; the
# deep run looks for new ones.
settings.register_profile("desk", deadline=None, max_examples=examples(50))
settings.register_profile("ci", deadline=None, max_examples=examples(50), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") and "SHOAL_EXAMPLES" not in os.environ else "desk")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Side by side, the files that take longest come first."""
    if hasattr(config, "workerinput"):
        places = {name: place for place, name in enumerate(LONGEST)}
        items.sort(key=lambda item: places.get(item.location[0], len(LONGEST)))


def pytest_collection_finish() -> None:
    """Spare the collector what the tests are made of: looking through it took a tenth of their processor time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Engines end with the session."""
    at_the_end.close()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Every graph there is, one after the other, empty."""
    return Backend(request.param, tmp_path)


@pytest.fixture(params=DURABLE)
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Every graph that outlives its process, one after the other, empty."""
    return Backend(request.param, tmp_path)

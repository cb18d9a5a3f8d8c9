"""Fixtures for every suite."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from hypothesis import settings
from scripts import sync_library

from shoal.commands import authentication
from tests.durations import Durations
from tests.engines.ending import at_the_end
from tests.engines.shared import offer
from tests.examples import examples
from tests.side_by_side import LONGEST
from tests.stores import BACKENDS, DURABLE, Backend
from tests.tiers import is_deep
from tests.wheel import built, installed

__all__ = ["built", "installed"]

REAL_HASHES = authentication._hasher, authentication._NOBODY

# A slow machine is no error. In CI the examples are the same each time, so that a failure is of the change at hand; the
# second tier looks for new ones.
settings.register_profile("desk", deadline=None, max_examples=examples(25, full=50))
settings.register_profile("ci", deadline=None, max_examples=examples(25, full=50), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") and "SHOAL_EXAMPLES" not in os.environ else "desk")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of the second tier. Workers begin with the files that take longest."""
    for item in items:
        if is_deep(item):
            item.add_marker(pytest.mark.deep)
    if hasattr(config, "workerinput"):
        places = {name: place for place, name in enumerate(LONGEST)}
        items.sort(key=lambda item: places.get(item.location[0], len(LONGEST)))


def pytest_configure(config: pytest.Config) -> None:
    """Measure the tests, and have the workers share engines."""
    if not sync_library.TARGET.exists():
        raise pytest.UsageError(
            f"{sync_library.TARGET.relative_to(sync_library.ROOT)} is missing: run {sync_library.COMMAND}"
        )
    # Collection makes objects that live as long as the process; looking through them took a seventh of its processor time.
    gc.disable()
    config.pluginmanager.register(Durations())
    if not hasattr(config, "workerinput") and config.getoption("tx", None):
        offer()


def pytest_collection_finish() -> None:
    """Spare the collector what the tests are made of: looking through it took a tenth of their processor time."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Engines end with the session."""
    at_the_end.close()


@pytest.fixture(scope="session", autouse=True)
def _cheap_hashes() -> Iterator[None]:
    """Hash passwords at no cost in this process: a real hash takes a fifth of a second of processor time, by design."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(authentication, "_hasher", cheap)
        patch.setattr(authentication, "_NOBODY", cheap.hash("nobody's"))
        yield


@pytest.fixture
def real_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords as servers do, where that is what is tested."""
    monkeypatch.setattr(authentication, "_hasher", REAL_HASHES[0])
    monkeypatch.setattr(authentication, "_NOBODY", REAL_HASHES[1])


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Every graph there is, one after the other, empty."""
    return Backend(request.param, tmp_path)


@pytest.fixture(params=DURABLE)
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Every graph that outlives its process, one after the other, empty."""
    return Backend(request.param, tmp_path)

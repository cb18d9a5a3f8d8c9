"""Fixtures for every suite."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.unraisableexception import gc_collect_iterations_key
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, settings

from scripts import sync_library
from shoal import gazetteer
from shoal.commands import authentication
from shoal.gazetteer import Gazetteer
from tests import fork_server
from tests.cheap_hashes import REAL_HASHES, make_hashes_cheap
from tests.cheap_starts import make_starts_cheap
from tests.durations import Durations
from tests.engines.patience import be_patient
from tests.engines.shared_engines import offer
from tests.engines.shutdown import at_the_end
from tests.example_counts import examples
from tests.fork_server import Forking
from tests.longest_test_files import LONGEST
from tests.stores import BACKENDS, DURABLE, Backend
from tests.tiers import is_deep
from tests.towns import small
from tests.unclosed import name_creators
from tests.wheel import built, installed

__all__ = ["built", "installed"]

# There is no deadline because a slow machine is not an error. CI runs the same examples each time, so that a failure comes from
# the change under test; the second tier draws new examples.
_PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("desk", max_examples=examples(25, full=50), **_PATIENT)
settings.register_profile("ci", max_examples=examples(25, full=50), derandomize=True, **_PATIENT)
settings.load_profile("ci" if os.environ.get("CI") and "SHOAL_EXAMPLES" not in os.environ else "desk")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of the second tier, and sort the tests of a worker so that the longest files run first."""
    for item in items:
        if is_deep(item):
            item.add_marker(pytest.mark.deep)
    if hasattr(config, "workerinput"):
        places = {name: place for place, name in enumerate(LONGEST)}
        items.sort(key=lambda item: places.get(item.location[0], len(LONGEST)))


def pytest_configure(config: pytest.Config) -> None:
    """Register the report of durations, and offer shared engines to the workers."""
    if not sync_library.TARGET.exists():
        raise pytest.UsageError(
            f"{sync_library.TARGET.relative_to(sync_library.ROOT)} is missing: run {sync_library.COMMAND}"
        )
    # A server that shares two processors with ten other processes may take longer than the five seconds that httpx allows. The
    # same holds for engines.
    DEFAULT_TIMEOUT_CONFIG.connect = DEFAULT_TIMEOUT_CONFIG.read = DEFAULT_TIMEOUT_CONFIG.write = 60.0
    be_patient()
    make_hashes_cheap()
    make_starts_cheap()
    name_creators()
    subprocess.Popen = Forking  # type: ignore[misc]
    # Collected tests live as long as the process. Garbage collection took a seventh of the processor time of their collection.
    gc.disable()
    # Five collections at the end of a worker take half a second.
    config.stash[gc_collect_iterations_key] = 2
    config.pluginmanager.register(Durations())
    if not hasattr(config, "workerinput") and config.getoption("tx", None):
        offer()
        # Coverage has to start before the modules are imported.
        if not config.getoption("cov_source", None):
            fork_server.worker_arguments = config.args


def pytest_collection_finish() -> None:
    """Exempt the collected tests from garbage collection, which took a tenth of their processor time, and collect seldom."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Stop the engines at the end of the session."""
    at_the_end.close()


@pytest.fixture(scope="session", autouse=True)
def _no_towns() -> Iterator[None]:
    """Show places as coordinates in this process, whether or not the names of towns are installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gazetteer, "installed", lambda: None)
        yield


@pytest.fixture
def towns(monkeypatch: pytest.MonkeyPatch) -> Gazetteer:
    """Install a few towns for a test."""
    made = small()
    monkeypatch.setattr(gazetteer, "installed", lambda: made)
    return made


@pytest.fixture
def real_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the real password hashes for a test of hashing."""
    monkeypatch.setattr(authentication, "_hasher", REAL_HASHES[0])
    monkeypatch.setattr(authentication, "_DUMMY_HASH", REAL_HASHES[1])


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Return each graph backend in turn, empty."""
    return Backend(request.param, tmp_path)


@pytest.fixture(params=DURABLE)
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Return each persistent graph backend in turn, empty."""
    return Backend(request.param, tmp_path)

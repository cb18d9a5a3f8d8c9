"""Networks that the suites of the front end share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest

from shoal.api.http.limits.listeners import USUAL
from shoal.core.ids import IdMaker
from tests.api.world import World, served, world


@pytest.fixture
def stepwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give ids in the order of the calls: within one millisecond the shard would decide it."""
    ticks = count(time.time_ns() // 1_000_000)
    monkeypatch.setattr("shoal.wiring.network.IdMaker", partial(IdMaker, lambda: next(ticks)))


@pytest.fixture
def shoal() -> Iterator[World]:
    """A network of its own."""
    with world() as made:
        yield made


@pytest.fixture(scope="module")
def shared() -> Iterator[World]:
    """A network that the tests of a module share: each brings members of its own."""
    with world() as made:
        yield made


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a server that the tests of a module share."""
    # A client of streams that is closed waits for the next sign of life.
    with served(USUAL._replace(thump=0.3)) as address:
        yield address

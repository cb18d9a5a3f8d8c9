"""Fixtures for tests of whole networks. Each id gets a new millisecond, as ids of the same millisecond are ordered by shard."""

from __future__ import annotations

import time
from functools import partial
from itertools import count

import pytest

from shoal.core.ids import IdMaker


@pytest.fixture(autouse=True)
def _every_id_has_its_own_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count(time.time_ns() // 1_000_000)
    monkeypatch.setattr("shoal.app.network.IdMaker", partial(IdMaker, lambda: next(ticks)))


@pytest.fixture(autouse=True)
def _no_backpressure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept posts regardless of delivery lag: tests post faster than a busy machine delivers."""
    monkeypatch.setattr("shoal.app.outboxes.refusal_limit", lambda settings: 0.0)

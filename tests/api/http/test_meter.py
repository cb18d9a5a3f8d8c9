"""Figures of requests: counted, summed, and forgotten after ten minutes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.http.meter import Meter, Stages


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_requests_are_counted_by_route_and_in_slots_of_ten_seconds() -> None:
    clock = Clock()
    meter = Meter(clock)
    for n in range(100):
        meter.note("GET /", 500 if n < 2 else 200, Stages(0.0, float(n + 1), 0.0), "r")
    clock.now += 10
    meter.note("GET /explore", 503, Stages(1.0, 1.0, 1.0), "r")
    history = meter.history()
    assert [(slot.number, slot.failed, slot.refused) for slot in history[-2:]] == [(100, 2, 0), (1, 1, 1)]
    assert len(history) == 60
    first = meter.routes()[0]
    assert (first.route, first.number, first.failed) == ("GET /", 100, 2)
    assert first.p50 == pytest.approx(50, rel=0.2)
    assert first.p99 == pytest.approx(99, rel=0.2)


def test_ten_minutes_later_nothing_is_left_but_what_was_slow() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.note("GET /", 200, Stages(10.0, 300.0, 5.0), "abc")
    clock.now += 601
    assert meter.routes() == []
    assert sum(slot.number for slot in meter.history()) == 0
    assert [(one.route, one.request_id, one.stages.total) for one in meter.slow] == [("GET /", "abc", 315.0)]


@given(st.lists(st.floats(0.001, 1e7), min_size=1, max_size=60))
def test_a_percentile_is_right_to_a_fifth(times: list[float]) -> None:
    meter = Meter(Clock())
    for ms in times:
        meter.note("GET /", 200, Stages(0.0, ms, 0.0), "r")
    found = meter.routes()[0]
    exact = sorted(times)[(len(times) + 1) // 2 - 1]
    bounded = min(max(exact, 0.1), 0.1 * 1.2**79)
    assert bounded / 1.21 <= found.p50 <= bounded * 1.21

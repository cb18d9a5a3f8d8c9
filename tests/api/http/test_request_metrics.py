"""Request metrics: counts and latencies of the last ten minutes, and totals since process start."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.observability.requests import EDGES_MS, Meter, Stages


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_request_metrics_are_grouped_by_route_and_ten_second_slots() -> None:
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


def test_request_metrics_older_than_ten_minutes_are_dropped_except_slow_requests() -> None:
    clock = Clock()
    meter = Meter(clock, slow_ms=300.0)
    meter.note("GET /", 200, Stages(10.0, 300.0, 5.0), "abc")
    meter.note("GET /", 200, Stages(10.0, 200.0, 5.0), "quick")
    clock.now += 601
    assert meter.routes() == []
    assert sum(slot.number for slot in meter.history()) == 0
    assert [(one.route, one.request_id, one.stages.total) for one in meter.slow] == [("GET /", "abc", 315.0)]


@given(st.lists(st.floats(0.001, 1e7), min_size=1, max_size=60))
def test_request_metrics_percentile_error_is_at_most_21_percent(times: list[float]) -> None:
    meter = Meter(Clock())
    for ms in times:
        meter.note("GET /", 200, Stages(0.0, ms, 0.0), "r")
    found = meter.routes()[0]
    exact = sorted(times)[(len(times) + 1) // 2 - 1]
    # A step is a twelfth of a power of ten: 1.2115 times as long as the one before.
    bounded = min(max(exact, 0.1), 0.1 * 10 ** (79 / 12))
    assert bounded / 1.212 <= found.p50 <= bounded * 1.212


def noted(meter: Meter, route: str, status: int, *milliseconds: float) -> None:
    for each in milliseconds:
        meter.note(route, status, Stages(0.0, each, 0.0), "-")


def test_request_metrics_totals_are_cumulative() -> None:
    clock = Clock()
    meter = Meter(clock)
    for _ in range(200):
        noted(meter, "GET /", 200, 3.0)
        noted(meter, "POST /", 503, 5.0)
        clock.now += 10
    assert [slot.number for slot in meter.history()] == [2] * 59 + [0]
    assert {one.route: one.number for one in meter.routes()} == {"GET /": 59, "POST /": 59}
    totals = meter.totals()
    assert totals["GET /"].statuses == {200: 200}
    assert totals["POST /"].statuses == {503: 200}
    assert totals["GET /"].milliseconds == 600.0
    assert sum(totals["GET /"].steps) == 200
    noted(meter, "GET /", 404, 3.0)
    assert meter.totals()["GET /"].statuses == {200: 200, 404: 1}
    assert totals["GET /"].statuses == {200: 200}


def test_request_metrics_latency_falls_into_correct_histogram_bucket() -> None:
    for place, edge in enumerate(EDGES_MS):
        meter = Meter()
        noted(meter, "GET /", 200, edge * 0.98)
        noted(meter, "GET /", 200, edge * 1.02)
        steps = meter.totals()["GET /"].steps
        assert (steps[place], steps[place + 1]) == (1, 1)
    meter = Meter()
    noted(meter, "GET /", 200, 0.0, 0.05, 1e6)
    steps = meter.totals()["GET /"].steps
    assert (steps[0], steps[-1], sum(steps)) == (2, 1, 3)


def test_request_metrics_count_5xx_as_failed_and_429_and_503_as_refused() -> None:
    meter = Meter(Clock())
    for status in (200, 404, 429, 500, 503):
        noted(meter, "GET /", status, 2.0)
    (*_, slot) = meter.history()
    assert (slot.number, slot.failed, slot.refused) == (5, 2, 2)
    assert 1.8 < slot.p50 < 2.3

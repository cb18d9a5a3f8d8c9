"""Pauses of the event loop and of garbage collection are counted; the longest is reported for a minute."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest

from shoal.monitoring.collectors import PauseTimes, garbage_watched, loop_watched, pauses_watched
from shoal.observability.metrics import Families
from tests.async_runner import eventually, in_loop


def test_longest_event_loop_pause_metric_is_reported_for_a_minute() -> None:
    pauses = PauseTimes()
    for now, seconds in ((0.0, 0.003), (10.0, 0.05), (20.0, 0.02), (30.0, 0.02), (40.0, 0.001)):
        pauses.note(seconds, now)
    told = [pauses.longest(now) for now in (40.0, 69.9, 70.0, 89.9, 90.0, 100.0)]
    assert told == [0.05, 0.05, 0.02, 0.02, 0.001, 0.0]


def test_event_loop_pause_metric_counts_pauses_by_duration() -> None:
    pauses = PauseTimes()
    for seconds in (0.0005, 0.002, 0.01, 0.0101, 3.0):
        pauses.note(seconds, time.perf_counter())
    families = Families()
    pauses.add_to(families, "shoal_loop_delay_seconds", "shoal_loop_delay_longest_seconds")
    told = {(one.name, one.labels.get("le")): one.value for metric in families.made() for one in metric.samples}
    name = "shoal_loop_delay_seconds"
    assert [told[f"{name}_bucket", edge] for edge in ("0.001", "0.0025", "0.01", "0.025", "2.5", "+Inf")] == [
        1,
        2,
        3,
        4,
        4,
        5,
    ]
    assert told[f"{name}_sum", None] == pytest.approx(3.0226)
    assert told["shoal_loop_delay_longest_seconds", None] == 3.0


@in_loop
async def test_event_loop_delay_of_blocked_loop_is_measured() -> None:
    delays = PauseTimes()
    async with loop_watched(delays):
        await asyncio.sleep(0.06)
        time.sleep(0.2)  # noqa: ASYNC251  # this is what is measured

        async def seen() -> bool:
            return delays.longest(time.perf_counter()) >= 0.17

        await eventually(seen, answer=True)


def test_garbage_collection_pause_is_measured_and_callback_removed() -> None:
    pauses = PauseTimes()
    many = [[] for _ in range(200_000)]  # type: ignore[var-annotated]
    others = [*gc.callbacks]
    with garbage_watched(pauses):
        began = time.perf_counter()
        gc.collect()
        took = time.perf_counter() - began
    longest = pauses.longest(time.perf_counter())
    assert took / 2 < longest <= took
    del many
    assert gc.callbacks == others


@in_loop
async def test_pause_monitoring_measures_event_loop_and_garbage_collection() -> None:
    async with pauses_watched() as pauses:
        gc.collect()
        time.sleep(0.05)  # noqa: ASYNC251  # as above

        async def seen() -> bool:
            now = time.perf_counter()
            return pauses.loop.longest(now) > 0 and pauses.garbage.longest(now) > 0

        await eventually(seen, answer=True)

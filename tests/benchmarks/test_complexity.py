"""The newest k of many lists in three ways, and the page of costs as a network grows."""

from __future__ import annotations

import asyncio
import sqlite3
import time
import weakref
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks import growth
from benchmarks.complexity import opened
from benchmarks.complexity_page import TABLES, Curves, rendered
from benchmarks.growth import Meter
from benchmarks.measure import Figure
from benchmarks.results import Machine, Result, Results
from benchmarks.top_k import BATCH, Lists, by_bucket_sort, by_heap, ours, top_buckets
from tests.async_runner import in_loop

MACHINE = Machine("a processor", 2, 24, "6.18", "3.11.7", "2.4.6", "3.40.1")
SIZES = (100, 1_000)


@pytest.mark.parametrize(("lists", "entries", "k"), [(1, 3, 10), (7, 10, 10), (2 * BATCH + 1, 4, 10), (40, 30, 25)])
@in_loop
async def test_benchmark_list_merge_returns_equal_entries_with_all_three_algorithms(
    lists: int, entries: int, k: int
) -> None:
    made = Lists(lists, entries)
    wanted = sorted((time for times in made.newest(range(lists), entries) for time in times), reverse=True)[:k]
    assert await ours(made, k) == await by_heap(made, k) == await by_bucket_sort(made, k) == wanted


@in_loop
async def test_benchmark_list_merge_reads_few_entries_of_each_list() -> None:
    made = Lists(3 * BATCH, 10)
    await ours(made, 10)
    ours_read, made.read = made.read, 0
    await by_bucket_sort(made, 10)
    assert ours_read <= 2 * len(made) + 10 * 10
    assert made.read == 10 * len(made)


def test_benchmark_bucket_sort_candidates_include_all_newest_entries_and_few_older() -> None:
    times = list(range(1_000))
    found = top_buckets(times, 10)
    assert set(range(990, 1_000)) <= set(found)
    assert len(found) < 40
    assert top_buckets([5, 5, 5], 10) == [5, 5, 5]


def test_benchmark_sqlite_work_meter_counts_rows_and_virtual_machine_steps_independent_of_time() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as store:
        store.execute("CREATE TABLE number (n)")
        meter = Meter()
        meter.install(store)
        found = []
        for rows in (10, 10, 1_000):
            meter.start()
            store.executemany("INSERT INTO number VALUES (?)", ((n,) for n in range(rows)))
            found.append(meter.cost())
    assert [cost.rows for cost in found] == [10, 10, 1_000]
    assert found[0] == found[1]
    assert 0 < 50 * found[0].steps < found[2].steps


class ManyLists:
    """A result whose release a test observes."""


@in_loop
async def test_benchmark_result_of_one_call_is_freed_before_the_next_call_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "content.db"
    growth.build_content(path, 10)
    results: list[weakref.ref[ManyLists]] = []
    held: list[bool] = []

    async def read() -> None:
        found = await asyncio.get_running_loop().run_in_executor(None, ManyLists)
        results.append(weakref.ref(found))

    async def write() -> None:
        # The thread may hold the result a moment longer. The event loop, which does not run here, must not hold it.
        deadline = time.monotonic() + 60
        while results[-1]() is not None and len(held) < 4 and time.monotonic() < deadline:
            time.sleep(0.001)  # noqa: ASYNC251  # the event loop must not run
        held.append(results[-1]() is not None)

    async with opened(path, growth.READER + 1 + growth.FANS) as shoal:
        await growth.costs_of(shoal.network, {"read": read, "write": write}, 3, 60)
    assert held[:4] == [False] * 4


def stored_run() -> list[Results]:
    curves = {row.curve: table.work for table in TABLES.values() for row in table.rows}
    figures = [
        Figure(f"{curve}: {metric}, {size:,}", 12.0 * size)
        for curve, work in curves.items()
        for metric in {work, "processor time", "rows changed"}
        for size in SIZES
    ]
    result = Result("complexity", "shoal bench complexity", "full", 0.5, 61.0, figures, [])
    return [Results(MACHINE, "2026-11-29", "0123456789", [result])]


def test_complexity_page_shows_work_and_time_of_each_size() -> None:
    page = rendered("{facts}\n```costs top\n```\n", stored_run())
    assert "2026-11-29, commit 0123456789, a processor" in page
    assert "Other processes used 50% of the machine" in page
    assert "|  | grows | document | Shoal | 100 | 1,000 |" in page
    assert "| heap | lists |  | not used | 1.2\u00a0k / 1.2\u00a0k | 12\u00a0k / 12\u00a0k |" in page


def test_complexity_page_without_stored_run_states_that_none_exists() -> None:
    assert rendered("{facts}\n```costs top\n```\n", []) == "`shoal bench complexity` was not measured.\n"


def test_complexity_page_curves_are_read_from_figures_of_each_size() -> None:
    curves = Curves([Figure("read by content, online: steps, 1,000", 7), Figure("memory", 1)])
    assert curves.of("read by content, online", "steps") == {1_000: 7}
    assert curves.sizes == [1_000]

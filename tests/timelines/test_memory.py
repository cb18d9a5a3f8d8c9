"""In-memory timelines: a bounded number of rows, and the eviction order."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.graph.contract import Cursor
from shoal.timelines.contract import Window
from shoal.timelines.memory import MemoryTimelines, window
from tests.async_runner import in_loop
from tests.stores import Clock


def ticking(capacity: int, length: int = 3) -> MemoryTimelines:
    """Return timelines whose clock advances by one second on each read."""
    ticks = count(1)
    return MemoryTimelines(capacity, length, clock=lambda: float(next(ticks)))


def warm(timelines: MemoryTimelines, member: int) -> bool:
    return len(timelines.slots((member,))) > 0


async def warmed(timelines: MemoryTimelines, *members: int) -> list[int]:
    """Make the members warm, and return the warm ones of the first ten."""
    for member in members:
        await timelines.create(member)
        await timelines.fill(member, [], 0)
    return [member for member in range(1, 11) if warm(timelines, member)]


@in_loop
async def test_memory_timelines_at_capacity_evict_least_recently_read() -> None:
    timelines = ticking(4)
    await warmed(timelines, 1, 2, 3, 4)
    await timelines.read(1, Cursor(limit=1))
    assert await warmed(timelines, 5) == [1, 3, 4, 5]
    assert await warmed(timelines, 6) == [1, 4, 5, 6]
    assert len(timelines) == 4


@in_loop
async def test_memory_timeline_push_does_not_count_as_read_for_eviction() -> None:
    timelines = ticking(2)
    await warmed(timelines, 1, 2)
    await timelines.push(7, timelines.slots((1,)))
    assert await warmed(timelines, 3) == [2, 3]


@in_loop
async def test_memory_timelines_evict_one_sixteenth_of_rows_per_eviction() -> None:
    timelines = ticking(32)
    await warmed(timelines, *range(101, 133))
    await timelines.create(200)
    await timelines.fill(200, [], 0)
    assert len(timelines) == 31
    assert not warm(timelines, 101)
    assert not warm(timelines, 102)
    assert warm(timelines, 103)


@pytest.mark.parametrize("how", ["evicted", "dropped"])
@in_loop
async def test_memory_timelines_on_drop_callback_runs_after_eviction_and_drop(how: str) -> None:
    told: list[int] = []
    timelines = ticking(2)
    timelines.on_drop = lambda: told.append(1)
    await warmed(timelines, 1, 2)
    assert not told
    await (timelines.create(3) if how == "evicted" else timelines.drop((1,)))
    assert told == [1]


@in_loop
async def test_memory_timelines_drop_of_cold_members_does_not_call_on_drop_callback() -> None:
    told: list[int] = []
    timelines = ticking(2)
    timelines.on_drop = lambda: told.append(1)
    await timelines.drop((1, 2))
    assert not told


@in_loop
async def test_memory_timeline_row_reused_for_new_member_is_empty() -> None:
    timelines = ticking(1)
    await timelines.create(1)
    await timelines.fill(1, [], 0)
    await timelines.union(1, [5, 6, 7], 4)
    await timelines.create(2)
    await timelines.fill(2, [], 0)
    assert await timelines.read(2, Cursor(limit=9)) == ([], 0)
    for entry in (1, 2, 3):
        await timelines.push(entry, timelines.slots((2,)))
    assert await timelines.read(2, Cursor(limit=9)) == ([3, 2, 1], 0)


@in_loop
async def test_memory_timelines_drop_idle_removes_only_unread_timelines() -> None:
    clock = Clock()
    timelines = MemoryTimelines(8, 3, clock=clock)
    await warmed(timelines, 1, 2, 3)
    clock.now = 100.0
    await timelines.read(2, Cursor(limit=1))
    await timelines.drop((3,))
    await timelines.drop_idle(200.0)
    assert await timelines.members(9) == [1, 2]
    await timelines.drop_idle(50.0)
    assert await timelines.members(9) == [2]


@in_loop
async def test_memory_timelines_push_to_five_thousand_rows_reaches_all() -> None:
    timelines = MemoryTimelines(5_000, 3)
    members = range(1, 5_001)
    await warmed(timelines, *members)
    slots = timelines.slots(members)
    for entry in (10, 20, 30, 40):
        assert await timelines.push(entry, slots) == 5_000
    for member in (1, 2_500, 5_000):
        assert await timelines.read(member, Cursor(limit=9)) == ([40, 30, 20], 10)


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=24),
    st.integers(0, 12),
    st.builds(
        Cursor, before=st.integers(0, 14), after=st.integers(0, 12), limit=st.integers(1, 6), oldest_first=st.booleans()
    ),
)
def test_window_of_ring_buffer_with_repeated_ids_returns_each_id_once(ring: list[int], floor: int, at: Cursor) -> None:
    ids = sorted({id_ for id_ in ring if max(floor, at.after) < id_ < at.before}, reverse=not at.oldest_first)
    assert window(np.array(ring, np.int64), floor, max(ring), at) == Window(ids[: at.limit], floor)

"""Particulars of timelines in memory: a bounded number of rows, and which are evicted."""

from __future__ import annotations

from itertools import count

import pytest

from shoal.graph.contract import Cursor
from shoal.timelines.memory import MemoryTimelines
from tests.running import in_loop
from tests.stores import Clock


def ticking(capacity: int, length: int = 3) -> MemoryTimelines:
    """Every look at the clock is later than the one before."""
    ticks = count(1)
    return MemoryTimelines(capacity, length, clock=lambda: float(next(ticks)))


def warm(timelines: MemoryTimelines, member: int) -> bool:
    return len(timelines.slots((member,))) > 0


async def warmed(timelines: MemoryTimelines, *members: int) -> list[int]:
    """Make them warm, and list who of the first ten is."""
    for member in members:
        await timelines.create(member)
        await timelines.fill(member, [], 0)
    return [member for member in range(1, 11) if warm(timelines, member)]


@in_loop
async def test_when_every_row_is_taken_the_longest_unread_becomes_cold() -> None:
    timelines = ticking(4)
    await warmed(timelines, 1, 2, 3, 4)
    await timelines.read(1, Cursor(limit=1))
    assert await warmed(timelines, 5) == [1, 3, 4, 5]
    assert await warmed(timelines, 6) == [1, 4, 5, 6]
    assert len(timelines) == 4


@in_loop
async def test_pushes_are_no_reads() -> None:
    timelines = ticking(2)
    await warmed(timelines, 1, 2)
    await timelines.push(7, timelines.slots((1,)))
    assert await warmed(timelines, 3) == [2, 3]


@in_loop
async def test_a_sixteenth_of_all_rows_is_freed_at_once() -> None:
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
async def test_whoever_keeps_seats_is_told_that_they_are_worth_nothing(how: str) -> None:
    told: list[int] = []
    timelines = ticking(2)
    timelines.on_drop = lambda: told.append(1)
    await warmed(timelines, 1, 2)
    assert not told
    await (timelines.create(3) if how == "evicted" else timelines.drop((1,)))
    assert told == [1]


@in_loop
async def test_nobody_is_told_of_a_drop_that_drops_nothing() -> None:
    told: list[int] = []
    timelines = ticking(2)
    timelines.on_drop = lambda: told.append(1)
    await timelines.drop((1, 2))
    assert not told


@in_loop
async def test_a_row_that_changes_hands_brings_nothing_along() -> None:
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
async def test_those_whom_nobody_reads_are_idle_and_the_dropped_are_not() -> None:
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
async def test_many_rows_are_written_at_once() -> None:
    timelines = MemoryTimelines(5_000, 3)
    members = range(1, 5_001)
    await warmed(timelines, *members)
    slots = timelines.slots(members)
    for entry in (10, 20, 30, 40):
        assert await timelines.push(entry, slots) == 5_000
    for member in (1, 2_500, 5_000):
        assert await timelines.read(member, Cursor(limit=9)) == ([40, 30, 20], 10)

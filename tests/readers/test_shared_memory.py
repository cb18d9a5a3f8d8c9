"""Shared memory between processes: readers never see partial writes and never miss a noted change."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import Unavailable
from shoal.graph.cache.change_log import FollowedLog, OwnersLog
from shoal.graph.contract import Cursor
from shoal.multiprocess.shared_memory import LOG_ENTRIES, NEWEST, POSITION, USED, VERSION, SharedMemory, barrier
from shoal.timelines.memory import OwnersTimelines, ReadTimelines, SharedRows, TimelineRows
from tests.async_runner import eventually, in_loop

LENGTH = 40
MEMBERS = 200
SECONDS, MOST_SECONDS = 1.0, 60.0


def rows_of(memory: SharedMemory) -> SharedRows:
    rows = TimelineRows(memory.rings, memory.next, memory.floors, memory.members, memory.read_at)
    return SharedRows(rows, memory.filled, memory.words, VERSION, NEWEST, USED, barrier)


async def _begun(memory: SharedMemory) -> bool:
    return memory.words[NEWEST] > 0


async def nobody_warms(_member: int) -> None:
    """Leave the timeline cold."""


@contextmanager
def another(work: Callable[[], None]) -> Iterator[int]:
    """Run the function in a child process that is killed on exit from the block."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(1)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def pushing(memory: SharedMemory) -> Callable[[], None]:
    """Return the work of the owner: push 1, 2, 3 ... to all timelines forever."""

    async def push() -> None:
        timelines = OwnersTimelines(LENGTH, rows_of(memory))
        for member in range(1, MEMBERS + 1):
            await timelines.create(member)
            await timelines.fill(member, [], 0)
        slots, entry = timelines.slots(range(1, MEMBERS + 1)), 0
        while True:
            entry += 1
            await timelines.push(entry, slots)

    return lambda: asyncio.run(push())


async def holes(memory: SharedMemory, enough: Callable[[int, int], bool]) -> tuple[int, int]:
    """Read timelines during writes; return the number of reads, and of reads that lacked an entry above their floor.

    Reads for `SECONDS`, and on a busy machine longer until these numbers are `enough`.
    """
    await eventually(partial(_begun, memory), answer=True)
    timelines = ReadTimelines(LENGTH, rows_of(memory), nobody_warms)
    reads = wrong = 0
    began = time.monotonic()
    while (lasted := time.monotonic() - began) < SECONDS or (lasted < MOST_SECONDS and not enough(reads, wrong)):
        try:
            window = await timelines.read(reads % MEMBERS + 1, Cursor(limit=LENGTH))
        except Unavailable:
            continue
        reads += 1
        if window is not None and window.ids:
            wrong += window.ids != list(range(window.ids[0], window.floor, -1))
    return reads, wrong


@in_loop
async def test_shared_memory_timeline_reader_never_sees_partial_push() -> None:
    memory = SharedMemory.create(2, MEMBERS, LENGTH)
    with another(pushing(memory)):
        reads, wrong = await holes(memory, lambda reads, _: reads > 100)
    assert reads > 100
    assert wrong == 0


@in_loop
async def test_shared_memory_timeline_reader_without_version_check_sees_partial_push(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = SharedMemory.create(2, MEMBERS, LENGTH)
    with another(pushing(memory)):
        await eventually(partial(_begun, memory), answer=True)
        # A constant, even version.
        shared = rows_of(memory)
        still = memoryview(bytearray(8 * 4_096)).cast("q")
        still[NEWEST], still[USED] = 1 << 40, MEMBERS
        monkeypatch.setattr(
            f"{__name__}.rows_of",
            lambda _: SharedRows(shared.rows, shared.filled, still, VERSION, NEWEST, USED, barrier),
        )
        _reads, wrong = await holes(memory, lambda _, wrong: wrong > 0)
    assert wrong > 0


@in_loop
async def test_shared_memory_timeline_read_after_owner_kill_mid_write_raises_unavailable() -> None:
    memory = SharedMemory.create(2, 4, LENGTH)
    owner = OwnersTimelines(LENGTH, rows_of(memory))
    await owner.create(1)
    await owner.fill(1, [5, 6], 0)
    reader = ReadTimelines(LENGTH, rows_of(memory), nobody_warms)
    memory.words[VERSION] += 1
    with pytest.raises(Unavailable):
        await reader.read(1, Cursor(limit=5))
    # The next owner starts empty, so the reader requests a warm-up.
    OwnersTimelines(LENGTH, rows_of(memory))
    with pytest.raises(Unavailable, match="evicted"):
        await reader.read(1, Cursor(limit=5))


ids = st.integers(1, 1 << 60)
lists = st.tuples(ids, st.integers(1, 100))
notes = st.tuples(st.lists(ids, max_size=5), st.lists(lists, max_size=5, unique=True))


@given(st.lists(st.tuples(notes, st.booleans()), max_size=12), st.integers(0, 2 * LOG_ENTRIES))
def test_shared_change_log_reader_sees_every_change_once(
    changes: list[tuple[tuple[list[int], list[tuple[int, int]]], bool]], at: int
) -> None:
    memory = SharedMemory.create(2, 1, 1)
    owner, reader = OwnersLog(memory, POSITION, barrier), FollowedLog(memory, POSITION, lambda: True)
    assert reader.newly_changed() is None, "a new reader cannot know earlier changes"
    # Start at an arbitrary position of the ring.
    memory.words[POSITION] += at
    reader.newly_changed()
    waiting: list[int] = []
    for (objects, changed), looks in changes:
        since = reader.position
        owner.note(objects, changed)
        waiting += [*objects, *(id1 for id1, _ in changed)]
        marks = [*objects, *(id1 ^ atype << 40 for id1, atype in changed)]
        assert reader.unchanged(marks[:1] or [7], since) is not bool(marks)
        assert reader.unchanged([1 << 61], since)
        if looks:
            assert sorted(reader.newly_changed() or []) == sorted(waiting)
            waiting = []


def test_shared_change_log_reader_after_overflow_or_new_owner_discards_all_cached_data() -> None:
    memory = SharedMemory.create(2, 1, 1)
    owner, reader = OwnersLog(memory, POSITION, barrier), FollowedLog(memory, POSITION, lambda: True)
    reader.newly_changed()
    since = reader.position
    for number in range(LOG_ENTRIES):
        owner.note((number + 1,), ())
    assert reader.newly_changed() is None
    assert not reader.unchanged([1 << 61], since)
    assert reader.newly_changed() == []
    for change in (
        owner.forget_all,
        lambda: OwnersLog(memory, POSITION, barrier),
        lambda: owner.note(range(1, 30_000), ()),
    ):
        since = reader.position
        change()
        assert not reader.unchanged([1 << 61], since)
        assert reader.newly_changed() is None

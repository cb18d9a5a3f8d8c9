"""The contract of `timelines/contract.py`, tested on every store of home timelines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.errors import Unavailable
from shoal.graph.contract import Cursor
from shoal.graph.redis.client import Nodes
from shoal.multiprocess.shared_memory import NEWEST, USED, VERSION, SharedMemory, barrier
from shoal.timelines.contract import Timelines, Window
from shoal.timelines.memory import MemoryTimelines, OwnersTimelines, ReadTimelines, SharedRows, TimelineRows
from shoal.timelines.redis import RedisTimelines
from tests.async_runner import in_loop, run
from tests.engines import redis
from tests.example_counts import examples
from tests.timelines.on_dynamodb import shared_url, timelines_on

Open = Callable[[int], AbstractAsyncContextManager[Timelines]]
ANN, BEN, CYD = 11 << 10, 12 << 10, 5_000 << 10
"""Members on three shards, which Redis Cluster stores on three nodes."""
MANY = 1_000


@asynccontextmanager
async def in_memory(length: int) -> AsyncIterator[Timelines]:
    yield MemoryTimelines(capacity=16, length=length)


class ReadBeside(OwnersTimelines):
    """Timelines that one process writes and a second one reads."""

    def __init__(self, length: int, shared: SharedRows) -> None:
        super().__init__(length, shared)
        self.reader = ReadTimelines(length, shared, self._stays_cold)

    @staticmethod
    async def _stays_cold(_member: int) -> None:
        """Do not warm the timeline."""

    async def read(self, member: int, at: Cursor) -> Window | None:
        try:
            return await self.reader.read(member, at)
        except Unavailable:
            return None

    async def floor(self, member: int) -> int | None:
        return await super().floor(member) if member in self._begun else await self.reader.floor(member)


def shared_rows(capacity: int, length: int) -> SharedRows:
    """Rows in shared memory."""
    memory = SharedMemory.create(2, capacity, length)
    rows = TimelineRows(memory.rings, memory.next, memory.floors, memory.members, memory.read_at)
    return SharedRows(rows, memory.filled, memory.words, VERSION, NEWEST, USED, barrier)


@asynccontextmanager
async def read_beside(length: int) -> AsyncIterator[Timelines]:
    yield ReadBeside(length, shared_rows(16, length))


@asynccontextmanager
async def on_redis(url: str, length: int) -> AsyncIterator[Timelines]:
    nodes = Nodes(url, **redis.PATIENT)
    timelines = RedisTimelines(nodes, length)
    await timelines.clear()
    yield timelines
    await timelines.close()
    await nodes.close()


@asynccontextmanager
async def on_dynamodb(length: int, *, head_length: int) -> AsyncIterator[Timelines]:
    async with timelines_on(shared_url(), length, head_length=head_length) as timelines:
        await timelines.clear()
        yield timelines


BACKENDS: dict[str, Open] = {
    "memory": in_memory,
    "read beside": read_beside,
    "redis": lambda length: on_redis(redis.single(), length),
    "redis-cluster": lambda length: on_redis(redis.cluster(), length),
    "valkey": lambda length: on_redis(redis.valkey(), length),
    "dynamodb": lambda length: on_dynamodb(length, head_length=80),
    "dynamodb, small heads": lambda length: on_dynamodb(length, head_length=1),
}

on_every_backend = pytest.mark.parametrize("backend", list(BACKENDS))


async def warm_up(timelines: Timelines, *members: int) -> None:
    for member in members:
        await timelines.create(member)
        await timelines.fill(member, [], 0)


@asynccontextmanager
async def begun(backend: str, length: int = 3, *members: int) -> AsyncIterator[Timelines]:
    """A store with warm, empty timelines of the members, Ann's by default."""
    async with BACKENDS[backend](length) as timelines:
        await warm_up(timelines, *(members or (ANN,)))
        yield timelines


async def push(timelines: Timelines, entry: int, *members: int) -> int:
    return await timelines.push(entry, timelines.slots(members or (ANN,)))


async def ids(timelines: Timelines, member: int = ANN) -> list[int]:
    window = await timelines.read(member, Cursor(limit=MANY))
    assert window is not None
    return window.ids


@on_every_backend
@in_loop
async def test_timeline_store_cold_timeline_ignores_writes_and_reads_as_missing(backend: str) -> None:
    async with begun(backend) as timelines:
        assert await push(timelines, 5, BEN) == 0
        await timelines.union(BEN, [1, 2], 0)
        await timelines.fill(BEN, [1, 2], 0)
        await timelines.subtract(BEN, [1])
        await timelines.remove(1, timelines.slots((BEN,)))
        await timelines.drop((BEN,))
        assert await timelines.read(BEN, Cursor(limit=5)) is None
        assert await timelines.floor(BEN) is None


@on_every_backend
@in_loop
async def test_timeline_store_created_timeline_accepts_writes_but_is_unreadable_until_filled(backend: str) -> None:
    async with begun(backend, 5, BEN) as timelines:
        await timelines.create(ANN)
        assert await timelines.floor(ANN) == 0
        assert await push(timelines, 7) == 1
        assert await push(timelines, 8) == 1
        await timelines.union(ANN, [5, 6], 0)
        await timelines.subtract(ANN, [6])
        await timelines.remove(8, timelines.slots((ANN,)))
        assert await timelines.read(ANN, Cursor(limit=5)) is None
        await timelines.create(ANN)
        await timelines.fill(ANN, [3, 4], 2)
        assert await timelines.read(ANN, Cursor(limit=5)) == ([7, 5, 4, 3], 2)


@on_every_backend
@in_loop
async def test_timeline_store_second_fill_merges_entries_into_timeline(backend: str) -> None:
    async with begun(backend) as timelines:
        assert await timelines.read(ANN, Cursor(limit=5)) == ([], 0)
        await push(timelines, 9)
        await timelines.fill(ANN, [4], 3)
        assert await timelines.read(ANN, Cursor(limit=5)) == ([9, 4], 3)


@on_every_backend
@in_loop
async def test_timeline_store_create_of_warm_timeline_changes_nothing(backend: str) -> None:
    async with begun(backend) as timelines:
        await push(timelines, 5)
        await timelines.create(ANN)
        assert await ids(timelines) == [5]


@on_every_backend
@in_loop
async def test_timeline_store_push_reaches_warm_timelines_only(backend: str) -> None:
    async with begun(backend, 3, ANN, BEN) as timelines:
        assert await push(timelines, 5, ANN, BEN, CYD) == 2
        assert await push(timelines, 6, BEN) == 1
        assert await ids(timelines) == [5]
        assert await ids(timelines, BEN) == [6, 5]


@on_every_backend
@in_loop
async def test_timeline_store_entries_are_sorted_by_id(backend: str) -> None:
    for order in permutations((1, 2, 3)):
        async with begun(backend) as timelines:
            for entry in order:
                await push(timelines, entry)
            assert await timelines.read(ANN, Cursor(limit=MANY)) == ([3, 2, 1], 0), order


@on_every_backend
@in_loop
async def test_timeline_store_repeated_push_is_stored_once(backend: str) -> None:
    async with begun(backend, 5) as timelines:
        for entry in (7, 7, 8, 7):
            await push(timelines, entry)
        assert await ids(timelines) == [8, 7]


@on_every_backend
@in_loop
async def test_timeline_store_full_timeline_drops_oldest_entry_and_raises_floor(backend: str) -> None:
    async with begun(backend) as timelines:
        for entry in (1, 2, 3, 4):
            await push(timelines, entry)
        assert await timelines.read(ANN, Cursor(limit=MANY)) == ([4, 3, 2], 1)


@on_every_backend
@in_loop
async def test_timeline_store_push_below_floor_is_ignored(backend: str) -> None:
    async with begun(backend, 3, ANN, BEN) as timelines:
        await timelines.union(ANN, [20], 10)
        assert await push(timelines, 9, ANN, BEN) == 1
        assert await push(timelines, 10, ANN) == 0
        assert await timelines.read(ANN, Cursor(limit=MANY)) == ([20], 10)
        assert await ids(timelines, BEN) == [9]


@on_every_backend
@in_loop
async def test_timeline_store_union_keeps_newest_entries_and_raises_floor(backend: str) -> None:
    async with begun(backend) as timelines:
        await push(timelines, 4)
        await timelines.union(ANN, [1, 2, 3, 5], 0)
        assert await timelines.read(ANN, Cursor(limit=MANY)) == ([5, 4, 3], 2)


@on_every_backend
@in_loop
async def test_timeline_store_floor_never_decreases(backend: str) -> None:
    async with begun(backend) as timelines:
        await timelines.union(ANN, [5, 6], 4)
        await timelines.union(ANN, [1, 2], 0)
        assert await timelines.read(ANN, Cursor(limit=MANY)) == ([6, 5], 4)


@on_every_backend
@in_loop
async def test_timeline_store_remove_and_subtract_delete_given_entries_only(backend: str) -> None:
    async with begun(backend, 5, ANN, BEN) as timelines:
        for entry in (1, 2, 3, 2):
            await push(timelines, entry, ANN, BEN)
        await timelines.remove(2, timelines.slots((ANN, BEN)))
        await timelines.remove(9, timelines.slots((ANN,)))
        assert await ids(timelines) == await ids(timelines, BEN) == [3, 1]
        await timelines.subtract(ANN, [1, 9])
        assert await ids(timelines) == [3]
        assert await ids(timelines, BEN) == [3, 1]


@on_every_backend
@in_loop
async def test_timeline_store_removal_does_not_lower_floor(backend: str) -> None:
    async with begun(backend) as timelines:
        await timelines.union(ANN, [1, 2, 3, 4], 0)
        await timelines.subtract(ANN, [4, 3])
        assert await timelines.read(ANN, Cursor(limit=MANY)) == ([2], 1)


@on_every_backend
@in_loop
async def test_timeline_store_read_applies_before_after_and_limit_in_both_directions(backend: str) -> None:
    async with begun(backend, 8) as timelines:
        await timelines.union(ANN, [1, 2, 3, 4, 5, 6], 0)
        for before, after, limit in [(7, 0, 9), (5, 0, 2), (7, 2, 2), (5, 2, 9), (3, 2, 5), (MANY, 6, 1)]:
            expected = [entry for entry in range(1, 7) if after < entry < before]
            up = await timelines.read(ANN, Cursor(before=before, after=after, limit=limit, oldest_first=True))
            down = await timelines.read(ANN, Cursor(before=before, after=after, limit=limit))
            assert up == (expected[:limit], 0)
            assert down == (expected[::-1][:limit], 0)


@on_every_backend
@in_loop
async def test_timeline_store_dropped_timeline_is_cold_and_restarts_empty(backend: str) -> None:
    async with begun(backend, 3, ANN, BEN) as timelines:
        await timelines.union(ANN, [5, 6], 4)
        await push(timelines, 7, BEN)
        await timelines.drop((ANN, CYD))
        assert await timelines.read(ANN, Cursor(limit=5)) is None
        await warm_up(timelines, ANN, CYD)
        assert await timelines.read(ANN, Cursor(limit=5)) == ([], 0)
        assert await timelines.read(CYD, Cursor(limit=5)) == ([], 0)
        assert await ids(timelines, BEN) == [7]


@on_every_backend
@in_loop
async def test_timeline_store_concurrent_pushes_reach_only_their_members(backend: str) -> None:
    async with begun(backend, 9, ANN, BEN, CYD) as timelines:
        sent = [(1, (ANN,)), (2, (ANN, BEN, 77)), (3, (CYD, BEN)), (4, (78,)), (5, (ANN, BEN, CYD))]
        written = await asyncio.gather(*(push(timelines, entry, *members) for entry, members in sent))
        assert written == [1, 2, 2, 0, 3]
        assert await ids(timelines) == [5, 2, 1]
        await asyncio.gather(
            timelines.remove(5, timelines.slots((ANN, CYD))), timelines.remove(2, timelines.slots((BEN,)))
        )
        assert await asyncio.gather(*(ids(timelines, member) for member in (ANN, BEN, CYD))) == [[2, 1], [5, 3], [3]]


@on_every_backend
@in_loop
async def test_timeline_store_lists_and_clears_warm_timelines(backend: str) -> None:
    async with begun(backend, 3, ANN, BEN, CYD) as timelines:
        assert sorted(await timelines.members(9)) == [ANN, BEN, CYD]
        assert len(await timelines.members(2)) == 2
        await timelines.clear()
        assert await timelines.members(9) == []
        assert await timelines.read(ANN, Cursor(limit=5)) is None


class Modeled:
    """A model of unbounded timelines: entries above the floor must match exactly."""

    def __init__(self, timelines: Timelines) -> None:
        self.timelines = timelines
        self.held: dict[int, set[int]] = {}
        self.floors: dict[int, int] = {}
        self.heights = {0}
        """Allowed floors: entries that were added, and floors that were given."""

    async def act(self, verb: str, member: int, entry: int, others: list[int]) -> None:
        await getattr(self, f"_{verb}")(member, entry, others)
        for known in self.held:
            await self._compare(known, entry)

    async def _create(self, member: int, entry: int, others: list[int]) -> None:
        await warm_up(self.timelines, member)
        self.held.setdefault(member, set())

    async def _push(self, member: int, entry: int, others: list[int]) -> None:
        await self.timelines.push(entry, self.timelines.slots((member, BEN) if member != BEN else (BEN,)))
        self.heights.add(entry)
        for warm in self.held.keys() & {member, BEN}:
            self.held[warm].add(entry)

    async def _remove(self, member: int, entry: int, others: list[int]) -> None:
        await self.timelines.remove(entry, self.timelines.slots((member,)))
        self.held.get(member, set()).discard(entry)

    async def _union(self, member: int, entry: int, others: list[int]) -> None:
        await self.timelines.union(member, others, entry)
        self.heights |= {entry, *others}
        if member in self.held:
            self.held[member] |= set(others)
            self.floors[member] = max(entry, self.floors.get(member, 0))

    async def _subtract(self, member: int, entry: int, others: list[int]) -> None:
        await self.timelines.subtract(member, others)
        self.held.get(member, set()).difference_update(others)

    async def _drop(self, member: int, entry: int, others: list[int]) -> None:
        await self.timelines.drop((member,))
        self.held.pop(member, None)
        self.floors.pop(member, None)

    async def _compare(self, member: int, entry: int) -> None:
        floor = await self.timelines.floor(member)
        assert floor is not None
        assert floor >= self.floors.get(member, 0)
        assert floor in self.heights
        self.floors[member] = floor
        expected = sorted(id_ for id_ in self.held[member] if id_ > floor)
        assert await self.timelines.read(member, Cursor(limit=MANY)) == (expected[::-1], floor)
        assert await self.timelines.read(member, Cursor(after=entry, limit=2, oldest_first=True)) == (
            [id_ for id_ in expected if id_ > entry][:2],
            floor,
        )


VERBS = ["create", "push", "push", "push", "push", "remove", "union", "subtract", "drop"]
ENTRIES = st.integers(1, 12)
ACTS = st.tuples(
    st.sampled_from(VERBS), st.sampled_from([ANN, BEN, CYD]), ENTRIES, st.lists(ENTRIES, max_size=6, unique=True)
)


@on_every_backend
def test_timeline_store_random_operations_match_model_above_floor(backend: str) -> None:
    # On DynamoDB, each example takes a hundred requests.
    @settings(deadline=None, max_examples=examples(15 if "dynamodb" in backend else 50, full=200))
    @given(length=st.integers(1, 4), acts=st.lists(ACTS, max_size=40))
    def random_operations(length: int, acts: list[tuple[str, int, int, list[int]]]) -> None:
        run(story(length, acts))

    async def story(length: int, acts: list[tuple[str, int, int, list[int]]]) -> None:
        async with begun(backend, length, ANN, BEN) as timelines:
            modeled = Modeled(timelines)
            modeled.held = {ANN: set(), BEN: set()}
            for act in acts:
                await modeled.act(*act)

    random_operations()

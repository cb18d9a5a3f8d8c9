"""What every store of home timelines promises (`timelines/contract.py`), on each of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.timelines.contract import Timelines
from shoal.timelines.memory import MemoryTimelines
from tests.running import in_loop, run

Open = Callable[[int], Timelines]
BACKENDS: dict[str, Open] = {"memory": lambda length: MemoryTimelines(capacity=16, length=length)}
ANN, BEN, CYD = 11, 12, 13
MANY = 1_000

on_every_backend = pytest.mark.parametrize("backend", list(BACKENDS))


async def begun(backend: str, length: int = 3, *members: int) -> Timelines:
    """A store with these warm and empty timelines: Ann's, when none is named."""
    timelines = BACKENDS[backend](length)
    for member in members or (ANN,):
        await timelines.create(member)
    return timelines


async def push(timelines: Timelines, entry: int, *members: int) -> int:
    return await timelines.push(entry, timelines.seats(members or (ANN,)))


async def ids(timelines: Timelines, member: int = ANN) -> list[int]:
    window = await timelines.read(member, limit=MANY)
    assert window is not None
    return window.ids


@on_every_backend
@in_loop
async def test_a_cold_timeline_takes_nothing_and_says_so(backend: str) -> None:
    timelines = await begun(backend)
    assert not timelines.warm(BEN)
    assert len(timelines.seats((BEN,))) == 0
    assert await push(timelines, 5, BEN) == 0
    await timelines.union(BEN, [1, 2], 0)
    await timelines.subtract(BEN, [1])
    await timelines.drop((BEN,))
    assert await timelines.read(BEN, limit=5) is None
    assert await timelines.floor(BEN) is None


@on_every_backend
@in_loop
async def test_a_created_timeline_is_warm_empty_and_complete(backend: str) -> None:
    timelines = await begun(backend)
    assert timelines.warm(ANN)
    assert await timelines.read(ANN, limit=5) == ([], 0)
    assert await timelines.floor(ANN) == 0


@on_every_backend
@in_loop
async def test_creating_a_warm_timeline_changes_nothing(backend: str) -> None:
    timelines = await begun(backend)
    await push(timelines, 5)
    await timelines.create(ANN)
    assert await ids(timelines) == [5]


@on_every_backend
@in_loop
async def test_a_push_reaches_the_warm_among_those_it_is_for(backend: str) -> None:
    timelines = await begun(backend, 3, ANN, BEN)
    assert await push(timelines, 5, ANN, BEN, CYD) == 2
    assert await push(timelines, 6, BEN) == 1
    assert await ids(timelines) == [5]
    assert await ids(timelines, BEN) == [6, 5]


@on_every_backend
@in_loop
async def test_entries_are_read_in_order_of_id_however_they_came(backend: str) -> None:
    for order in permutations((1, 2, 3)):
        timelines = await begun(backend)
        for entry in order:
            await push(timelines, entry)
        assert await timelines.read(ANN, limit=MANY) == ([3, 2, 1], 0), order


@on_every_backend
@in_loop
async def test_a_repeated_push_shows_once(backend: str) -> None:
    timelines = await begun(backend, 5)
    for entry in (7, 7, 8, 7):
        await push(timelines, entry)
    assert await ids(timelines) == [8, 7]


@on_every_backend
@in_loop
async def test_what_no_longer_fits_raises_the_floor_past_it(backend: str) -> None:
    timelines = await begun(backend)
    for entry in (1, 2, 3, 4):
        await push(timelines, entry)
    assert await timelines.read(ANN, limit=MANY) == ([4, 3, 2], 1)


@on_every_backend
@in_loop
async def test_a_push_below_the_floor_is_passed_over(backend: str) -> None:
    timelines = await begun(backend, 3, ANN, BEN)
    await timelines.union(ANN, [20], 10)
    assert await push(timelines, 9, ANN, BEN) == 1
    assert await push(timelines, 10, ANN) == 0
    assert await timelines.read(ANN, limit=MANY) == ([20], 10)
    assert await ids(timelines, BEN) == [9]


@on_every_backend
@in_loop
async def test_a_union_keeps_the_newest_that_fit_and_tells_where_it_ends(backend: str) -> None:
    timelines = await begun(backend)
    await push(timelines, 4)
    await timelines.union(ANN, [1, 2, 3, 5], 0)
    assert await timelines.read(ANN, limit=MANY) == ([5, 4, 3], 2)


@on_every_backend
@in_loop
async def test_a_floor_never_sinks(backend: str) -> None:
    timelines = await begun(backend)
    await timelines.union(ANN, [5, 6], 4)
    await timelines.union(ANN, [1, 2], 0)
    assert await timelines.read(ANN, limit=MANY) == ([6, 5], 4)


@on_every_backend
@in_loop
async def test_removed_and_subtracted_entries_are_gone_and_the_rest_stays(backend: str) -> None:
    timelines = await begun(backend, 5, ANN, BEN)
    for entry in (1, 2, 3, 2):
        await push(timelines, entry, ANN, BEN)
    await timelines.remove(2, timelines.seats((ANN, BEN)))
    await timelines.remove(9, timelines.seats((ANN,)))
    assert await ids(timelines) == await ids(timelines, BEN) == [3, 1]
    await timelines.subtract(ANN, [1, 9])
    assert await ids(timelines) == [3]
    assert await ids(timelines, BEN) == [3, 1]


@on_every_backend
@in_loop
async def test_what_was_removed_makes_no_room_below_the_floor(backend: str) -> None:
    timelines = await begun(backend)
    await timelines.union(ANN, [1, 2, 3, 4], 0)
    await timelines.subtract(ANN, [4, 3])
    assert await timelines.read(ANN, limit=MANY) == ([2], 1)


@on_every_backend
@in_loop
async def test_a_page_is_cut_by_before_after_and_limit_in_either_direction(backend: str) -> None:
    timelines = await begun(backend, 8)
    await timelines.union(ANN, [1, 2, 3, 4, 5, 6], 0)
    for before, after, limit in [(7, 0, 9), (5, 0, 2), (7, 2, 2), (5, 2, 9), (3, 2, 5), (MANY, 6, 1)]:
        expected = [entry for entry in range(1, 7) if after < entry < before]
        up = await timelines.read(ANN, before=before, after=after, limit=limit, oldest_first=True)
        down = await timelines.read(ANN, before=before, after=after, limit=limit)
        assert up == (expected[:limit], 0)
        assert down == (expected[::-1][:limit], 0)


@on_every_backend
@in_loop
async def test_a_dropped_timeline_is_cold_and_begins_anew(backend: str) -> None:
    timelines = await begun(backend, 3, ANN, BEN)
    await timelines.union(ANN, [5, 6], 4)
    await push(timelines, 7, BEN)
    await timelines.drop((ANN, CYD))
    assert not timelines.warm(ANN)
    assert await timelines.read(ANN, limit=5) is None
    await timelines.create(ANN)
    await timelines.create(CYD)
    assert await timelines.read(ANN, limit=5) == ([], 0)
    assert await timelines.read(CYD, limit=5) == ([], 0)
    assert await ids(timelines, BEN) == [7]


class Modelled:
    """Timelines without end: what is above a floor must be exactly what they hold above it."""

    def __init__(self, timelines: Timelines) -> None:
        self.timelines = timelines
        self.held: dict[int, set[int]] = {}
        self.floors: dict[int, int] = {}
        self.heights = {0}
        """Where a floor may be: at what was once put there, or said to be the end of what is known."""

    async def act(self, verb: str, member: int, entry: int, others: list[int]) -> None:
        await getattr(self, f"_{verb}")(member, entry, others)
        for known in self.held:
            await self._compare(known, entry)

    async def _create(self, member: int, entry: int, others: list[int]) -> None:
        await self.timelines.create(member)
        self.held.setdefault(member, set())

    async def _push(self, member: int, entry: int, others: list[int]) -> None:
        await self.timelines.push(entry, self.timelines.seats((member, BEN) if member != BEN else (BEN,)))
        self.heights.add(entry)
        for warm in self.held.keys() & {member, BEN}:
            self.held[warm].add(entry)

    async def _remove(self, member: int, entry: int, others: list[int]) -> None:
        await self.timelines.remove(entry, self.timelines.seats((member,)))
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
        assert await self.timelines.read(member, limit=MANY) == (expected[::-1], floor)
        assert await self.timelines.read(member, limit=2, after=entry, oldest_first=True) == (
            [id_ for id_ in expected if id_ > entry][:2],
            floor,
        )


VERBS = ["create", "push", "push", "push", "push", "remove", "union", "subtract", "drop"]
ENTRIES = st.integers(1, 12)
ACTS = st.tuples(
    st.sampled_from(VERBS), st.sampled_from([ANN, BEN, CYD]), ENTRIES, st.lists(ENTRIES, max_size=6, unique=True)
)


@on_every_backend
@settings(deadline=None, max_examples=200)
@given(length=st.integers(1, 4), acts=st.lists(ACTS, max_size=40))
def test_above_its_floor_a_timeline_is_exactly_what_was_put_there(
    backend: str, length: int, acts: list[tuple[str, int, int, list[int]]]
) -> None:
    async def story() -> None:
        modelled = Modelled(await begun(backend, length, ANN, BEN))
        modelled.held = {ANN: set(), BEN: set()}
        for act in acts:
            await modelled.act(*act)

    run(story())

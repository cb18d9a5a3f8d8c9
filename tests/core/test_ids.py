"""Ids: increasing, unique, and decodable to their shard and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.ids import (
    BLOCK,
    EPOCH_MS,
    MAX_ID,
    IdMaker,
    compose,
    floor_at,
    milliseconds_of,
    named,
    shard_of,
)
from shoal.core.model import Member
from shoal.core.placement import SHARDS, place
from shoal.graph.contract import Batch, IdTaken
from shoal.graph.memory import MemoryGraph
from tests.async_runner import in_loop

NOW = EPOCH_MS + 60_000_000_000
milliseconds = st.integers(EPOCH_MS, EPOCH_MS + 2**40 - 2)
shards = st.integers(0, SHARDS - 1)


def ticking(*moments: int) -> Callable[[], int]:
    """A clock that returns these times in order."""
    hands: Iterator[int] = iter(moments)
    return lambda: next(hands)


@given(milliseconds, shards, st.integers(0, 1023))
def test_id_encodes_time_and_shard(moment: int, shard: int, sequence: int) -> None:
    id_ = compose(moment, shard, sequence)
    assert (milliseconds_of(id_), shard_of(id_)) == (moment, shard)
    assert 0 <= floor_at(moment) <= id_ < floor_at(moment + 1) <= MAX_ID


def test_id_layout_is_41_bits_time_13_bits_shard_10_bits_sequence() -> None:
    assert compose(EPOCH_MS, 0, 0) == 0
    assert compose(EPOCH_MS, 0, 1) == 1
    assert compose(EPOCH_MS, 1, 0) == 1 << 10
    assert compose(EPOCH_MS + 1, 0, 0) == 1 << 23


def test_ids_fit_signed_64_bit_column_until_2058() -> None:
    last_of_2057 = int(datetime(2057, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp() * 1000)
    assert compose(last_of_2057, SHARDS - 1, 1023) <= MAX_ID


def test_id_before_epoch_is_refused_and_cursors_outside_its_range_are_bounded() -> None:
    with pytest.raises(ValueError, match="before 2024"):
        compose(EPOCH_MS - 1, 0)
    assert floor_at(EPOCH_MS - 1) == floor_at(0) == 0
    assert floor_at(2**53) == MAX_ID


@given(st.lists(st.tuples(st.integers(-5_000, 5_000), st.integers(0, 2)), min_size=1, max_size=200))
def test_id_maker_ids_of_shard_increase_for_any_clock(steps: list[tuple[int, int]]) -> None:
    make = IdMaker(ticking(*[NOW + offset for offset, _ in steps]))
    made: dict[int, list[int]] = {}
    for _, shard in steps:
        made.setdefault(shard, []).append(make(shard))
    for shard, ids in made.items():
        assert ids == sorted(set(ids))
        assert {shard_of(id_) for id_ in ids} == {shard}


@given(milliseconds, shards)
def test_id_maker_uses_current_time(moment: int, shard: int) -> None:
    assert IdMaker(ticking(moment))(shard) == compose(moment, shard)


def test_id_maker_with_clock_before_epoch_returns_increasing_ids() -> None:
    make = IdMaker(lambda: 0)
    assert [make(7) for _ in range(3)] == [compose(EPOCH_MS, 7, n) for n in range(3)]


def test_id_maker_1025th_id_of_millisecond_uses_next_millisecond() -> None:
    make = IdMaker(lambda: NOW)
    ids = [make(5) for _ in range(3_000)]
    assert ids == sorted(set(ids))
    assert [milliseconds_of(ids[n]) - NOW for n in (0, 1023, 1024, 2047, 2048)] == [0, 0, 1, 1, 2]
    assert {shard_of(id_) for id_ in ids} == {5}


def test_id_maker_after_sequence_overflow_continues_and_catches_up_with_clock() -> None:
    make = IdMaker(ticking(*[NOW] * 1025, NOW + 1, NOW + 2))
    ids = [make(0) for _ in range(1027)]
    assert ids[-3:] == [compose(NOW + 1, 0, 0), compose(NOW + 1, 0, 1), compose(NOW + 2, 0, 0)]


def test_id_maker_sequences_of_shards_are_independent() -> None:
    make = IdMaker(lambda: NOW)
    assert {make(shard) & 1023 for shard in range(SHARDS)} == {0}


@given(st.lists(st.tuples(st.integers(0, 1_023), st.integers(-2, 2)), min_size=2, max_size=8))
def test_id_maker_blocks_with_any_start_and_clock_are_equal_or_disjoint(starts: list[tuple[int, int]]) -> None:
    blocks: set[int] = set()
    for first, offset in starts:
        make = IdMaker(lambda offset=offset: NOW + offset, first=first)  # type: ignore[misc]
        for _ in range(3):
            make(9)
            blocks.add(make.block(9))
    members = [id_ for block in blocks for id_ in range(block, block + BLOCK)]
    assert len(members) == len(set(members))
    assert {shard_of(id_) for id_ in members} == {9}


def test_id_maker_block_reservation_is_followed_by_ids_after_the_block() -> None:
    make = IdMaker(lambda: NOW, first=7)
    assert [make(2), make.block(2), make(2)] == [compose(NOW, 2, 7), compose(NOW, 2, BLOCK), compose(NOW, 2, 2 * BLOCK)]


@in_loop
async def test_id_makers_with_colliding_ids_retry_until_unique() -> None:
    graph = MemoryGraph()
    makers = [IdMaker(lambda: NOW), IdMaker(lambda: NOW)]

    async def create(make: IdMaker) -> int:
        while True:
            batch = Batch(3)
            batch.obj_add(Member(id=make(3), name="m"))
            try:
                await graph.commit(batch)
            except IdTaken:
                continue
            return batch.objects[0].id

    made = [await create(makers[n % 2]) for n in range(100)]
    assert len(set(made)) == 100
    assert len(await graph.obj_get(made)) == 100


@given(st.text(max_size=30))
def test_id_derived_from_name_is_negative_and_on_shard_of_name(name: str) -> None:
    id_ = named("tag", name)
    assert -(2**63) <= id_ < 0
    assert shard_of(id_) == place(name).shard
    assert id_ == named("tag", name) != named("another space", name)


def test_ids_derived_from_hundred_thousand_names_are_unique() -> None:
    names = [f"tag{n}" for n in range(100_000)]
    ids = {named("tag", name) for name in names}
    assert len(ids) == len(names)
    assert max(ids) < 0


def test_id_maker_time_never_decreases_when_clock_is_set_back() -> None:
    times = iter((5_000, 4_000, 6_000))
    maker = IdMaker(lambda: next(times))
    assert [maker.now() for _ in range(3)] == [5_000, 5_000, 6_000]

"""FollowerSetCache: cached sets of the slots that an entry is pushed to."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.timelines.contract import Slots
from shoal.timelines.follower_sets import FollowerSet, FollowerSetCache
from tests.example_counts import examples

MEMBER = 77


def packed(*slots: int) -> Slots:
    return np.array(slots, np.int32)


def listed(follower_set: FollowerSet | None) -> list[int]:
    assert follower_set is not None
    return sorted(follower_set.slots(0, len(follower_set)).tolist())


def filled(follower_set_cache: FollowerSetCache, source: int, *slots: int) -> FollowerSet:
    follower_set = follower_set_cache.begin(source)
    follower_set.extend(packed(*slots))
    follower_set_cache.finish(source, follower_set)
    return follower_set


@settings(deadline=None, max_examples=examples(50, full=100))
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_follower_set_adds_and_discards_slots_like_a_set(acts: list[tuple[bool, int]]) -> None:
    follower_set, model = FollowerSet(0), set[int]()
    for add, slot in acts:
        (follower_set.add if add else follower_set.discard)(slot)
        (model.add if add else model.discard)(slot)
    assert listed(follower_set) == sorted(model)


@settings(deadline=None, max_examples=examples(100, full=200))
@given(st.integers(1, 3), st.lists(st.tuples(st.booleans(), st.integers(0, 14)), max_size=40))
def test_follower_set_paging_during_changes_returns_all_remaining_slots(
    page: int, acts: list[tuple[bool, int]]
) -> None:
    follower_set = FollowerSet(0)
    follower_set.extend(packed(*range(10)))
    stayed, reached = set(range(10)), set[int]()
    left, waiting = len(follower_set), iter(acts)
    while left:
        left = min(left, len(follower_set))
        first = max(0, left - page)
        reached |= set(follower_set.slots(first, left).tolist())
        left = first
        for add, slot in [act for act, _ in zip(waiting, range(2), strict=False)]:
            (follower_set.add if add else follower_set.discard)(slot)
            if not add:
                stayed.discard(slot)
    assert stayed <= reached


def test_follower_set_is_cached_only_after_complete_read() -> None:
    follower_set_cache = FollowerSetCache()
    assert follower_set_cache.get(1) is None
    follower_set = follower_set_cache.begin(1)
    assert follower_set_cache.get(1) is None
    follower_set_cache.finish(1, follower_set)
    assert follower_set_cache.get(1) is follower_set


def test_follower_set_when_complete_applies_changes_immediately() -> None:
    follower_set_cache = FollowerSetCache()
    follower_set = filled(follower_set_cache, 1, 4, 5)
    follower_set_cache.add(1, MEMBER, packed(6))
    follower_set_cache.add(1, MEMBER, packed(6))
    follower_set_cache.discard(1, MEMBER, packed(4))
    follower_set_cache.add(1, MEMBER, packed())
    follower_set_cache.add(2, MEMBER, packed(9))
    assert listed(follower_set) == [5, 6]


def test_follower_set_read_records_members_added_or_removed_during_the_read() -> None:
    follower_set_cache = FollowerSetCache()
    follower_set = follower_set_cache.begin(1)
    follower_set_cache.add(1, 10, packed(3))
    follower_set_cache.discard(1, 11, packed())
    assert follower_set.touched == {10, 11}
    assert len(follower_set) == 0


def test_follower_set_read_during_clear_is_not_cached() -> None:
    follower_set_cache = FollowerSetCache()
    follower_set = follower_set_cache.begin(1)
    follower_set_cache.clear()
    follower_set_cache.finish(1, follower_set)
    assert follower_set_cache.get(1) is None


def test_follower_set_read_twice_concurrently_caches_the_later_read() -> None:
    follower_set_cache = FollowerSetCache()
    one, two = follower_set_cache.begin(1), follower_set_cache.begin(1)
    follower_set_cache.add(1, MEMBER, packed(3))
    assert (one.touched, two.touched) == (set(), {MEMBER})
    follower_set_cache.finish(1, one)
    assert follower_set_cache.get(1) is None
    follower_set_cache.finish(1, two)
    assert follower_set_cache.get(1) is two


def test_follower_set_cache_gives_each_read_a_unique_serial_number() -> None:
    follower_set_cache = FollowerSetCache()
    assert len({follower_set_cache.begin(1).serial for _ in range(100)}) == 100


def test_follower_set_cache_evicts_least_recently_used() -> None:
    follower_set_cache = FollowerSetCache(budget=4)
    filled(follower_set_cache, 1, 1, 2)
    filled(follower_set_cache, 2, 3, 4)
    follower_set_cache.get(1)
    filled(follower_set_cache, 3, 5, 6)
    assert [source for source in (1, 2, 3) if follower_set_cache.get(source)] == [1, 3]


def test_follower_set_larger_than_cache_budget_is_cached_alone() -> None:
    follower_set_cache = FollowerSetCache(budget=1)
    filled(follower_set_cache, 1, 1)
    follower_set = filled(follower_set_cache, 2, 2, 3, 4)
    assert follower_set_cache.get(2) is follower_set
    assert follower_set_cache.get(1) is None


def test_follower_set_growth_counts_against_cache_budget() -> None:
    follower_set_cache = FollowerSetCache(budget=3)
    filled(follower_set_cache, 1, 1)
    filled(follower_set_cache, 2, 1)
    follower_set_cache.add(2, MEMBER, packed(2))
    follower_set_cache.discard(2, MEMBER, packed(1))
    follower_set_cache.add(2, MEMBER, packed(3))
    filled(follower_set_cache, 3, 1)
    assert [source for source in (1, 2, 3) if follower_set_cache.get(source)] == [2, 3]


def test_follower_set_cache_clear_removes_all_entries() -> None:
    follower_set_cache = FollowerSetCache()
    filled(follower_set_cache, 1, 1)
    follower_set_cache.clear()
    assert follower_set_cache.get(1) is None


def test_follower_set_removed_from_cache_frees_its_budget() -> None:
    follower_set_cache = FollowerSetCache(budget=2)
    filled(follower_set_cache, 1, 1)
    filled(follower_set_cache, 2, 1)
    follower_set_cache.forget(2)
    assert follower_set_cache.get(2) is None
    follower_set_cache.forget(2)
    filled(follower_set_cache, 3, 1)
    assert [source for source in (1, 2, 3) if follower_set_cache.get(source)] == [1, 3]


def test_follower_set_removed_while_being_read_is_not_cached() -> None:
    follower_set_cache = FollowerSetCache()
    follower_set = follower_set_cache.begin(1)
    follower_set_cache.forget(1)
    follower_set_cache.finish(1, follower_set)
    assert follower_set_cache.get(1) is None


def test_follower_set_cache_evicts_empty_sets_beyond_source_limit() -> None:
    follower_set_cache = FollowerSetCache(sources=2)
    for source in (1, 2, 3):
        follower_set_cache.finish(source, follower_set_cache.begin(source))
    assert follower_set_cache.get(1) is None
    assert follower_set_cache.get(2) is not None
    assert follower_set_cache.get(3) is not None

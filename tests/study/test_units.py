"""Units that move as a whole, and ranges of the mapping scheme: distribution, rebalancing, cooling, and folding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal_study import map_schemes
from shoal_study.map_schemes import SignUps, Units, cooled, dealt, moved_members, taken_in, units_of
from shoal_study.study import zipf_activity

member_counts = st.lists(st.integers(0, 1_000), min_size=2, max_size=60).map(np.array)


def held(
    owners: np.ndarray[tuple[int], np.dtype[np.intp]], amounts: np.ndarray[tuple[int], np.dtype[np.int64]], servers: int
) -> list[float]:
    found: list[float] = np.bincount(owners, amounts, minlength=servers).tolist()
    return found


@given(member_counts, st.integers(1, 10))
def test_unit_distribution_is_within_greedy_bound(
    members: np.ndarray[tuple[int], np.dtype[np.int64]], servers: int
) -> None:
    owners = dealt(members, servers)
    loads = held(owners, members, servers)
    assert sum(loads) == members.sum()
    # Greedy distribution is at most a third worse than the optimum (Graham 1969), which is at least the mean and the largest unit.
    assert (
        max(loads) <= 4 / 3 * max(members.sum() / servers, members.max(), sum(sorted(members)[-servers - 1 :][:2])) + 1
    )


@given(member_counts, st.integers(1, 8), st.integers(1, 4))
def test_unit_rebalancing_moves_units_only_to_new_servers_up_to_their_share(
    members: np.ndarray[tuple[int], np.dtype[np.int64]], servers: int, more: int
) -> None:
    before = dealt(members, servers)
    used = int(before.max()) + 1
    after = taken_in(before, members, used + more)
    moved = before != after
    assert np.all(after[moved] >= used)
    loads = held(after, members, used + more)
    assert max(loads) <= max(held(before, members, used))
    share = members.sum() / (used + more)
    assert all(load <= share for load in loads[used:])
    assert moved_members(before, after, members) == members[moved].sum()


def test_unit_rebalancing_skips_unit_larger_than_server_share() -> None:
    members = np.array([100, 10, 10])
    before = dealt(members, 2)
    assert taken_in(before, members, 3)[0] == before[0]


@given(st.lists(st.floats(0, 100), min_size=2, max_size=50), st.integers(2, 6), st.integers(0, 1_000))
def test_unit_cooling_never_raises_peak_load_and_reports_moves(amounts: list[float], servers: int, seed: int) -> None:
    activity = np.array(amounts)
    members = np.random.default_rng(seed).integers(1, 50, len(amounts))
    owners = np.arange(len(amounts)) % servers
    done = cooled(owners, units_of(members, activity), servers, 1.25)
    assert done.after <= done.before or done.before <= 1.25
    assert done.units <= len(amounts)
    assert done.members <= members.sum()
    assert done.units or done.after == done.before


def test_unit_cooling_moves_unit_with_highest_activity_per_member() -> None:
    # Two servers; the first has one busy member and a group of members with equal total activity.
    units = Units(np.array([1, 500, 300]), np.array([10.0, 10.0, 8.0]), np.ones(3, np.bool_))
    done = cooled(np.array([0, 0, 1]), units, 2, 1.3)
    assert (done.units, done.members) == (1, 1)
    assert [done.before, done.after] == pytest.approx([20 / 14, 18 / 14])
    fixed = units._replace(movable=np.array([False, True, True]))
    assert cooled(np.array([0, 0, 1]), fixed, 2, 1.3).members == 500
    assert cooled(np.array([0, 0, 1]), units._replace(movable=np.zeros(3, np.bool_)), 2, 1.3).units == 0


def test_unit_cooling_without_activity_moves_nothing() -> None:
    assert cooled(np.array([0, 1]), units_of(np.array([3, 3]), np.zeros(2)), 2, 1.25) == (0, 0, 0, 0, 0)


def signed_up(
    count: int, batch: int, ranges: int, busiest: int
) -> tuple[SignUps, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(map_schemes, "_MOST_RANGES", ranges)
        patch.setattr(map_schemes, "BUSIEST", busiest)
        found = SignUps()
        activity = zipf_activity(np.arange(count), 0.9, 3)
        for begin in range(0, count, batch):
            numbers = np.arange(begin, min(begin + batch, count))
            found.add(numbers, activity[numbers])
    return found, activity


@given(st.integers(1, 3_000), st.integers(1, 500), st.integers(1, 40))
def test_mapping_ranges_keep_member_activity_after_folding(count: int, batch: int, servers: int) -> None:
    found, activity = signed_up(count, batch, 64, 16)
    size = found.range_for(servers)
    assert size % found.step == 0
    assert size >= count / servers
    units, owners = found.units(size)
    places = np.arange(count) // size
    assert found.members(size).tolist() == np.bincount(places).tolist()
    assert np.bincount(owners, units.members, minlength=found.servers(size)).tolist() == np.bincount(places).tolist()
    assert np.bincount(owners, units.activity) == pytest.approx(np.bincount(places, activity))


def test_mapping_ranges_track_busiest_members_individually_and_only_these_are_movable() -> None:
    found, activity = signed_up(2_000, 130, 64, 16)
    units, owners = found.units(500)
    assert sorted(units.activity[units.movable]) == pytest.approx(sorted(activity)[-16:])
    assert units.members[units.movable].tolist() == [1] * 16
    assert owners[~units.movable].tolist() == [0, 1, 2, 3]


def test_member_activity_follows_zipf_law() -> None:
    ranked = np.sort(zipf_activity(np.arange(200_000), 0.9, 1))[::-1]
    ranks = np.array([10, 100, 1_000, 10_000, 100_000])
    slopes = np.diff(np.log(ranked[ranks])) / np.diff(np.log(ranks))
    assert slopes == pytest.approx([-0.9] * 4, abs=0.2)
    assert ranked.min() >= 1
    assert not np.array_equal(zipf_activity(np.arange(5), 0.9, 1), zipf_activity(np.arange(5), 0.9, 2))

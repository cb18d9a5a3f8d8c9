"""Units that move as a whole, and ranges of the mapping scheme: distribution, rebalancing, cooling, and folding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput
from shoal_study import map_schemes
from shoal_study.map_schemes import Ranges, Units, cooled, evenly_assigned, expanded, members_by_server, moved_members
from shoal_study.study import zipf_activity

member_counts = st.lists(st.integers(0, 1_000), min_size=2, max_size=60).map(np.array)


def held(
    owners: np.ndarray[tuple[int], np.dtype[np.intp]], amounts: np.ndarray[tuple[int], np.dtype[np.int64]], servers: int
) -> list[float]:
    found: list[float] = np.bincount(owners, amounts, minlength=servers).tolist()
    return found


@given(member_counts, st.integers(1, 10))
def test_placement_study_bucket_assignment_to_servers_is_within_bound_of_greedy_algorithm(
    members: np.ndarray[tuple[int], np.dtype[np.int64]], servers: int
) -> None:
    owners = evenly_assigned(members, servers)
    loads = held(owners, members, servers)
    assert sum(loads) == members.sum()
    # Greedy distribution is at most a third worse than the optimum (Graham 1969), which is at least the mean and the largest unit.
    assert (
        max(loads) <= 4 / 3 * max(members.sum() / servers, members.max(), sum(sorted(members)[-servers - 1 :][:2])) + 1
    )


@given(member_counts, st.integers(1, 8), st.integers(1, 4))
def test_placement_study_added_server_receives_at_most_its_share_and_other_servers_nothing(
    members: np.ndarray[tuple[int], np.dtype[np.int64]], servers: int, more: int
) -> None:
    before = evenly_assigned(members, servers)
    used = int(before.max()) + 1
    after = expanded(before, members, used + more)
    moved = before != after
    assert np.all(after[moved] >= used)
    loads = held(after, members, used + more)
    assert max(loads) <= max(held(before, members, used))
    share = members.sum() / (used + more)
    assert all(load <= share for load in loads[used:])
    assert moved_members(before, after, members) == members[moved].sum()


def test_placement_study_added_server_does_not_receive_bucket_larger_than_its_share() -> None:
    members = np.array([100, 10, 10])
    before = evenly_assigned(members, 2)
    assert expanded(before, members, 3)[0] == before[0]


@given(st.lists(st.floats(0, 100), min_size=2, max_size=50), st.integers(2, 6), st.integers(0, 1_000))
def test_placement_study_rebalancing_by_activity_never_raises_peak_activity_and_reports_moves(
    amounts: list[float], servers: int, seed: int
) -> None:
    activity = np.array(amounts)
    members = np.random.default_rng(seed).integers(1, 50, len(amounts))
    owners = np.arange(len(amounts)) % servers
    done = cooled(owners, Units(members, activity), servers, 1.25)
    assert done.after <= done.before or done.before <= 1.25
    assert done.units <= len(amounts)
    assert done.members <= members.sum()
    assert done.units or done.after == done.before


def test_placement_study_rebalancing_by_activity_begins_with_highest_activity_per_member() -> None:
    # Two servers; the first has one busy member and a group of members with equal total activity.
    units = Units(np.array([1, 500, 300]), np.array([10.0, 10.0, 8.0]))
    done = cooled(np.array([0, 0, 1]), units, 2, 1.3)
    assert (done.units, done.members) == (1, 1)
    assert [done.before, done.after] == pytest.approx([20 / 14, 18 / 14])


def test_placement_study_rebalancing_by_activity_without_activity_moves_no_bucket() -> None:
    assert cooled(np.array([0, 1]), Units(np.array([3, 3]), np.zeros(2)), 2, 1.25) == (0, 0, 0, 0, 0)


@given(st.integers(1, 3_000), st.integers(1, 500), st.integers(1, 400), st.integers(1, 40))
def test_placement_study_mapping_range_totals_equal_sums_over_their_member_numbers(
    count: int, batch: int, size: int, servers: int
) -> None:
    activity = zipf_activity(np.arange(count), 0.9, 3)
    found = Ranges(size)
    for begin in range(0, count, batch):
        numbers = np.arange(begin, min(begin + batch, count))
        found.add(numbers, activity[numbers])
    ranges = np.arange(count) // size
    assert found.units.members.tolist() == np.bincount(ranges).tolist()
    assert found.units.activity == pytest.approx(np.bincount(ranges, activity))
    assert found.owners(servers).tolist() == [at % servers for at in range(int(ranges[-1]) + 1)]
    assert members_by_server(count, size, servers).tolist() == np.bincount(ranges % servers, minlength=servers).tolist()
    assert found.full_next() % size == size - 1
    assert 0 <= found.full_next() + 1 - count <= size


def test_placement_study_mapping_ranges_beyond_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_schemes, "MOST_RANGES", 100)
    found = Ranges(7)
    found.add(np.arange(700), None)
    with pytest.raises(
        InvalidInput, match=r"--range: too small for more than 700 names \(got 7 members per range; at most 100 ranges"
    ):
        found.add(np.array([700]), None)


def test_placement_study_member_activity_follows_zipf_law() -> None:
    ranked = np.sort(zipf_activity(np.arange(200_000), 0.9, 1))[::-1]
    ranks = np.array([10, 100, 1_000, 10_000, 100_000])
    slopes = np.diff(np.log(ranked[ranks])) / np.diff(np.log(ranks))
    assert slopes == pytest.approx([-0.9] * 4, abs=0.2)
    assert ranked.min() >= 1
    assert not np.array_equal(zipf_activity(np.arange(5), 0.9, 1), zipf_activity(np.arange(5), 0.9, 2))

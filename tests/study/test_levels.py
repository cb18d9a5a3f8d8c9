"""Statistics of a placement level, each compared with its definition, including empty buckets."""

from __future__ import annotations

from math import sqrt
from statistics import fmean, pstdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal_study.name_schemes import Loads
from shoal_study.statistics import CURVE_STEPS, GROUPS, level_figures


def loads(members: list[int], activity: list[float] | None = None) -> Loads:
    made = Loads(len(members))
    made.members += np.array(members)
    made.activity += np.array(activity or [0.0] * len(members))
    return made


@given(st.lists(st.integers(0, 5_000), min_size=2, max_size=60))
def test_placement_directory_level_statistics_equal_values_of_textbook_formulas(counts: list[int]) -> None:
    found = level_figures("level", loads(counts))
    assert (found.members, found.buckets, found.counts) == (sum(counts), len(counts), counts)
    assert found.mean == pytest.approx(fmean(counts))
    assert found.deviation == pytest.approx(pstdev(counts))
    assert (found.fullest, found.emptiest, found.empty) == (max(counts), min(counts), counts.count(0))
    assert counts[int(found.fullest_bucket)] == max(counts)
    assert counts[int(found.emptiest_bucket)] == min(counts)
    if sum(counts):
        assert found.relative == pytest.approx(pstdev(counts) / fmean(counts))
        assert found.furthest == pytest.approx(max(abs(n - fmean(counts)) for n in counts) / fmean(counts))
        assert found.chi_square == pytest.approx(sum((n - fmean(counts)) ** 2 for n in counts) / fmean(counts))
    assert found.degrees == len(counts) - 1


def test_placement_directory_level_statistics_include_label_and_member_count_of_most_active_bucket() -> None:
    found = level_figures("level", loads([10, 20, 30], [1, 6, 2]), "xyz".__getitem__)
    assert (found.hottest_bucket, found.hottest_members, found.labels) == ("y", 20, ["x", "y", "z"])
    assert found.hottest == pytest.approx(2.0)
    assert found.activity == pytest.approx([1 / 9, 6 / 9, 2 / 9])
    assert level_figures("level", loads([1, 2])).hottest == 0


def test_placement_directory_level_load_curve_accumulates_members_from_fullest_to_emptiest_bucket() -> None:
    equal = level_figures("level", loads([7] * 10)).curve
    assert equal == pytest.approx([step / CURVE_STEPS for step in range(CURVE_STEPS + 1)])
    unequal = level_figures("level", loads([90, 0, 10, 0])).curve
    assert unequal[25] == pytest.approx(0.9)
    assert unequal[50:] == pytest.approx([1.0] * 51)


def test_placement_directory_level_random_load_curve_equals_expectation_of_random_placement() -> None:
    found = level_figures("level", loads([1_000] * 500))
    # The fullest half of binomial counts holds about half of the members plus 0.4 deviations.
    assert found.random_curve[50] == pytest.approx(0.5 + 0.399 / sqrt(1_000), abs=0.002)


def test_placement_directory_level_of_many_buckets_states_minimum_and_maximum_of_each_bucket_run() -> None:
    found = level_figures("level", loads([3] * 1_000))
    assert (found.counts, len(found.labels), len(found.curve)) == ([], GROUPS, CURVE_STEPS + 1)
    assert found.extremes == [(3, 3)] * GROUPS


def test_placement_directory_level_statistics_without_members_are_zero() -> None:
    found = level_figures("level", loads([0, 0, 0]))
    assert (found.mean, found.relative, found.empty, found.p, found.curve) == (0, 0, 3, 1.0, [])

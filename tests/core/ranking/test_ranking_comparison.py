"""Comparison of two orders: general properties, and examples calculated by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shoal.core.ranking.comparison import (
    MOST_CHANGES,
    BeforeAfter,
    ShownAuthor,
    TopPost,
    TwoTops,
    exposures,
    figures,
    gini,
    overlap,
    rank_biased_overlap,
)

ORDERS = st.lists(st.integers(1, 30), max_size=20, unique=True)
AMOUNTS = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=30)
POSTS = {
    id_: TopPost(id_, author=id_ % 7, tags=("sea", "sky", "tide")[: id_ % 4], age_hours=float(id_))
    for id_ in range(1, 31)
}
AUTHORS = {author: ShownAuthor(f"author{author}", 5 * 10**author) for author in range(7)}
PAIRS = st.lists(st.tuples(ORDERS, ORDERS), max_size=8)


def tops(*pairs: tuple[list[int], list[int]]) -> list[TwoTops]:
    return [TwoTops([POSTS[id_] for id_ in before], [POSTS[id_] for id_ in after]) for before, after in pairs]


@given(ORDERS, ORDERS)
def test_ranking_overlap_measures_are_symmetric_and_between_zero_and_one(one: list[int], other: list[int]) -> None:
    for measure in (overlap, rank_biased_overlap):
        assert 0.0 <= measure(one, other) <= 1.0
        assert measure(one, other) == measure(other, one)
        assert measure(one, one) == pytest.approx(1.0)


@given(ORDERS)
def test_ranking_overlap_of_disjoint_top_lists_is_zero(one: list[int]) -> None:
    other = [id_ + 100 for id_ in one] or [1]
    assert overlap(one, other) == rank_biased_overlap(one, other) == 0.0


@given(st.lists(st.integers(), min_size=3, max_size=20, unique=True), st.data())
def test_rank_biased_overlap_decreases_more_for_swap_at_higher_rank(order: list[int], data: st.DataObject) -> None:
    def swapped(at: int) -> list[int]:
        return [*order[:at], order[at + 1], order[at], *order[at + 2 :]]

    high = data.draw(st.integers(0, len(order) - 3))
    low = data.draw(st.integers(high + 1, len(order) - 2))
    assert overlap(order, swapped(high)) == overlap(order, swapped(low)) == 1.0
    assert rank_biased_overlap(order, swapped(high)) < rank_biased_overlap(order, swapped(low)) < 1.0


@given(ORDERS, st.integers(0, 20))
def test_rank_biased_overlap_of_list_and_its_prefix_is_one(order: list[int], length: int) -> None:
    assume(order[:length])
    assert rank_biased_overlap(order, order[:length]) == pytest.approx(1.0)


def test_rank_biased_overlap_of_three_ranks_matches_hand_calculation() -> None:
    # In common: 0 of 1, 2 of 2, 2 of 3.
    p = 0.5
    expected = (1 - p) / p * (0 / 1 * p + 2 / 2 * p**2 + 2 / 3 * p**3) + 2 / 3 * p**3
    assert rank_biased_overlap([1, 2, 3], [2, 1, 4], p) == pytest.approx(expected)


def test_rank_biased_overlap_is_dominated_by_first_ten_ranks() -> None:
    # Infinite tops that agree only in their first ten places have 1 - 0.9^10 plus a little for the common prefix.
    same, other = list(range(10)), list(range(100, 10_100))
    found = rank_biased_overlap([*same, *other], [*same, *(id_ + 20_000 for id_ in other)])
    assert 1 - 0.9**10 < found < 0.9


@given(st.lists(st.lists(st.integers(1, 5), max_size=12), max_size=6))
def test_ranking_exposure_of_each_rank_is_assigned_to_one_author(shown: list[list[int]]) -> None:
    found = exposures(shown)
    assert sum(found.values()) == pytest.approx(
        sum(1 / math.log2(1 + place) for top in shown for place in range(1, len(top) + 1))
    )
    assert set(found) == {author for top in shown for author in top}


def test_ranking_exposure_of_first_rank_is_one_and_of_third_is_half() -> None:
    assert exposures([[7, 8, 9]]) == pytest.approx({7: 1.0, 8: 1 / math.log2(3), 9: 0.5})


@given(AMOUNTS, st.floats(0.001, 1_000.0))
def test_gini_coefficient_is_bounded_and_scale_invariant(amounts: list[float], factor: float) -> None:
    assume(sum(amounts) == 0 or min(filter(None, amounts)) > 1e-6)
    found = gini(amounts)
    assert 0.0 <= found <= 1 - 1 / len(amounts) + 1e-9
    assert gini([factor * amount for amount in amounts]) == pytest.approx(found, abs=1e-9)
    assert gini(sorted(amounts, reverse=True)) == pytest.approx(found, abs=1e-9)


@given(AMOUNTS)
def test_gini_coefficient_equals_half_relative_mean_difference(amounts: list[float]) -> None:
    total = math.fsum(amounts)
    assume(total > 1e-6)
    differences = math.fsum(abs(one - other) for one in amounts for other in amounts)
    assert gini(amounts) == pytest.approx(differences / (2 * len(amounts) * total), abs=1e-9)


def test_gini_coefficient_is_zero_for_equal_amounts_and_rises_with_concentration() -> None:
    assert gini([2.0, 2.0, 2.0]) == gini([]) == gini([0.0, 0.0]) == 0.0
    assert gini([0.0, 0.0, 0.0, 5.0]) == pytest.approx(0.75)
    for poorer, richer in pairwise(([1.0, 1.0], [0.5, 1.5], [0.0, 2.0])):
        assert gini(poorer) < gini(richer)


@given(PAIRS)
def test_rank_replay_statistics_of_any_members_have_consistent_totals_bounds_and_order(
    pairs: list[tuple[list[int], list[int]]],
) -> None:
    found = figures(tops(*pairs), AUTHORS)
    ranked = [pair for pair in pairs if pair[0] or pair[1]]
    assert found.members == len(ranked) == sum(found.overlaps)
    assert 0 <= found.unchanged <= found.members
    assert 0.0 <= found.overlap <= 1.0
    for side, shares in ((0, "before"), (1, "after")):
        total = sum(getattr(bucket.share, shares) for bucket in found.exposure)
        assert total == pytest.approx(1.0 if any(pair[side] for pair in pairs) else 0.0)
    for changes in (found.gains, found.losses):
        sizes = [abs(one.share.change) for one in changes]
        assert sizes == sorted(sizes, reverse=True)
        assert len(sizes) <= MOST_CHANGES
        assert 0.0 not in sizes
    assert all(one.share.change > 0 for one in found.gains)
    assert all(one.share.change < 0 for one in found.losses)


@given(st.lists(ORDERS, max_size=8))
def test_rank_replay_statistics_of_unchanged_orders_show_no_change(orders: list[list[int]]) -> None:
    found = figures(tops(*((order, order) for order in orders)), AUTHORS)
    assert found.unchanged == found.members == sum(found.overlaps[-1:])
    assert found.overlap == 1.0
    assert found.rank_biased_overlap == pytest.approx(1.0)
    assert (found.gains, found.losses) == ((), ())
    for figure in (found.age_hours, found.authors, found.tags, found.authors_shown, found.gini):
        assert figure.change == 0.0
    assert all(bucket.share.change == 0.0 for bucket in found.exposure)


@given(PAIRS)
def test_rank_replay_statistics_of_swapped_recipes_swap_values_before_and_after(
    pairs: list[tuple[list[int], list[int]]],
) -> None:
    there, back = figures(tops(*pairs), AUTHORS), figures(tops(*((after, before) for before, after in pairs)), AUTHORS)
    assert [(one.name, one.share.before) for one in there.gains] == [(one.name, one.share.after) for one in back.losses]
    for name in ("age_hours", "authors", "tags", "authors_shown", "gini"):
        figure = getattr(there, name)
        assert getattr(back, name) == BeforeAfter(figure.after, figure.before)
    assert (there.overlap, there.rank_biased_overlap) == (back.overlap, back.rank_biased_overlap)


def test_rank_replay_statistics_of_two_members_match_hand_calculation() -> None:
    found = figures(tops(([1, 2, 3], [1, 3, 4]), ([1, 2], [1, 2]), ([], [])), AUTHORS)
    assert (found.members, found.unchanged) == (2, 1)
    assert found.overlap == pytest.approx((2 / 3 + 1) / 2)
    assert found.overlaps == (0, 0, 0, 0, 0, 0, 1, 0, 0, 1)
    assert found.age_hours == BeforeAfter(2.0, 2.0)
    assert found.authors == BeforeAfter(2.5, 2.5)
    assert found.tags == BeforeAfter(2.5, 2.5)
    assert found.authors_shown == BeforeAfter(3, 4)
    places = 1 + 1 / math.log2(3) + 0.5 + 1 + 1 / math.log2(3)
    (loser,) = found.losses
    assert (loser.name, loser.followers) == ("author2", 500)
    assert loser.share.before == pytest.approx(2 / math.log2(3) / places)
    assert loser.share.after == pytest.approx(1 / math.log2(3) / places)
    assert [one.name for one in found.gains] == ["author4", "author3"]
    assert [bucket.words for bucket in found.exposure] == ["0 to 9", "10 to 99", "100 to 999", "1,000+"]
    assert [bucket.authors for bucket in found.exposure] == [0, 1, 1, 2]


def test_rank_replay_overlap_histogram_counts_exact_tenth_in_the_bucket_that_starts_at_it() -> None:
    for common in range(11):
        before = list(range(1, 11))
        after = [*before[:common], *range(11, 21 - common)]
        (at,) = [at for at, number in enumerate(figures(tops((before, after)), AUTHORS).overlaps) if number]
        assert at == min(common, 9)

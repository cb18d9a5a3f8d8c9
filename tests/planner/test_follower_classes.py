"""Follower classes preserve the assumptions about the whole network."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from shoal_planner.workload import Assumptions, classes, load_of
from tests.planner.assumed_networks import NETWORKS


@given(NETWORKS)
def test_plan_follower_classes_sum_to_assumed_follows_and_members(of: Assumptions) -> None:
    found = classes(of)
    follows = sum(one.members * one.followers for one in found)
    assert sum(one.members for one in found) <= of.members * (1 + 1e-6)
    # A member cannot have more followers than there are members; small dense networks reach that limit.
    possible = min(of.follows, of.largest * of.members)
    assert follows / of.members <= of.follows * 1.001
    assert follows / of.members >= possible * 0.5
    assert sum(one.posts for one in found) == pytest.approx(1)


@given(NETWORKS)
def test_plan_follower_classes_are_ascending_and_split_at_high_fan_out_threshold(of: Assumptions) -> None:
    whole = classes(of)
    means = [one.followers for one in whole]
    assert means == sorted(means)
    cut = means[len(means) // 2]
    parts = classes(of, cut)
    assert sum(one.members for one in parts) == pytest.approx(sum(one.members for one in whole))
    below = [one for one in parts if one.followers <= cut * (1 + 1e-5)]
    assert all(one.followers >= cut * (1 - 1e-5) for one in parts[len(below) :])


def test_plan_follower_classes_match_sample_of_power_law_distribution() -> None:
    of = Assumptions(members=1_000_000, follows=40, exponent=2.2, largest=0.02, eagerness=0.7)
    found = classes(of)
    least = found[0].followers / np.sqrt(2)
    # Sampled through the inverse of the distribution, with density k ** -2.2 between the bounds.
    most = of.largest * of.members
    drawn = np.random.default_rng(1).random(of.members)
    powers = [end ** (1 - of.exponent) for end in (_least(of), most)]
    followers = (powers[0] + drawn * (powers[1] - powers[0])) ** (1 / (1 - of.exponent))
    assert followers.mean() == pytest.approx(of.follows, rel=0.05)
    weights = followers**of.eagerness
    mean_of_posts = (weights * followers).sum() / weights.sum()
    assert sum(one.posts * one.followers for one in found) == pytest.approx(mean_of_posts, rel=0.15)
    assert least < of.follows


def _least(of: Assumptions) -> float:
    """Return the lower bound that yields this mean, by search."""
    alpha, most = of.exponent, of.largest * of.members
    ends = np.linspace(1, of.follows, 20_000)
    means = (
        (1 - alpha)
        / (2 - alpha)
        * (most ** (2 - alpha) - ends ** (2 - alpha))
        / (most ** (1 - alpha) - ends ** (1 - alpha))
    )
    return float(ends[np.argmin(np.abs(means - of.follows))])


@given(NETWORKS)
def test_plan_load_excludes_high_fan_out_authors_from_deliveries(of: Assumptions) -> None:
    whole = load_of(of, 1e18, warm_only=False)
    some = load_of(of, 1_000, warm_only=False)
    assert some.deliveries <= whole.deliveries * (1 + 1e-9)
    assert whole.high_fan_out == 0
    assert whole.deliveries == pytest.approx(whole.posts * whole.per_post)
    assert whole.per_post <= of.warm * whole.largest * (1 + 1e-9)

"""Plans: the first limit reached, the cost, and monotonicity: more load never needs less capacity."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from shoal.core.placement import SHARDS
from shoal_planner.calibration import shipped
from shoal_planner.one_process import HIGH_FAN_OUT_FROM, NAME, one_process, waiting, waiting_p99
from shoal_planner.plan import (
    DATABASE_CORES,
    POLL_STORE,
    POLL_WEB,
    Size,
    affordable,
    carried,
    chosen,
    cluster,
    needed,
    plan,
    swings,
)
from shoal_planner.report import summary, tables
from shoal_planner.workload import Assumptions, Prices, changed, load_of, spreads
from tests.example_counts import examples
from tests.planner.assumed_networks import NETWORKS

COSTS = shipped()
MORE = ("posts", "pages", "changes", "years", "follows")


@settings(max_examples=examples(15, full=30))
@given(NETWORKS)
def test_cluster_plan_carries_its_load_unless_engines_reach_their_limits(of: Assumptions) -> None:
    shape = cluster(of, COSTS)
    size = needed(load_of(of, HIGH_FAN_OUT_FROM, warm_only=False), of, COSTS.shared)
    ends = {limit.what for limit in shape.limits if limit.use > 1 + 1e-9}
    assert ends <= {
        "disks of the databases",
        "CPU of the databases",
        "cores of the broker, at most 32",
        "nodes of Redis, at most 1,000",
        "web processes",
        "workers",
    }
    # At some sizes, polling takes most of the processor time, and more processes or databases only poll more.
    polled = (size.web + size.workers) * size.poll_rate * POLL_STORE
    assert "CPU of the databases" not in ends or polled > 0.5 * DATABASE_CORES * of.headroom
    assert "web processes" not in ends or size.stores * size.poll_rate * POLL_WEB > 0.5 * of.headroom
    assert "disks of the databases" not in ends or size.stores == SHARDS
    assert "workers" not in ends or size.workers > 1


@settings(max_examples=examples(15, full=30))
@given(NETWORKS)
def test_plan_with_more_load_never_lowers_use_of_any_limit(of: Assumptions) -> None:
    def uses(given: Assumptions) -> dict[str, float]:
        fixed = cluster(given, COSTS, Size(8, 4, 2, 2))
        return {limit.what: limit.use for shape in (one_process(given, COSTS), fixed) for limit in shape.limits}

    before = uses(of)
    for name in MORE:
        if name != "follows":
            more = uses(changed(of, name, getattr(of, name) * 1.5))
            assert all(more[what] >= use * (1 - 1e-6) for what, use in before.items()), name


def test_plan_chooses_one_process_for_small_network_and_cluster_for_large_network() -> None:
    assert chosen(Assumptions(members=100_000), COSTS).name == NAME
    assert chosen(Assumptions(members=50_000_000), COSTS).name != NAME


@pytest.mark.parametrize(("members", "full"), [(10**9, ""), (4 * 10**9, "nodes of Redis"), (10**10, "nodes of Redis")])
def test_plan_for_billions_of_members_divides_data_sources_and_names_first_bottleneck(members: int, full: str) -> None:
    of = Assumptions(members=members)
    shape = cluster(of, COSTS)
    assert needed(load_of(of, HIGH_FAN_OUT_FROM, warm_only=False), of, COSTS.shared).stores > 64
    assert shape.limits[0].what.startswith(full)
    assert shape.carries == (not full)


def test_plan_reported_maximum_of_members_reaches_the_first_limit_exactly() -> None:
    of = Assumptions(members=3_000_000)
    alone = next(one for one in carried(of, COSTS) if one.shape == NAME)
    assert alone.members == alone.breaks[0].members
    for end in alone.breaks:
        limits = one_process(changed(of, "members", end.members), COSTS).limits
        assert next(limit.use for limit in limits if limit.what == end.what) == pytest.approx(1, rel=0.02)
    assert one_process(changed(of, "members", alone.members * 0.98), COSTS).carries
    assert not one_process(changed(of, "members", alone.members * 1.02), COSTS).carries


def test_plan_member_count_for_budget_costs_at_most_the_budget() -> None:
    of, prices = Assumptions(members=1_000, budget=5_000), Prices()
    members = affordable(of, prices, COSTS)
    costs = [chosen(changed(of, "members", members * factor), COSTS).money(prices) for factor in (0.98, 1.03)]
    assert costs[0] <= of.budget < costs[1]
    assert affordable(replace(of, budget=1e-9), prices, COSTS) == 0


def test_plan_sensitivities_are_sorted_by_cost_range_and_match_separate_plans() -> None:
    of, prices = Assumptions(members=20_000_000), Prices()
    found = swings(of, prices, COSTS)
    assert [swing.width for swing in found] == sorted((swing.width for swing in found), reverse=True)
    assert {swing.assumption for swing in found} == {spread.name for spread in spreads(of)}
    for swing in found:
        alone = chosen(changed(of, swing.assumption, swing.high), COSTS)
        assert alone.money(prices) == pytest.approx(swing.money_high)
        assert swing.low <= getattr(of, swing.assumption) <= swing.high


def test_plan_cost_is_sum_of_part_costs_and_zero_at_zero_prices() -> None:
    found = plan(Assumptions(members=30_000_000), Prices(), COSTS)
    assert found.money == pytest.approx(sum(part.money(found.prices) for part in found.shape.parts))
    free = plan(found.assumptions, Prices(core=0, memory_gib=0, disk_gib=0, object_gib=0, traffic_gib=0), COSTS)
    assert free.money == 0


def test_plan_with_faster_calibration_carries_more_members() -> None:
    one = COSTS.one_process
    faster = replace(COSTS, one_process=replace(one, page=one.page / 2, request=one.request / 2))
    of = Assumptions(members=1_000, years=0.01)
    slow, fast = (next(c for c in carried(of, costs) if c.shape == NAME) for costs in (COSTS, faster))
    assert fast.members > slow.members * 1.3


def test_plan_queueing_wait_grows_to_infinity_at_full_utilization() -> None:
    waits = [waiting(busy, 0.01) for busy in (0.0, 0.5, 0.9, 0.99)]
    assert waits == sorted(waits)
    assert waits[0] == 0
    assert math.isinf(waiting(1.0, 0.01))
    # At 50% utilization the mean wait is half a service time, and the p99 is nearly eight times the mean.
    assert waits[1] == pytest.approx(0.005)
    assert 4 * waits[1] < waiting_p99(0.5, 0.01) < 10 * waits[1]
    assert waiting_p99(0.0, 0.01) == 0


@pytest.mark.parametrize("members", [10, 1_000, 37_700, 200_000, 1_000_000, 10_000_000, 500_000_000])
@pytest.mark.parametrize("posts", [0.01, 0.1, 0.5, 3.0])
def test_plan_p99_is_never_below_median(members: int, posts: float) -> None:
    waits = plan(Assumptions(members=members, posts=posts), Prices(), COSTS).shape.waits
    if waits is not None:
        assert waits.lag_p99 >= waits.lag
        assert waits.page_p99 >= waits.page


@pytest.mark.parametrize("busy", [0.0, 1e-9, 0.005, 0.01, 0.0101, 0.0102, 0.1, 0.5, 0.99, 1.0, 1.5])
def test_plan_queueing_wait_p99_is_at_least_mean_wait(busy: float) -> None:
    assert waiting_p99(busy, 0.01) >= waiting(busy, 0.01)


def test_plan_tables_name_currency_only_if_set() -> None:
    of = Assumptions(members=1_000, budget=100)
    named, unnamed = (plan(of, Prices(currency=currency), COSTS) for currency in ("EUR", ""))
    assert [sentence for sentence in summary(named) if "EUR per month" in sentence] == [
        summary(named)[0],
        summary(named)[-1],
    ]
    assert "EUR per month" in tables(named)[0].columns
    assert "EUR if low" in tables(named)[-1].columns
    assert " per month." in summary(unnamed)[0]
    assert "cost per month" in tables(unnamed)[0].columns

"""Simulations of whole networks: no post is lost, the lag recovers after faults, and results match the plan."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shoal.core.errors import InvalidInput
from shoal_planner.calibration import shipped
from shoal_planner.one_process import HIGH_FAN_OUT_FROM, NAME
from shoal_planner.plan import needed, work_of
from shoal_planner.simulation.observer import SimulatedOutcome, Stretch
from shoal_planner.simulation.scenario import (
    AnyFault,
    Celebrity,
    LostTimelines,
    LostWorkers,
    Rush,
    SlowStore,
    StoreAway,
)
from shoal_planner.simulation.simulate import ONE, SEVERAL, Course, GivenSize, simulate
from shoal_planner.workload import Assumptions, load_of
from tests.example_counts import examples

COSTS = shipped()
SMALL = Assumptions(members=200_000, follows=30)
BUSY = replace(SMALL, posts=20, years=0.01)
LARGE = Assumptions(members=20_000_000)
PART = st.floats(0.01, 1)
LASTS = {"at": st.floats(0, 7.9), "lasting": st.floats(0.1, 20)}
EITHER = (
    st.builds(SlowStore, **LASTS, by=st.floats(1, 200), part=PART),
    st.builds(StoreAway, **LASTS, part=PART),
    st.builds(LostTimelines, at=LASTS["at"], part=PART),
    st.builds(Celebrity, **LASTS, part=PART),
    st.builds(Rush, **LASTS, by=st.floats(0.1, 30), cold=st.floats(0, 1)),
)
WORKERS = st.builds(LostWorkers, **LASTS, part=PART, lease=st.one_of(st.none(), st.floats(0, 30)))


def run(of: Assumptions, *faults: AnyFault, seconds: float = 8.0, seed: int = 1, shape: str = "") -> SimulatedOutcome:
    return simulate(of, COSTS, Course(seconds=seconds, faults=faults, seed=seed), shape)


def add_up(found: SimulatedOutcome) -> None:
    """Assert the invariants of every run."""
    assert found.came == pytest.approx(found.refused + found.delivered + found.left, rel=1e-6, abs=1e-6)
    assert min(found.refused, found.delivered, found.left, found.deliveries, found.pages_refused) >= 0
    assert 0 <= found.lag <= found.lag_p99 <= found.lag_most * 1.01
    assert 0 <= found.page <= found.page_p99
    assert 0 <= found.queue <= found.queue_most
    assert found.drained is None or found.left > 0 or found.drained == 0
    assert all(0 <= share <= 1.02 for share in found.busy.values()), found.busy
    for stretches in (found.phases, found.series):
        assert [stretch.begin for stretch in stretches[1:]] == [stretch.end for stretch in stretches[:-1]]
        assert (stretches[0].begin, stretches[-1].end) == (0, found.seconds)
        assert sum(one.pages * (one.end - one.begin) for one in stretches) == pytest.approx(found.pages, abs=400)
        assert sum(one.refused * (one.end - one.begin) for one in stretches) <= found.refused + 1e-6
        assert max(one.queue_most for one in stretches) == pytest.approx(found.queue_most)


@settings(max_examples=examples(12))
@given(st.lists(st.one_of(*EITHER), max_size=3), st.integers(0, 2**40))
def test_simulation_of_one_process_loses_no_posts_under_any_fault(faults: list[AnyFault], seed: int) -> None:
    add_up(run(SMALL, *faults, seed=seed))


@settings(max_examples=examples(12))
@given(st.lists(st.one_of(*EITHER, WORKERS), max_size=3), st.integers(0, 2**40))
def test_simulation_of_several_processes_loses_no_posts_under_any_fault(faults: list[AnyFault], seed: int) -> None:
    add_up(run(LARGE, *faults, seed=seed, seconds=8.0))


@pytest.mark.parametrize("of", [SMALL, LARGE])
def test_simulation_with_equal_seed_is_deterministic(of: Assumptions) -> None:
    one, same, other = (msgspec.json.encode(run(of, Rush(at=2, lasting=2), seed=seed)) for seed in (5, 5, 6))
    assert one == same != other


@pytest.mark.parametrize("of", [SMALL, LARGE])
def test_simulation_fault_delays_posts_without_changing_arrivals(of: Assumptions) -> None:
    usual, slow = run(of), run(of, SlowStore(at=1, lasting=4, by=50))
    assert (slow.came, slow.pages) == (usual.came, usual.pages)
    assert slow.lag_p99 > usual.lag_p99


@pytest.mark.parametrize(("of", "shape"), [(SMALL, NAME), (LARGE, "PostgreSQL")])
def test_simulation_without_faults_at_low_load_has_no_queue(of: Assumptions, shape: str) -> None:
    found = run(of, seconds=20.0)
    assert shape in found.shape
    assert (found.refused, found.pages_refused) == (0, 0)
    assert found.left <= 3
    assert found.queue < 3
    assert found.lag < 0.02
    assert found.page < 0.02


@pytest.mark.parametrize(
    ("of", "fault"),
    [
        (BUSY, SlowStore(at=6, lasting=6, by=100)),
        (BUSY, StoreAway(at=6, lasting=6)),
        (replace(BUSY, posts=50), Rush(at=6, lasting=3, by=160)),
        (LARGE, SlowStore(at=6, lasting=6, by=300)),
        (LARGE, LostWorkers(at=6, lasting=6, part=1, lease=0)),
        (LARGE, LostWorkers(at=6, lasting=2, part=1, lease=8)),
        (replace(LARGE, posts=3, pages=0, changes=0), Rush(at=6, lasting=6, by=5)),
    ],
    ids=lambda given: type(given).__name__,
)
def test_simulation_fault_delays_posts_and_lag_recovers_afterwards(of: Assumptions, fault: AnyFault) -> None:
    found = run(of, fault, seconds=40.0)
    add_up(found)
    before, after = phase(found, 0), phase(found, -1)
    worst = max(one.lag_p99 for one in found.phases)
    assert worst > 5 * max(before.lag_p99, after.lag_p99)
    assert after.lag == pytest.approx(before.lag, rel=0.5)
    assert after.queue < before.queue + 3


def phase(found: SimulatedOutcome, at: int) -> Stretch:
    """Return a phase that has no fault."""
    assert not found.phases[at].faults
    return found.phases[at]


def test_simulation_store_outage_refuses_only_members_of_that_store() -> None:
    found = run(LARGE, StoreAway(at=4, lasting=8, part=0.5), seconds=16.0)
    load = load_of(LARGE, HIGH_FAN_OUT_FROM, warm_only=False)
    assert found.refused == pytest.approx(8 * load.posts / 2, rel=0.15)
    assert found.pages_refused == pytest.approx(8 * load.pages / 2, rel=0.1)
    assert all(not one.refused for one in found.phases if not one.faults)


@pytest.mark.parametrize("of", [replace(SMALL, pages=3_000, posts=1), LARGE])
def test_simulation_of_rush_of_requests_has_bounded_waits_and_refuses_excess_requests(of: Assumptions) -> None:
    found = run(of, Rush(at=2, lasting=4, by=20), seconds=16.0)
    assert found.pages_refused > 0
    assert found.refused > 0
    assert found.page_p99 < 6
    assert found.phases[-1].page < 0.1


@pytest.mark.parametrize("of", [SMALL, LARGE])
def test_simulation_lost_timelines_receive_posts_only_after_they_are_read(of: Assumptions) -> None:
    whole, lost = run(of), run(of, LostTimelines(at=0, part=0.5))
    assert lost.deliveries == pytest.approx(whole.deliveries / 2, rel=0.35)
    assert lost.page_p99 > whole.page_p99


@pytest.mark.parametrize(("of", "shape"), [(SMALL, ONE), (LARGE, SEVERAL)])
def test_simulation_of_celebrity_post_delivers_to_configured_fraction_of_members(of: Assumptions, shape: str) -> None:
    whole, famous = run(of, shape=shape), run(of, Celebrity(at=1, lasting=3, part=0.2), shape=shape)
    assert famous.came - whole.came == pytest.approx(3, abs=8)
    assert famous.deliveries - whole.deliveries == pytest.approx(3 * 0.2 * of.members * of.warm, rel=0.15)
    assert famous.lag_most > whole.lag_most


def test_simulation_results_match_plan_of_equal_network() -> None:
    load = load_of(LARGE, HIGH_FAN_OUT_FROM, warm_only=False)
    size = needed(load, LARGE, COSTS.shared)
    work = work_of(load, LARGE, COSTS.shared, size)
    found = run(LARGE, seconds=60.0)
    assert found.came == pytest.approx(60 * load.posts, rel=0.05)
    assert found.pages == pytest.approx(60 * load.pages, rel=0.02)
    assert found.deliveries == pytest.approx(60 * load.deliveries, rel=0.4)
    assert found.busy["web processes"] == pytest.approx(work.web / size.web, rel=0.05)
    assert found.busy["Redis"] == pytest.approx(work.redis / size.redis, rel=0.15)


def test_simulation_with_fewer_workers_is_busier_and_with_too_few_never_empties_its_queue() -> None:
    tenth = [simulate(LARGE, COSTS, Course(seconds=10), given=GivenSize(workers=workers)) for workers in (8, 2)]
    assert tenth[1].busy["workers"] == pytest.approx(4 * tenth[0].busy["workers"], rel=0.1)
    much = replace(LARGE, posts=500)
    behind = simulate(much, COSTS, Course(seconds=5), given=GivenSize(workers=1, web=1_000))
    add_up(behind)
    assert (behind.drained or 3_600) > 60
    assert behind.queue_most > 1_000


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_simulation_of_plan_for_a_billion_members_refuses_nothing_and_keeps_its_headroom(seed: int) -> None:
    of = Assumptions(members=1_000_000_000)
    found = run(of, seconds=10.0, seed=seed)
    add_up(found)
    assert found.refused == found.pages_refused == 0
    assert max(found.busy.values()) <= of.headroom + 0.02
    assert found.lag_p99 < 1
    assert found.queue_most < 1_000


def test_simulation_of_a_billion_members_completes_with_expected_totals() -> None:
    of = Assumptions(members=1_000_000_000)
    found = run(of, SlowStore(at=2, lasting=2, part=0.1, by=20), seconds=5.0)
    add_up(found)
    load = load_of(of, HIGH_FAN_OUT_FROM, warm_only=False)
    assert found.came == pytest.approx(5 * load.posts, rel=0.05)
    assert found.deliveries == pytest.approx(5 * load.deliveries, rel=0.4)


@pytest.mark.parametrize(
    ("of", "course", "shape", "given_size", "description"),
    [
        (SMALL, Course(seconds=10, faults=[Rush(at=10)]), "", GivenSize(), "`rush` begins at 10 s, but only 10 s"),
        (SMALL, Course(faults=[LostWorkers()]), "", GivenSize(), "no workers to lose"),
        (SMALL, Course(), ONE, GivenSize(workers=3), "require --shape several"),
        (replace(LARGE, pages=100), Course(seconds=3_600), ONE, GivenSize(), "the simulated load is too large"),
        (
            replace(SMALL, pages=100),
            Course(faults=[Rush(by=1_000, lasting=300)]),
            ONE,
            GivenSize(),
            "the simulated load is too large",
        ),
    ],
)
def test_simulation_with_invalid_faults_or_sizes_is_refused(
    of: Assumptions, course: Course, shape: str, given_size: GivenSize, description: str
) -> None:
    with pytest.raises(InvalidInput, match=description):
        simulate(of, COSTS, course, shape, given_size)


def test_simulation_faults_json_round_trip_is_lossless() -> None:
    kinds = (SlowStore, StoreAway, LostWorkers, LostTimelines, Celebrity, Rush)
    course = Course(faults=[kind(at=number) for number, kind in enumerate(kinds)], seed=9)
    assert msgspec.json.decode(msgspec.json.encode(course), type=Course) == course
    description = [fault.description() for fault in course.faults]
    assert all(one != other for one, other in itertools.combinations(description, 2))

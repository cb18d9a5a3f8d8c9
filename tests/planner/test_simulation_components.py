"""Parts of the simulation, each compared with a simpler equivalent model."""

from __future__ import annotations

import inspect
import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shoal.app import outboxes
from shoal.commands import context
from shoal.consumers.context import Effects
from shoal.graph.sqlite import writer as sqlite_writer
from shoal.outbox import runner as outbox
from shoal.outbox import runner as queueing
from shoal.search import indexing
from shoal.settings import Settings
from shoal_planner import plan
from shoal_planner.calibration import shipped
from shoal_planner.simulation import cluster as several
from shoal_planner.simulation import one_process
from shoal_planner.simulation.cluster import JobGroup, SharedWorkers, SimulatedStores
from shoal_planner.simulation.observer import Histogram, edges
from shoal_planner.simulation.one_process import CELEBRITY, PAGE, POST, Coming, SimulatedWriter, sync_time
from shoal_planner.simulation.scenario import (
    AnyFault,
    Celebrity,
    ColdTimelines,
    LostTimelines,
    Rush,
    Scenario,
    SlowStore,
    author_classes_of,
)
from shoal_planner.workload import Assumptions, classes
from tests.example_counts import examples

COSTS = shipped().one_process


@given(st.lists(st.floats(1e-5, 1e5), min_size=1, max_size=200), st.floats(1, 99))
def test_simulation_histogram_percentiles_are_within_one_percent(times: list[float], percent: float) -> None:
    found, together = Histogram(), Histogram()
    for time in times:
        found.add(time)
    together.add_all(np.array(times[::2]), np.ones(len(times[::2])))
    together.add_all(np.array(times[1::2]), np.ones(len(times[1::2])))
    expected = float(np.percentile(times, percent, method="inverted_cdf"))
    assert found.percentile(percent) == pytest.approx(expected, rel=0.011)
    assert together.percentile(percent) == pytest.approx(expected, rel=0.011)
    assert (found.count, found.most) == (together.count, together.most) == (len(times), max(times))


def test_simulation_histogram_without_samples_returns_zero() -> None:
    empty = Histogram()
    empty.add_all(np.array([1.0]), np.array([0.0]))
    assert (empty.percentile(50), empty.count, empty.most) == (0.0, 0.0, 0.0)


_LOADED = 150
"""Number of steps in which a store receives work."""
JOBS = st.lists(
    st.tuples(st.floats(0, 5).map(lambda at: round(at, 3)), st.integers(1, 3), st.floats(0.01, 2)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(30, full=60))
@given(JOBS, st.sampled_from([0.5, 1.0, 2.0, 3.5]), st.integers(1, 6), st.sampled_from([0.05, 0.7, 50.0]))
def test_simulated_workers_finish_jobs_like_event_by_event_simulation(
    jobs: list[tuple[float, int, float]], cores: float, slots: int, step: float
) -> None:
    workers = SharedWorkers(slots)
    for number, (ready, many, work) in enumerate(jobs):
        workers.give(JobGroup(float(number), ready, many, work, 0.0, foreground=3 * work))
    ends: list[tuple[float, int]] = []
    moment = 0.0
    while not workers.idle:
        moment += step
        ends += [(at, int(done.made)) for at, done in workers.advance(moment, cores) for _ in range(round(done.jobs))]
    ends.sort(key=lambda end: (end[1], end[0]))
    expected = one_by_one(jobs, cores, slots)
    assert [number for _, number in ends] == [number for _, number in expected]
    assert [at for at, _ in ends] == pytest.approx([at for at, _ in expected], abs=1e-6)
    whole = sum(many * work for _, many, work in jobs)
    assert workers.worked == pytest.approx(whole)
    assert workers.foreground == pytest.approx(3 * whole)
    assert workers.left == pytest.approx(0)


def one_by_one(jobs: list[tuple[float, int, float]], cores: float, slots: int) -> list[tuple[float, int]]:
    """Return the completion time of each job under equal sharing, sorted by group number, simulated event by event."""
    order = sorted((ready, number, work) for number, (ready, many, work) in enumerate(jobs) for _ in range(many))
    now, hand, ends = 0.0, list[list[float]](), list[tuple[float, int]]()
    while order or hand:
        while order and order[0][0] <= now + 1e-12 and len(hand) < slots:
            _, number, work = order.pop(0)
            hand.append([work, number])
        pace = min(1.0, cores / len(hand)) if hand else 0.0
        next_end = now + min(left for left, _ in hand) / pace if hand else math.inf
        coming = [ready for ready, *_ in order if ready > now + 1e-12]
        next_event = min(next_end, coming[0] if coming else math.inf)
        for job in hand:
            job[0] -= (next_event - now) * pace
        now = next_event
        ends += [(now, int(number)) for left, number in hand if left <= 1e-9]
        hand = [job for job in hand if job[0] > 1e-9]
    return sorted(ends, key=lambda end: (end[1], end[0]))


def test_simulated_jobs_of_lost_workers_restart_after_lease() -> None:
    workers = SharedWorkers(10)
    workers.give(JobGroup(0.0, 0.0, 4.0, 1.0, 5.0))
    assert list(workers.advance(0.5, 4.0)) == []
    workers.lose(0.5, 2.0)
    done = list(workers.advance(10.0, 4.0))
    assert [at for at, _ in done] == pytest.approx([1.0, 3.0])
    assert [group.jobs for _, group in done] == [2.0, 2.0]
    assert (workers.left, workers.idle) == (0.0, True)


@settings(max_examples=examples(20, full=40))
@given(st.floats(0.1, 3), st.floats(1, 30), st.floats(0.2, 4))
def test_simulated_store_finishes_work_at_predicted_time(load: float, by: float, lasting: float) -> None:
    length, cores = 0.02, 2.0
    fault = SlowStore(at=1.0, lasting=lasting, by=by)
    stores = SimulatedStores(1, cores, [fault], np.random.default_rng(1))
    offered, done = [0.0], [0.0]
    said = list[tuple[float, float]]()
    while offered[-1] - done[-1] > 1e-9 or len(done) <= _LOADED:
        now, work = (len(done) - 1) * length, load * length if len(done) <= _LOADED else 0.0
        (wait,) = stores.step(now, length, work, 10)
        said.append((now + length / 2 + wait.seconds, offered[-1] + work / 2))
        offered.append(offered[-1] + work)
        pace = cores / (by if fault.now(now) else 1.0)
        done.append(min(offered[-1], done[-1] + pace * length))
    ends = np.interp([at for at, _ in said[:_LOADED]], np.arange(len(done)) * length, done)
    assert ends == pytest.approx([position for _, position in said[:_LOADED]], abs=2 * cores * length)


def test_simulated_fault_of_some_stores_slows_only_the_work_of_these_stores() -> None:
    stores = SimulatedStores(10, 2.0, [SlowStore(lasting=100.0, part=0.25, by=50.0)], np.random.default_rng(1))
    waits = [stores.step(step * 0.02, 0.02, 10 * 0.02, 1_000) for step in range(100)]
    slow, good = waits[-1]
    assert (slow.share, slow.by, good.share, good.by) == (0.3, 50.0, 0.7, 1.0)
    assert slow.seconds > 1.0
    assert good.seconds < 0.01


FAULTS = st.lists(
    st.one_of(
        st.builds(Rush, at=st.floats(0, 90), lasting=st.floats(0.1, 90)),
        st.builds(SlowStore, at=st.floats(0, 90), lasting=st.floats(0.1, 90)),
    ),
    max_size=4,
)


@given(st.floats(1, 90), FAULTS, st.integers(1, 60))
def test_simulation_intervals_cover_duration_and_split_at_fault_boundaries(
    seconds: float, faults: list[AnyFault], count: int
) -> None:
    found = edges(seconds, faults, count)
    assert (found[0], found[-1]) == (0.0, seconds)
    assert found == sorted(set(found))
    assert all(
        min(abs(at - end) for end in found) < 1e-3 for fault in faults for at in (fault.at, fault.end) if at < seconds
    )
    assert len(found) <= count + 1 + 2 * len(faults)


def scenario() -> Scenario:
    return Scenario(
        seconds=20.0,
        members=1_000,
        warm=500,
        posts=50,
        pages=80,
        changes=20,
        returns=0,
        follows=80,
        high_fan_out_followees=0,
        author_classes=author_classes_of(classes(Assumptions(members=1_000)), 0.5, 1e9),
        faults=(Rush(at=5, lasting=5, by=3.0), Celebrity(at=10.5, lasting=3)),
    )


def test_simulated_arrivals_match_rates_and_rush_adds_load() -> None:
    random = np.random.default_rng(3)
    coming = Coming(scenario(), random)
    found = [(at, kind) for kind, at in coming.until(100.0)]
    assert found == sorted(found)
    assert math.isinf(coming.next)
    posts = np.array([at for at, kind in found if kind == POST])
    pages = [at for at, kind in found if kind == PAGE]
    assert len(posts) == pytest.approx(50 * 30, rel=0.1)
    assert len(pages) == pytest.approx(80 * 30, rel=0.1)
    assert ((posts >= 5) & (posts < 10)).sum() == pytest.approx(50 * 15, rel=0.15)
    # The celebrity is the second fault and posts once a second from its start.
    assert [at for at, kind in found if kind == CELEBRITY + 1] == [10.5, 11.5, 12.5]


def test_simulated_authors_are_drawn_by_post_rate_and_first_post_of_each_is_marked_once() -> None:
    given = scenario()
    coming = Coming(given, np.random.default_rng(3))
    drawn = [coming.author() for _ in range(30_000)]
    assert np.mean([followers for followers, _ in drawn]) == pytest.approx(given.author_classes.mean, rel=0.1)
    # With many posts by few members, nearly every author has posted at least once.
    assert sum(first for _, first in drawn) == pytest.approx(given.author_classes.authors.sum(), rel=0.1)


def test_simulated_disk_sync_times_match_measured_percentiles() -> None:
    drawn = [sync_time(COSTS, deviate) for deviate in np.random.default_rng(4).standard_normal(40_000)]
    for percent, measured in ((50, COSTS.sync), (90, COSTS.sync_p90), (99, COSTS.sync_p99)):
        assert np.percentile(drawn, percent) == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize(("together", "copies"), [(1, 10), (100, 1)])
def test_simulated_write_ahead_log_with_small_commit_groups_is_copied_more_often(together: int, copies: int) -> None:
    # A post takes 1 kB and a group 9 kB of a log of 1 MB; copying that takes 10 seconds.
    costs = replace(COSTS, log=1e3, log_group=9e3, log_size=1e6, copy=1e-2)
    writer = SimulatedWriter(costs, (), np.random.default_rng(1))
    for number in range(1_000 // together):
        for _ in range(together):
            writer.submit(number * 100.0)
        writer.advance((number + 1) * 100.0, hindered=False)
    assert sum(group.others for group in writer.ready) == 1_000
    late = [group.at % 100.0 for group in writer.ready if group.at % 100.0 > 1.0]
    assert late == pytest.approx([10.0] * copies, abs=1.0)


def test_simulation_constants_equal_those_of_production_code() -> None:
    runner = inspect.signature(outbox.Runner).parameters
    assert (one_process._SHARE, one_process._LONGEST_SHARE) == (
        queueing._SLICE_SECONDS,
        queueing._LONGEST_PAUSE_SECONDS,
    )
    assert (one_process._SLOW, one_process._MOST_SHARES) == (queueing._SLOW_SECONDS, queueing._MOST_SHARES)
    assert (runner["batch"].default, runner["lease"].default) == (one_process._CLAIM, several._LEASE_SECONDS)
    assert (one_process._AT_ONCE, one_process._FEW, one_process._BURST) == (
        indexing.AT_ONCE,
        indexing._FEW,
        indexing._BURST,
    )
    assert (one_process._PAUSE, one_process._SMALL_WRITES) == (indexing._PAUSE_SECONDS, indexing._WRITES_A_SECOND)
    pages = {one_process._PAGE, plan.PAGE_FOLLOWERS, *(one.default for one in fields(Effects) if one.name == "page")}
    assert len(pages) == 1
    assert context._FIRST == one_process._FIRST_PART
    assert (one_process._GROUP, one_process._ACK_SECONDS) == (sqlite_writer._GROUP_BATCHES, sqlite_writer._IDLE_SECONDS)
    assert outboxes._CONCURRENCY == plan.SLOTS
    usual, names = Scenario._field_defaults, Settings()
    assert (usual["at_work"], usual["at_the_door"]) == (names.requests_at_work, names.requests_waiting)
    assert (usual["patience"], usual["most_behind"]) == (names.waiting_seconds, names.most_behind_seconds)
    assert usual["length"] == names.timeline_length


@given(st.lists(st.floats(0.01, 1), max_size=5), st.floats(0, 5))
def test_simulated_lost_timelines_are_rebuilt_as_members_read(parts: list[float], rounds: float) -> None:
    lossy = scenario()._replace(faults=[LostTimelines(at=number, part=part) for number, part in enumerate(parts)])
    cold = ColdTimelines(lossy)
    for number, part in enumerate(parts):
        kept = 1 - cold.lost
        cold.lose(number)
        assert 1 - cold.lost == pytest.approx(kept * (1 - part))
    lost, pages = cold.lost, rounds * lossy.warm
    for _ in range(10):
        cold.read(pages / 10)
    # Only the timelines of members who were never sampled remain lost.
    assert cold.lost == pytest.approx(lost * math.exp(-rounds))

"""Simulation of an assumed network in the shape that a plan selects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

from shoal.core.errors import InvalidInput
from shoal_planner.calibration import Calibration
from shoal_planner.one_process import HIGH_FAN_OUT_FROM, one_process, remembered
from shoal_planner.plan import (
    broker_queues,
    cluster,
    fresh_share,
    needed,
    redis_memory,
    store_cores,
    store_work,
    work_of,
)
from shoal_planner.simulation.cluster import Built, Steps
from shoal_planner.simulation.observer import SimulatedOutcome
from shoal_planner.simulation.one_process import Loop
from shoal_planner.simulation.scenario import (
    MOST_SECONDS,
    AnyFault,
    LostWorkers,
    Rush,
    Scenario,
    author_classes_of,
    kind_of,
)
from shoal_planner.workload import Assumptions, Load, load_of

ONE, SEVERAL = "one", "several"
MOST_THINGS = 20_000_000.0
"""Maximum of posts, pages and changes simulated for one process, since each takes time."""


class Course(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    seconds: Annotated[float, msgspec.Meta(gt=0, le=MOST_SECONDS)] = 300.0
    faults: Annotated[Sequence[AnyFault], msgspec.Meta(max_length=100)] = ()
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 1


class GivenSize(NamedTuple):
    """The number of instances of each part; None for the planned number."""

    web: int | None = None
    workers: int | None = None
    stores: int | None = None
    redis: int | None = None


AS_PLANNED = GivenSize()


def simulate(
    of: Assumptions, calibration: Calibration, course: Course, shape: str = "", given: GivenSize = AS_PLANNED
) -> SimulatedOutcome:
    """Simulate a deployment under load and return the outcome.

    `shape` is `ONE` for a single process, or `SEVERAL` for processes by role. An empty `shape` means `SEVERAL` if a size is given,
    and otherwise the shape that `shoal plan` estimates. Equal arguments give equal outcomes. Raises `InvalidInput` if a fault
    begins after the end of the simulation. With `ONE`, it is also raised for a given size, for a fault that removes workers, and
    for a load that is too large.
    """
    for fault in course.faults:
        if fault.at >= course.seconds:
            raise InvalidInput(
                f"the fault `{kind_of(fault)}` begins at {fault.at:g} s, but only {course.seconds:g} s are simulated"
            )
    sized = given != AS_PLANNED
    if shape == ONE and sized:
        raise InvalidInput("the numbers of web processes, workers, databases and Redis servers require --shape several")
    alone = shape == ONE or (not shape and not sized and one_process(of, calibration).carries)
    return _one(of, calibration, course) if alone else _several(of, calibration, course, given)


def _one(of: Assumptions, calibration: Calibration, course: Course) -> SimulatedOutcome:
    if any(isinstance(fault, LostWorkers) for fault in course.faults):
        raise InvalidInput("one process has no workers to lose: use --shape several or another fault")
    load, costs = load_of(of, HIGH_FAN_OUT_FROM, warm_only=True), calibration.one_process
    if (things := _things(load, course)) > MOST_THINGS:
        raise InvalidInput(
            f"the simulated load is too large: {things:,.0f} posts, pages and changes, at most {MOST_THINGS:,.0f};"
            " reduce --seconds or use --shape several"
        )
    known = remembered(of.members * of.daily, of.follows)
    return Loop(costs, _scenario(of, load, course, counted=of.warm, known=known), costs.request).run()


def _things(load: Load, course: Course) -> float:
    """Estimate the number of arrivals in a simulation, including rushes."""
    crowded = sum(
        (fault.by - 1) * max(0.0, min(fault.end, course.seconds) - fault.at)
        for fault in course.faults
        if isinstance(fault, Rush)
    )
    return (load.posts + load.pages + load.changes) * max(0.0, course.seconds + crowded)


def _several(of: Assumptions, calibration: Calibration, course: Course, given: GivenSize) -> SimulatedOutcome:
    load, costs = load_of(of, HIGH_FAN_OUT_FROM, warm_only=False), calibration.shared
    named = {name: number for name, number in given._asdict().items() if number is not None}
    size = needed(load, of, costs)._replace(**named)
    work = work_of(load, of, costs, size)
    parts = {part.name: part for part in cluster(of, calibration, size).parts}
    memory = redis_memory(load, costs)
    memory += sum(parts[name].count * parts[name].memory for name in ("web process", "worker"))
    cores = store_cores(store_work(work, size) / size.stores / of.headroom)
    built = Built(size, cores, memory, broker_queues(work, of.headroom))
    return Steps(costs, _scenario(of, load, course, counted=1.0, known=1 - fresh_share(of, size.web)), built).run()


def _scenario(of: Assumptions, load: Load, course: Course, *, counted: float, known: float) -> Scenario:
    """Return the scenario for a load.

    `counted` is the fraction of followers to whom posts are pushed, and `known` the fraction of pages whose reader's
    data is cached.
    """
    return Scenario(
        seconds=course.seconds,
        members=load.members,
        warm=load.warm,
        posts=load.posts,
        pages=load.pages,
        changes=load.changes,
        returns=load.returns,
        follows=of.follows,
        high_fan_out_followees=load.high_fan_out_followees,
        author_classes=author_classes_of(load.by_class, counted, HIGH_FAN_OUT_FROM),
        faults=course.faults,
        seed=course.seed,
        known=known,
    )

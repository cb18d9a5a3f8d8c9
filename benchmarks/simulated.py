"""A network that is actually run, compared with its simulation by `shoal simulate`.

The machine is calibrated first, as by `shoal plan --calibrate`, on a separate network. Then members with a power law of followers
and full, warm timelines post at random times for a while in one process on SQLite. The simulation gets the costs, the members,
the classes of followers of the authors, and the rate. Lags begin at the time in the id of a post and end when its followers have
it; the queue contains committed posts with pending consumers. `raw engine` is the measurement, and the ratio is the simulated
figure divided by it.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import uvloop

from benchmarks.end_to_end import copied, draw_authors
from benchmarks.measure import SMALLEST, Report, keep_option, parser, rss, spread, workplace
from benchmarks.posting import Bench, Phase, open_bench
from benchmarks.stores import Ints, build, ids_of, numbered, power_law, real_authors
from shoal_planner.calibration import OneProcess
from shoal_planner.measuring import one_process
from shoal_planner.measuring.network import FULL as CAREFUL
from shoal_planner.measuring.network import SMALLEST as HASTY
from shoal_planner.measuring.network import Effort
from shoal_planner.simulation.observer import SimulatedOutcome
from shoal_planner.simulation.one_process import Loop
from shoal_planner.simulation.scenario import AuthorClasses, Scenario

_DELIVERIES_OF_A_POST = 100
_LOOK_SECONDS = 0.02
_TIMER_SECONDS = 0.002
"""An event loop's timer has a resolution of milliseconds. Up to this delay, a post is on time."""
_DRIVEN_SECONDS = 2.0
_OFF = 0.2
"""Tolerated relative difference in deliveries per post. They depend on the random authors, not on the machine."""


class Real(NamedTuple):
    """Figures of the real network: its posts, queue lengths, the work to start a post, and memory in bytes."""

    phase: Phase
    expected: int
    queue: list[int]
    each: float
    empty: int
    memory: int
    left: int


def calibrated(place: Path, *, hasty: bool) -> OneProcess:
    """Return the costs of one process on this machine, without HTTP, and the memory of an empty one.

    They are measured in a separate process, so its memory does not include the network.
    """
    folder = Path(tempfile.mkdtemp(dir=place))
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as others:
            costs = others.submit(_measured, folder, HASTY if hasty else CAREFUL).result()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return msgspec.convert({**costs, "memory": 0.0, "request": 0.0}, OneProcess)


def _measured(folder: Path, effort: Effort) -> dict[str, float]:
    return uvloop.run(one_process.measure(folder, effort, _nobody))


def _nobody(_step: str) -> None: ...


def moments(rate: float, seconds: float) -> list[float]:
    """Return random times at this rate."""
    random = np.random.default_rng(2)
    found: list[float] = np.sort(seconds * random.random(random.poisson(rate * seconds))).tolist()
    return found


async def play(due: Sequence[float], act: Callable[[float], Coroutine[Any, Any, None]]) -> None:
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for at in due:
            if (wait := started + at - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            late = time.perf_counter() - started - at > _TIMER_SECONDS
            group.create_task(act(started + at if late else time.perf_counter()))


async def driving(due: Sequence[float]) -> float:
    """Return the main thread's seconds to start and finish an action that does nothing."""
    worked = time.thread_time()
    await play(due, _nothing)
    return (time.thread_time() - worked) / max(1, len(due))


async def _nothing(_due: float) -> None:
    await asyncio.sleep(0)


async def really(path: Path, members: Ints, degrees: Ints, authors: Ints, due: Sequence[float]) -> Real:
    """Run the network until its last consequence."""
    empty = rss()
    async with open_bench(path, members, degrees, authors) as bench:
        await bench.warm_all()
        each = await driving([at for at in due if at < _DRIVEN_SECONDS])
        phase, lengths = bench.begin(), list[int]()
        watching = asyncio.create_task(_watch(bench.network.store.backlog, lengths))
        await play(due, partial(bench.post, phase))
        # The queue counts only while posts arrive, as in the simulation.
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        memory = rss()
        await bench.end(phase)
        return Real(phase, bench.expected, lengths, each, empty, memory, await _left(bench))


async def _watch(length: Callable[[], Awaitable[int]], lengths: list[int]) -> None:
    while True:
        lengths.append(await length())
        await asyncio.sleep(_LOOK_SECONDS)


async def _left(bench: Bench) -> int:
    return await bench.network.store.backlog()


def classes(degrees: Ints, authors: Ints) -> AuthorClasses:
    """Return the authors in classes by number of followers, two classes per doubling."""
    bins = np.floor(2 * np.log2(np.maximum(degrees, 1))).astype(np.int64)
    drawn = bins[authors]
    found, posts = np.unique(drawn, return_counts=True)
    return AuthorClasses(
        np.array([degrees[authors[drawn == one]].mean() for one in found]),
        np.array([(bins == one).sum() for one in found]).astype(np.float64),
        posts / posts.sum(),
    )


def simulated(
    costs: OneProcess, real: Real, degrees: Ints, authors: Ints, rate: float, seconds: float
) -> SimulatedOutcome:
    count = float(len(degrees))
    scenario = Scenario(
        seconds=seconds,
        members=count,
        warm=count,
        posts=rate,
        pages=0.0,
        changes=0.0,
        returns=0.0,
        follows=float(degrees.mean()),
        high_fan_out_followees=0.0,
        author_classes=classes(degrees, authors),
        # No posts wait for admission, because they are created without HTTP.
        at_work=0,
    )
    return Loop(msgspec.structs.replace(costs, memory=float(real.empty)), scenario, real.each).run()


def compare(report: Report, real: Real, found: SimulatedOutcome) -> None:
    lag = spread(real.phase.lags)
    report.add("posts", found.delivered + found.left, raw=real.phase.durable)
    report.add("posts refused while deliveries were too far behind", found.refused, raw=real.phase.refused)
    report.add("deliveries", found.deliveries, raw=real.phase.delivered)
    report.add("lag to delivery, p50", found.lag * 1e3, "ms", raw=lag.median)
    report.add("lag to delivery, p99", found.lag_p99 * 1e3, "ms", raw=lag.p99)
    report.add("queue, mean", found.queue, "posts", raw=float(np.mean(real.queue)))
    report.add("queue, max", found.queue_most, "posts", raw=float(np.max(real.queue)))
    report.add("memory", found.memory / (1 << 20), "MiB", raw=real.memory / (1 << 20))
    report.check("deliveries that were really written", real.phase.delivered, real.expected)
    report.check("events that are left", real.left, 0)
    real_mean = real.phase.delivered / max(1, real.phase.durable)
    mean = found.deliveries / max(1.0, found.delivered + found.left)
    report.add("deliveries of a post", mean, raw=real_mean)
    report.check("deliveries of a post in the simulation, within a fifth", abs(mean / real_mean - 1) <= _OFF, 1)


def main() -> None:
    options = parser(
        __doc__,
        quick={"members": 2_000, "seconds": 10.0, "rate": 500.0},
        smallest={"members": 200, "seconds": 1.0, "rate": 500.0},
    )
    keep_option(options)
    options.add_argument("--members", type=int, default=100_000, help="number of members of a generated network")
    options.add_argument("--seconds", type=float, default=60.0, help="seconds for which members post")
    options.add_argument("--rate", type=float, default=1_000.0, help="posts per second")
    chosen: argparse.Namespace = options.parse_args()
    report = Report("simulated", chosen.size)
    names, follows = numbered(chosen.members), power_law(chosen.members, 10 * chosen.members)
    degrees = np.bincount(follows[:, 1], minlength=len(names))
    authors = draw_authors(degrees, 100_000, min(_DELIVERIES_OF_A_POST, chosen.members / 10))
    with workplace(chosen.keep) as place:
        store, path = place / f"network-{len(names)}.db", place / "simulated.db"
        build(store, names, follows, real_authors(len(names), follows))
        copied(store, path)
        costs = calibrated(place, hasty=chosen.size == SMALLEST)
        due = moments(chosen.rate, chosen.seconds)
        real = uvloop.run(really(path, ids_of(names), degrees, authors, due))
        for stale in place.glob("simulated*"):
            stale.unlink()
    compare(report, real, simulated(costs, real, degrees, authors, chosen.rate, chosen.seconds))
    report.show()


if __name__ == "__main__":
    main()

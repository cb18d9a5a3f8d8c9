"""End to end through the library: durable posts per second, and the resulting timeline entries.

The 37,700 members of the real graph, with full, warm timelines, in one SQLite file on disk. Authors are drawn so that a post has
403 followers on average, the load of Rama's Twitter-scale demonstration. First, posts are offered on a schedule (an open loop: a
late post waits in a queue, and its wait counts), then at the maximum rate of 64 and 256 writers. The lags of a post begin at the
time in its id, before its commit. The lag to delivery ends when the home timelines of its followers have it; the lag to the last
consumer ends when the search index has it too, which is written for many posts at once. The raw engines of that run are bare
SQLite, which inserts these rows in groups of equal size, and a bare NumPy ring with equal follower sets.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import uvloop

from benchmarks.fanout_memory import BareRing
from benchmarks.measure import REAL_DATA, Report, keep_option, parser, spread, workplace
from benchmarks.posting import Phase, full_speed, offered, open_bench
from benchmarks.raw_sqlite import insert_posts
from benchmarks.stores import Ints, build, ids_of, numbered, power_law, real_authors, real_graph
from shoal.graph.schema import POSTED
from shoal.timelines.contract import Slots
from shoal.timelines.memory import _reserve

_FOLLOWERS = 403


@dataclass
class Outcome:
    """Results of the run that the raw engines are compared with."""

    phases: dict[str, Phase] = field(default_factory=dict)
    follower_set_cache: list[Slots] = field(default_factory=list)
    authors: list[int] = field(default_factory=list)


def draw_authors(degrees: Ints, count: int, mean: float) -> Ints:
    """Draw positions of authors, weighted by connections, so that the mean number of followers is `mean`."""
    low, high = 0.0, 4.0
    weights = np.ones(len(degrees))
    for _ in range(50):
        power = (low + high) / 2
        weights = np.maximum(degrees, 0.0) ** power
        weights /= weights.sum()
        low, high = (power, high) if (weights * degrees).sum() < mean else (low, power)
    return np.random.default_rng(5).choice(len(degrees), count, p=weights).astype(np.int64)


async def run(
    path: Path, members: Ints, degrees: Ints, authors: Ints, chosen: argparse.Namespace, report: Report
) -> Outcome:
    """Run all phases on one store."""
    outcome = Outcome()
    async with open_bench(path, members, degrees, authors) as bench:
        there = counted_posts(path)
        started = time.perf_counter()
        await bench.warm_all()
        report.add("full warm timelines", len(await bench.network.timelines.members(len(members))))
        report.add("time to warm timelines", time.perf_counter() - started, "s")
        await full_speed(bench, 64, 1.0)
        outcome.phases["offered"] = await offered(bench, chosen.rate, chosen.seconds)
        for writers in (64, 256):
            outcome.phases[f"{writers} writers"] = await full_speed(bench, writers, chosen.flat_out)
        written = counted_posts(path) - there
        report.check("posts that were answered and are in the file", written, bench.durable)
        report.check("posts whose fan-out is done", bench.fanned_out, bench.durable)
        report.check("events that are left", await bench.network.store.backlog(), 0)
        report.check("deliveries that were written", bench.counted.written, bench.expected)
        outcome.authors = list(bench.next_authors(1_000 if report.quick else 30_000))
        outcome.follower_set_cache = [await bench.follower_set(author) for author in outcome.authors]
    return outcome


def counted_posts(path: Path) -> int:
    """Return the number of posts listed in the file."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as store:
        found = store.execute(
            "SELECT count(*) FROM association WHERE alive > 0 AND atype = ?", (POSTED.number,)
        ).fetchone()
    return int(found[0])


def copied(store: Path, path: Path) -> None:
    """Copy a store and sync it, so that no writes of the copy are pending during a measurement."""
    for stale in path.parent.glob(f"{path.name}*"):
        stale.unlink()
    shutil.copyfile(store, path)
    os.sync()


def bare_ring(follower_set_cache: list[Slots], members: int, length: int) -> float:
    """Return deliveries per second of a core that only writes these follower sets to a ring."""
    flat = _reserve(members * length)
    flat[:] = 1
    ring = BareRing(flat, members, length)
    started = time.thread_time()
    for entry, follower_set in enumerate(follower_set_cache, 2):
        ring.push(entry, follower_set)
    return sum(map(len, follower_set_cache)) / (time.thread_time() - started)


def tell(report: Report, name: str, phase: Phase, sqlite: float, ring: float, rate: float | None) -> None:
    """Add the rows of a phase. `rate` is the offered rate, if the phase has a target."""
    lag, whole, answer = spread(phase.lags), spread(phase.whole_lags), spread(phase.answers)
    report.add(f"{name}: durable posts", phase.durable / phase.seconds, "1/s", raw=sqlite)
    report.add(
        f"{name}: written deliveries",
        phase.delivered / phase.drained,
        "1/s",
        raw=ring,
    )
    report.add(f"{name}: deliveries per post", phase.delivered / max(1, phase.durable))
    report.add(f"{name}: lag to delivery, p50", lag.median, "ms")
    report.add(f"{name}: lag to delivery, p99", lag.p99, "ms")
    report.add(f"{name}: lag to delivery, max", lag.most, "ms")
    report.add(f"{name}: lag to the last consumer, p50", whole.median, "ms")
    report.add(f"{name}: lag to the last consumer, p99", whole.p99, "ms")
    report.add(f"{name}: delay until durable, p50", answer.median * 1e3, "ms")
    report.add(f"{name}: delay until durable, p99", answer.p99 * 1e3, "ms")
    report.add(f"{name}: fan-out drained after the last post", phase.drained - phase.seconds, "s")
    report.add(f"{name}: processor time per post", phase.processor / max(1, phase.durable) * 1e6, "us")
    report.add(f"{name}: posts per group commit", phase.durable / max(1, len(phase.groups)))
    report.add(f"{name}: disk writes of the machine per post", phase.bytes / max(1, phase.durable), "B")
    report.add(f"{name}: posts refused while deliveries were too far behind", phase.refused)
    if rate:
        report.add(f"{name}: posts not started", phase.missed)
    for thread, clock in phase.clocks.items():
        if clock.ran > 0.01 * phase.drained:
            report.add(f"{name}: {thread} ran", clock.ran / phase.drained * 100, "% of the time")
            report.add(f"{name}: {thread} waited for a core", clock.waited / phase.drained * 100, "% of the time")


def main() -> None:
    options = parser(
        __doc__,
        quick={"members": 2_000, "rate": 1_000, "seconds": 2, "flat_out": 1},
        smallest={"members": 400, "rate": 200, "seconds": 0.5, "flat_out": 0.2},
    )
    keep_option(options)
    options.add_argument(
        "--data", type=Path, default=REAL_DATA, help="directory that contains graph/nodes.csv and graph/edges.csv"
    )
    options.add_argument("--rate", type=float, default=3_500, help="posts submitted per second")
    options.add_argument("--seconds", type=float, default=60, help="seconds for which posts are submitted at --rate")
    options.add_argument("--flat-out", type=float, default=15, help="duration in seconds of each run at full speed")
    options.add_argument(
        "--members", type=int, default=0, help="number of members of a generated network; 0: use the network in --data"
    )
    chosen = options.parse_args()
    made_up = chosen.members
    names, follows = (numbered(made_up), power_law(made_up, 10 * made_up)) if made_up else real_graph(chosen.data)
    degrees = np.bincount(follows[:, 1], minlength=len(names))
    authors = draw_authors(degrees, 100_000, min(_FOLLOWERS, made_up / 20) if made_up else _FOLLOWERS)
    report = Report("end_to_end", chosen.size)
    with workplace(chosen.keep) as place:
        store = place / f"network-{len(names)}.db"
        built = time.perf_counter()
        build(store, names, follows, real_authors(len(names), follows))
        report.add("time to build the store", time.perf_counter() - built, "s")
        path, copy = place / "end_to_end.db", place / "end_to_end_raw.db"
        copied(store, path)
        outcome = uvloop.run(run(path, ids_of(names), degrees, authors, chosen, report))
        ring = bare_ring(outcome.follower_set_cache, len(names), 800)
        for name, phase in outcome.phases.items():
            copied(store, copy)
            sqlite = insert_posts(copy, outcome.authors, "x" * 102, phase.groups)
            tell(report, name, phase, sqlite, ring, chosen.rate if name == "offered" else None)
            copy.unlink()
        for stale in place.glob("end_to_end*"):
            stale.unlink()
    report.show()


if __name__ == "__main__":
    main()

"""The cost of following, unfollowing and following again: bytes written, rows, and processor time.

In a network on SQLite, members follow others for the first time, unfollow them, follow them again, and unfollow them again. Pages
are counted in the write-ahead log, which is not checkpointed during the run: the logged bytes, and the bytes of the distinct
pages, which a single checkpoint would write. Processor time is that of the whole process including the consumers, the minimum of
several runs.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import uvloop

from benchmarks.end_to_end import copied
from benchmarks.measure import REAL_DATA, Report, keep_option, parser, workplace
from benchmarks.post_costs import logged, writers_of
from benchmarks.stores import Ints, build, ids_of, numbered, power_law, real_graph, url_of
from shoal.app import process
from shoal.app.network import Network, open_network
from shoal.graph.sqlite.store import PAGE_BYTES
from shoal.library import Handle, Shoal
from shoal.settings import Settings

_ACTS = ("follow", "unfollow", "follow again", "unfollow again")


class Pair(NamedTuple):
    """A member, and another member whom they do not follow."""

    member: int
    other: int


class Cost(NamedTuple):
    """Totals of an action by all members."""

    cpu: float
    logged: int
    pages: int
    rows: int


def strangers(follows: Ints, members: int, wanted: int) -> list[Pair]:
    """Draw pairs without a follow. The probability of a followee is proportional to the number of followers."""
    rng = np.random.default_rng(5)
    held = set(map(tuple, follows.tolist()))
    popular = follows[:, 1]
    found: dict[Pair, None] = {}
    while len(found) < wanted:
        pair = Pair(int(rng.integers(members)), int(rng.choice(popular)))
        if pair.member != pair.other and tuple(pair) not in held:
            found[pair] = None
    return list(found)


def rows_in(path: Path) -> int:
    """Return the number of associations and tombstones in the store, without its counts."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as store:
        return int(store.execute("SELECT count(*) FROM association WHERE alive >= 0").fetchone()[0])


async def acted(
    network: Network, path: Path, pairs: Sequence[Pair], act: Callable[[Pair], Awaitable[object]], writers: int
) -> Cost:
    """Run one action for every pair, several concurrently, and wait for its consequences."""
    for connection in writers_of(network):
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before, order, cpu = rows_in(path), iter(pairs), time.process_time()

    async def work() -> None:
        for pair in order:
            await act(pair)

    await asyncio.gather(*(work() for _ in range(writers)))
    await network.settle(300)
    cpu = time.process_time() - cpu
    log = logged(path)
    return Cost(cpu, log.frames.total(), log.pages.total(), rows_in(path) - before)


async def run(path: Path, pairs: Sequence[Pair], ids: Sequence[int], writers: int) -> dict[str, Cost]:
    """Run each action in turn for all pairs."""
    process.prepare()
    memory = "memory://"
    async with open_network(Settings(store=url_of(path), media=memory, search=memory, tags=memory)) as network:
        process.settle()
        shoal = Shoal(network)
        handles: dict[int, Handle] = {at: await shoal.member(ids[at]) for at in {pair.member for pair in pairs}}

        async def follow(pair: Pair) -> None:
            await handles[pair.member].follow(ids[pair.other])

        async def unfollow(pair: Pair) -> None:
            await handles[pair.member].unfollow(ids[pair.other])

        return {
            name: await acted(network, path, pairs, unfollow if name.startswith("un") else follow, writers)
            for name in _ACTS
        }


def tell(report: Report, runs: Sequence[dict[str, Cost]], acts: int) -> None:
    """Add the rows of each action: the shortest processor time of all runs, and the other figures of the first run."""
    for name, cost in runs[0].items():
        least = min(costs[name].cpu for costs in runs)
        report.add(f"{name}: processor time", least / acts * 1e6, "us")
        report.add(f"{name}: logged", cost.logged * PAGE_BYTES / acts, "B")
        report.add(f"{name}: different pages", cost.pages * PAGE_BYTES / acts, "B")
        report.add(f"{name}: rows", cost.rows / acts)


def main() -> None:
    options = parser(
        __doc__,
        quick={"members": 2_000, "acts": 2_000, "runs": 2},
        smallest={"members": 60, "acts": 64, "runs": 1, "writers": 8},
    )
    keep_option(options)
    options.add_argument(
        "--data", type=Path, default=REAL_DATA, help="directory that contains graph/nodes.csv and graph/edges.csv"
    )
    options.add_argument(
        "--members", type=int, default=0, help="number of members of a generated network; 0: use the network in --data"
    )
    options.add_argument("--acts", type=int, default=10_000, help="number of follows to create")
    options.add_argument("--runs", type=int, default=5, help="number of repetitions of the whole measurement")
    options.add_argument("--writers", type=int, default=64, help="number of follows that are created concurrently")
    chosen = options.parse_args()
    report = Report("follow_costs", chosen.size)
    with workplace(chosen.keep) as place:
        measure(place, chosen, report)
    report.show()


def measure(place: Path, chosen: argparse.Namespace, report: Report) -> None:
    made_up = chosen.members
    names, follows = (numbered(made_up), power_law(made_up, 10 * made_up)) if made_up else real_graph(chosen.data)
    store, path = place / f"follow-costs-{len(names)}.db", place / "follow_costs.db"
    build(store, names, follows, np.empty(0, np.int64))
    pairs = strangers(follows, len(names), chosen.acts)
    runs = []
    for _ in range(chosen.runs):
        copied(store, path)
        runs.append(uvloop.run(run(path, pairs, ids_of(names).tolist(), chosen.writers)))
    tell(report, runs, len(pairs))
    report.check(
        "rows that the first follow adds: two ends and a notification", runs[0]["follow"].rows / len(pairs), 3.0
    )


if __name__ == "__main__":
    main()

from __future__ import annotations

import argparse
import sqlite3
import statistics
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import uvloop

from benchmarks.measure import REAL_DATA, Report, keep_option, parser, spread, workplace
from benchmarks.stores import Ints, build, ids_of, numbered, power_law, real_authors, real_graph, url_of
from shoal import Shoal
from shoal.queries import home

_FOLLOWS = 100
_ROUNDS = 5


def made_up(members: int, posts: int, readers: int) -> tuple[Ints, Ints, Ints]:
    """Return positions of the readers, their follows, and the author of each post: about ten posts per author."""
    rng = np.random.default_rng(members + posts)
    authors = rng.choice(members, min(members // 2, max(_FOLLOWS, posts // 10)), replace=False)
    those = np.setdiff1d(np.arange(members), authors)
    reading = rng.choice(those, min(readers, len(those)), replace=False).astype(np.int64)
    wanted = min(_FOLLOWS, len(authors))
    follows = np.concatenate(
        [np.column_stack((np.full(wanted, reader), rng.choice(authors, wanted, replace=False))) for reader in reading]
    )
    # All authors post equally often, so pages of small and large networks have equally many authors.
    return reading, follows.astype(np.int64), rng.permutation(np.resize(authors, posts)).astype(np.int64)


async def warm(path: Path, readers: list[int], report: Report, name: str) -> tuple[list[float], list[float], list[int]]:
    """Return microseconds of the first pages and of later ones, and the post ids of a page."""
    first: list[float] = []
    later: list[float] = []
    short = authors = 0
    ids: list[int] = []
    async with Shoal.open(url_of(path), media="memory://") as shoal:
        handles = [await shoal.member(reader) for reader in readers]
        for handle in handles:
            await home.warm_up(shoal.network.reads, handle.id)
        for times in [first] + [later] * _ROUNDS:
            for handle in handles:
                started = time.perf_counter()
                page = await handle.home()
                times.append((time.perf_counter() - started) * 1e6)
                short += len(page.entries) != 20
                authors += len({entry.post.author_id for entry in page.entries})
                ids = [entry.post.id for entry in page.entries]
    pages = len(first) + len(later)
    report.add(f"{name}: authors of a page, mean", authors / pages)
    report.check(f"{name}: pages that were 20 long", pages - short, pages)
    return first, later, ids


def raw(path: Path, ids: list[int]) -> float:
    """Return the median microseconds of a bare cursor for these rows."""
    times: list[float] = []
    with closing(sqlite3.connect(path)) as store:
        cursor = store.cursor()
        for _ in range(300):
            started = time.perf_counter()
            rows = [cursor.execute("SELECT data FROM object WHERE id = ?", (id_,)).fetchone() for id_ in ids]
            times.append((time.perf_counter() - started) * 1e6)
            assert all(rows)
    return statistics.median(times)


def warm_sizes(place: Path, chosen: argparse.Namespace, report: Report) -> None:
    medians: list[float] = []
    for members in chosen.members:
        for posts in chosen.posts:
            readers, follows, authors = made_up(members, posts, chosen.readers)
            path = place / f"home-{members}-{posts}-{chosen.readers}.db"
            names = numbered(members)
            build(path, names, follows, authors)
            name = f"{members:,} members, {posts:,} posts"
            first, later, ids = uvloop.run(warm(path, ids_of(names)[readers].tolist(), report, name))
            times = spread(later)
            medians.append(times.median)
            report.add(f"{name}: warm page, median", times.median, "us", raw=raw(path, ids))
            report.add(f"{name}: warm page, p99", times.p99, "us")
            report.add(f"{name}: first page after a rebuild, median", spread(first).median, "us")
    report.add("most expensive size / cheapest size", max(medians) / min(medians), "times")


async def cold(path: Path, reader: int, repeats: int) -> tuple[list[float], list[float], int]:
    """Return milliseconds of a first page after opening the store and after dropping only the timeline, and its entries."""
    opened: list[float] = []
    dropped: list[float] = []
    entries = 0
    for _ in range(repeats):
        async with Shoal.open(url_of(path), media="memory://") as shoal:
            handle = await shoal.member(reader)
            for times in (opened, dropped):
                await shoal.network.timelines.drop((reader,))
                started = time.perf_counter()
                entries = len((await handle.home()).entries)
                times.append((time.perf_counter() - started) * 1e3)
    return opened, dropped, entries


def cold_pages(place: Path, chosen: argparse.Namespace, report: Report) -> None:
    """Measure a member with 200 followees and the member with the most followees."""
    made_up = chosen.cold_members
    names, follows = (numbered(made_up), power_law(made_up, 10 * made_up)) if made_up else real_graph(chosen.data)
    path = place / f"network-{len(names)}.db"
    build(path, names, follows, real_authors(len(names), follows))
    degrees = np.bincount(follows[:, 0], minlength=len(names))
    ids = ids_of(names)
    for wanted in (200, 9_000):
        reader = int(np.argmin(np.abs(degrees - wanted)))
        opened, dropped, entries = uvloop.run(cold(path, int(ids[reader]), 3 if report.quick else 9))
        name = f"cold page, follows {degrees[reader]:,} of {len(names):,}"
        report.add(f"{name}: just opened, median", statistics.median(opened), "ms")
        report.add(f"{name}: just opened, max", max(opened), "ms")
        report.add(f"{name}: timeline dropped, median", statistics.median(dropped), "ms")
        report.check(f"{name}: entries", entries, 20)


def main() -> None:
    options = parser(
        __doc__,
        quick={
            "readers": 100,
            "members": [1_000, 10_000, 20_000],
            "posts": [100, 1_000, 10_000],
            "cold_members": 3_000,
        },
        smallest={"readers": 10, "members": [300, 500], "posts": [100, 300], "cold_members": 500},
    )
    keep_option(options)
    options.add_argument(
        "--data", type=Path, default=REAL_DATA, help="directory that contains graph/nodes.csv and graph/edges.csv"
    )
    options.add_argument(
        "--readers", type=int, default=1_000, help="number of members whose home pages are read, one after another"
    )
    options.add_argument(
        "--members",
        type=int,
        nargs="+",
        default=[10_000, 100_000, 1_000_000],
        help="numbers of members of the measured networks",
    )
    options.add_argument(
        "--posts",
        type=int,
        nargs="+",
        default=[100, 10_000, 1_000_000],
        help="numbers of posts of the measured networks, in the order of --members",
    )
    options.add_argument(
        "--cold-members",
        type=int,
        default=0,
        help="number of members of the generated network in which cold pages are read; 0: use the network in --data",
    )
    options.add_argument(
        "--only",
        choices=("warm", "cold"),
        help="measure only pages of materialized timelines (warm), or only of others (cold)",
    )
    chosen = options.parse_args()
    report = Report("home_page", chosen.size)
    with workplace(chosen.keep) as place:
        if chosen.only != "cold":
            warm_sizes(place, chosen, report)
        if chosen.only != "warm":
            cold_pages(place, chosen, report)
    report.show()


if __name__ == "__main__":
    main()

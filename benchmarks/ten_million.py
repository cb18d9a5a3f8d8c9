"""Networks that differ in size only, imported in bulk and then used: 10,000 members, a million, or any other size.

Each member has six follows on average, with a power law; three tenths follow one member (3,000,000 of 10,000,000), and there is
one post per five members. Each size runs in a separate process that is tuned like `shoal serve` and executes a few calls of an
operation at a time, in turn with the other sizes, so that other load on the machine affects all of them. The figure of an
operation at a size divided by that at the smallest size is the cost of growth.

The long run is `--members 10000 1000000 10000000`: it needs 25 GB of disk, and an hour. `--evict` shows at a million members what
pages from the disk cost a larger network: before each operation, the files of the stores are removed from the system's memory.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import msgspec

from benchmarks.made_network import Shape, write
from benchmarks.measure import REPOSITORY, Report, Spread, keep_option, parser, spread, workplace
from benchmarks.page import BUSY_FIGURE, SECONDS_FIGURE
from benchmarks.results import busy_share
from benchmarks.sized_import import Imported
from benchmarks.sized_network import ACTS, Answer, Cost, Told
from benchmarks.stores import url_of
from shoal_devcluster import postgres

_WHOLE = Shape(10_000_000, 60_000_000, 2_000_000, 3_000_000)
_MIB = 1 << 20
_CLOCK, _PROCESSOR = attrgetter("clock"), attrgetter("processor")


class Place(NamedTuple):
    settings: dict[str, Any]
    folder: Path
    shape: Shape


class Child:
    def __init__(self, place: Place) -> None:
        settings, shape = (msgspec.json.encode(value).decode() for value in (place.settings, place.shape))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.sized_network", settings, shape, str(place.folder)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._next()
        self.memory = 0
        self.wrong = 0

    def _next(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process that runs a measured network exited without a result")
        return line

    def do(self, told: Told) -> Answer:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(told).decode() + "\n")
        self._process.stdin.flush()
        answer = msgspec.json.decode(self._next(), type=Answer)
        self.memory, self.wrong = max(self.memory, answer.memory), answer.wrong
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def imported(place: Place) -> Imported:
    kept = place.folder / "import.json"
    if kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=Imported)
    write(place.folder / "data", place.shape)
    settings = msgspec.json.encode(place.settings).decode()
    command = [sys.executable, "-m", "benchmarks.sized_import", settings, str(place.folder / "data")]
    told = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, check=True).stdout
    stores = place.settings["store"]
    for url in stores.values() if isinstance(stores, dict) else ():
        asyncio.run(_vacuum(url))
    kept.write_bytes(told)
    return msgspec.json.decode(told, type=Imported)


async def _vacuum(url: str) -> None:
    """Do what the server does by itself soon after an import: later measurements would share the machine with it."""
    connection = await asyncpg.connect(url)
    await connection.execute("VACUUM (ANALYZE)")
    await connection.close()


@contextmanager
def placed(folder: Path, engine: str, shape: Shape) -> Iterator[Place]:
    """Yield the location of a network of this shape: an SQLite file, or two PostgreSQL servers that run until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    limits = {"rate_limits": False}
    if engine == "sqlite":
        yield Place({"store": url_of(folder / "shoal.db"), **limits}, folder, shape)
        return
    # The servers run as another user, who must be able to enter the folders.
    for shown in (folder.parent, folder):
        shown.chmod(0o755)
    with ExitStack() as stack:
        servers = [postgres.start(folder / f"store-{n}") for n in range(2)]
        for server in servers:
            stack.callback(server.stop)
        yield Place({"store": {"0-31": servers[0].url, "32-63": servers[1].url}, **limits}, folder, shape)


def tell_import(report: Report, name: str, place: Place, done: Imported) -> None:
    """Add the rates of an import, and the size of its result."""
    taken, seconds, shape = done.taken, done.seconds, place.shape
    report.check(f"{name}: members that were imported", taken["members"], shape.members)
    report.check(f"{name}: posts that were imported", taken["posts"], shape.posts)
    for kind in ("members", "follows", "posts"):
        report.add(f"{name}: {kind}", taken[kind])
        report.add(f"{name}: {kind} imported per second", taken[kind] / seconds[kind], "1/s")
    report.add(f"{name}: time to read the files", seconds["reading"], "s")
    report.add(f"{name}: time to fill the search index", seconds["search"], "s")
    report.add(f"{name}: import, total", sum(seconds.values()), "s")
    report.add(f"{name}: import, processor time", done.processor, "s")
    report.add(f"{name}: import, peak memory", done.memory / _MIB, "MiB")
    read = place.folder / "data"
    held = sum(path.stat().st_size for path in place.folder.rglob("*") if path.is_file() and read not in path.parents)
    report.add(f"{name}: stores and search index", held / _MIB, "MiB")


def measure(children: dict[str, Child], chosen: argparse.Namespace, report: Report) -> None:
    """Run every operation in turns, and report its cost at each size and relative to the smallest."""
    for act in chosen.acts:
        costs: dict[str, list[Cost]] = {name: [] for name in children}
        for turn in range(chosen.rounds + 1):
            for name, child in children.items():
                answer = child.do(Told(act, max(1, int(chosen.calls * ACTS[act])), chosen.evict and not turn))
                # The first round is a warm-up: caches are empty, and large sizes have more to load.
                if turn:
                    costs[name] += answer.costs
        _tell(act, costs, report, evicted=chosen.evict)


def _tell(act: str, costs: dict[str, list[Cost]], report: Report, *, evicted: bool) -> None:
    smallest = next(iter(costs))

    def spread_of(name: str, what: Callable[[Cost], float]) -> Spread:
        return spread([what(cost) for cost in costs[name]])

    for name, several in costs.items():
        times, worked = spread_of(name, _CLOCK), spread_of(name, _PROCESSOR)
        report.add(f"{name}: {act}, median", times.median, "ms")
        report.add(f"{name}: {act}, p99", times.p99, "ms")
        report.add(f"{name}: {act}, processor time, median", worked.median, "ms")
        report.add(f"{name}: {act}, read from files, mean", _mean(several, attrgetter("read")) / 1024, "KiB")
        if evicted:
            report.add(f"{name}: {act}, read from the disk, mean", _mean(several, attrgetter("disk")) / 1024, "KiB")
        if entries := _mean(several, attrgetter("entries")):
            report.add(f"{name}: {act}, entries of the rebuilt timeline, mean", entries)
        if shown := _mean(several, attrgetter("shown")):
            report.add(f"{name}: {act}, entries on the page, mean", shown)
        if name != smallest:
            over = f"{name}: {act}, over {smallest}"
            growth = times.median / spread_of(smallest, _CLOCK).median
            report.add(over, growth, "times")
            if shown:
                shown /= _mean(costs[smallest], attrgetter("shown"))
                report.add(f"{over}, for each entry on the page", growth / shown, "times")
            processor = worked.median / (spread_of(smallest, _PROCESSOR).median or 1.0)
            report.add(f"{over}, processor time", processor, "times")


def _mean(costs: Sequence[Cost], what: Callable[[Cost], float]) -> float:
    return sum(map(what, costs)) / len(costs)


def _sizes(place: Path, engine: str, chosen: argparse.Namespace, report: Report) -> None:
    with ExitStack() as stack:
        children: dict[str, Child] = {}
        for members in sorted(chosen.members):
            name = f"{members:,} members"
            folder = place / f"{engine}-{members}"
            found = stack.enter_context(placed(folder, engine, _WHOLE.scaled(members)))
            done = imported(found)
            if not chosen.evict:
                tell_import(report, name, found, done)
            children[name] = Child(found)
            stack.callback(children[name].close)
        measure(children, chosen, report)
        for name, child in children.items():
            report.add(f"{name}: memory", child.memory / _MIB, "MiB")
            report.check(f"{name}: wrong answers", child.wrong, 0)


def main() -> None:
    options = parser(
        __doc__,
        quick={"members": [2_000, 20_000], "rounds": 3, "calls": 20},
        smallest={"members": [200, 1_000], "rounds": 1, "calls": 4},
    )
    keep_option(options)
    options.add_argument(
        "--members",
        type=int,
        nargs="+",
        default=[10_000, 1_000_000],
        help="numbers of members of the measured networks",
    )
    options.add_argument("--rounds", type=int, default=10, help="number of rounds for each network and operation")
    options.add_argument(
        "--calls", type=int, default=40, help="number of calls per round; expensive operations are called less often"
    )
    options.add_argument(
        "--engine",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="engine of the store: an SQLite file, or two PostgreSQL servers",
    )
    options.add_argument("--acts", nargs="+", choices=ACTS, default=list(ACTS), help="operations to measure")
    options.add_argument("--evict", action="store_true", help="first evict the files of the store from the page cache")
    chosen = options.parse_args()
    words = ("ten_million", "" if chosen.engine == "sqlite" else chosen.engine, "evicted" if chosen.evict else "")
    report = Report(" ".join(filter(None, words)), chosen.size)
    began = time.perf_counter()
    report.add(BUSY_FIGURE, busy_share())
    with workplace(chosen.keep) as place:
        _sizes(place, chosen.engine, chosen, report)
    report.add(SECONDS_FIGURE, time.perf_counter() - began, "s")
    report.show()


if __name__ == "__main__":
    main()

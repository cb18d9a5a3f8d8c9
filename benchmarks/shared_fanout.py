"""One post to a million followers through outbox, RabbitMQ and `shoal worker` to Redis, while other members post.

The followers are associations of one PostgreSQL store, in both directions and with their counts. Their timelines are warm,
written in bulk as `RedisTimelines` would write them, and hold 50 entries (`--entries`), because a million with 800 would take 9
GB; a push appends 8 bytes in both cases. Other authors, each with 400 of these followers, post at a steady rate. This process
commits the posts and relays them; the workers are separate processes.

The lag of a post is measured from the acknowledgment of its commit until it is at the end of the timeline of its author's oldest
follower, which is written last. For the post to all, 200 members spread over the last page and all others are polled until each
has it; then the timelines of all followers are counted. The raw engine is Redis alone, with a client that sends these pushes
pre-encoded.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import uvloop
from redis import Redis

from benchmarks.measure import Report, parser, spread, tree_cpu
from benchmarks.shared_engines import Engines, engines
from benchmarks.shared_rows import Crowd, fill
from benchmarks.stores import Ints
from shoal import Handle, Shoal
from shoal.app.network import open_network
from shoal.core.ids import EPOCH_MS, floor_at
from shoal.graph.redis.client import KEY_BYTES, Script, keys_of
from shoal.settings import Settings, environment
from shoal.timelines.redis_scripts import HEAD_BYTES, PUSH

_TAIL = 800
"""Number of bytes at the end of a timeline that are searched: a hundred entries."""
_LOOK_SECONDS = 0.005
_PATIENCE_SECONDS = 120.0
_IDLE_SECONDS = 86_400
_AT_ONCE = 500

_WARM = Script(
    "bench.warm",
    f"local KEY = {KEY_BYTES}\n"
    + r"""
-- ARGV: keys, what stands behind the history, seconds.
local value = history() .. ARGV[2]
for at = 1, #ARGV[1], KEY do redis.call('SET', string.sub(ARGV[1], at, at + KEY - 1), value, 'EX', ARGV[3]) end
return {refused, true}
""",
)
_FIND = Script(
    "bench.find",
    f"local KEY, TAIL = {KEY_BYTES}, {_TAIL}\n"
    + r"""
-- ARGV: keys, an entry: how often it is at the end of each.
local found = {}
for at = 1, #ARGV[1], KEY do
  local data, n, place = redis.call('GETRANGE', string.sub(ARGV[1], at, at + KEY - 1), -TAIL, -1), 0, 0
  repeat
    place = string.find(data, ARGV[2], place + 1, true)
    n = n + (place and 1 or 0)
  until not place
  found[#found + 1] = n
end
return {refused, found}
""",
)


class Size(NamedTuple):
    """Sizes of the network and the load."""

    followers: int
    authors: int
    each: int
    rate: float
    entries: int
    rounds: int
    settling: float


class Run(NamedTuple):
    """One post to all followers. Lags are in seconds: of other posts before it and during its fan-out."""

    seconds: float
    quiet: list[float]
    busy: list[float]
    missed: int
    twice: int
    cpu: dict[str, float]


def people(size: Size) -> tuple[Ints, Ints, Ints]:
    """Return ids of followers and authors (all follow the first), and rows of follower and author, newest last."""
    number = np.arange(1, size.followers + size.authors + 2, dtype=np.int64)
    every = (10 * number) << 23 | (613 * number % 8_192) << 10
    authors, followers = every[: size.authors + 1], every[size.authors + 1 :]
    rng = np.random.default_rng(7)
    parts = [np.column_stack((followers, np.full(len(followers), authors[0])))]
    for author in authors[1:]:
        some = rng.choice(followers, min(size.each, len(followers)), replace=False)
        parts.append(np.column_stack((some, np.full(len(some), author))))
    follows = np.concatenate(parts)
    return followers, authors, follows[rng.permutation(len(follows))]


class Bench:
    """A filled network, and a client of its Redis."""

    def __init__(self, of: Engines, size: Size, report: Report) -> None:
        self.engines = of
        self.size = size
        self.report = report
        self.server: Any = Redis.from_url(of.redis.url)
        self.followers, self.authors, self.follows = people(size)
        self.settings: Settings = of.settings(run_consequences=False, high_fan_out_from=2 * size.followers)
        by_author: dict[int, int] = {}
        for follower, author in self.follows.tolist():
            by_author.setdefault(author, follower)
        self.longest = by_author
        """The longest-standing follower of each author."""
        theirs = self.follows[self.follows[:, 1] == self.authors[0]][:, 0]
        self.looked_at = np.concatenate((theirs[:20_000:200], theirs[:: max(1, len(theirs) // 100)]))

    async def fill(self) -> None:
        async with open_network(self.settings, background=False):
            # Opening a store creates its tables.
            pass
        started = time.perf_counter()
        names = [f"author_{n}" for n in range(len(self.authors))]
        nobody = np.empty(0, np.int64)
        of = Crowd(self.authors, names, self.follows, nobody, nobody)
        rows = await fill([store.url for store in self.engines.stores], of)
        copied = time.perf_counter()
        print(f"  {rows:,} rows were copied in {copied - started:.1f} s")
        self.warm()
        held = int(self.server.info("memory")["used_memory"])
        print(
            f"  {len(self.followers):,} timelines were written in {time.perf_counter() - copied:.1f} s: {held:,} bytes"
        )

    def warm(self) -> None:
        """Return the bytes of full timelines: header, `f`, floor, entries."""
        first = floor_at(EPOCH_MS + 86_400_000)
        entries = np.arange(first, first + self.size.entries, dtype="<i8").tobytes()
        behind = b"7 bytes" + b"f" + bytes(8) + entries
        keys = keys_of("t", self.followers)
        for at in range(0, len(keys), _AT_ONCE):
            self.server.eval(_WARM.text, 0, keys[at : at + _AT_ONCE].tobytes(), behind, _IDLE_SECONDS)

    def found(self, entry: int, members: Ints) -> Ints:
        """Return how often an entry is in the timeline of each of these members."""
        keys, packed = keys_of("t", members), entry.to_bytes(8, "little")
        counts: list[int] = []
        for at in range(0, len(keys), _AT_ONCE):
            counts += self.server.eval(_FIND.text, 0, keys[at : at + _AT_ONCE].tobytes(), packed)[1]
        return np.array(counts, np.int64)

    def alone(self) -> float:
        """Return the seconds that Redis needs for these pushes, with 200 keys each and 20 pushes per packet."""
        keys, entry = keys_of("t", self.followers), floor_at(EPOCH_MS + 9 * 86_400_000).to_bytes(8, "little")
        sha = self.server.script_load(PUSH.text)
        # Arguments of the timelines: capacity, cut position, cut interval, half of the maximum, cuts.
        shape = (6_400, HEAD_BYTES + 6_400 + 1_600, 160, (HEAD_BYTES + 9_600) // 2, 4, entry)
        started = time.perf_counter()
        for first in range(0, len(keys), 20 * 200):
            pipeline = self.server.pipeline(transaction=False)
            for at in range(first, min(first + 20 * 200, len(keys)), 200):
                some = keys[at : at + 200]
                pipeline.execute_command("EVALSHA", sha, 0, some.tobytes(), *shape, len(some), b"0")
            pipeline.execute()
        return time.perf_counter() - started

    def cpu(self, workers: int) -> dict[str, float]:
        """Return the CPU seconds of all participating processes so far."""
        parts = {"workers": workers, "this process": os.getpid()}
        programs = {"Redis": self.engines.redis, "PostgreSQL": self.engines.stores[0], "RabbitMQ": self.engines.broker}
        parts |= {name: program.pid for name, program in programs.items() if program is not None and program.pid}
        spent = {name: tree_cpu(pid) for name, pid in parts.items()}
        # All processes that this one started are its descendants.
        spent["this process"] -= sum(seconds for name, seconds in spent.items() if name != "this process")
        return spent


@contextmanager
def workers(settings: Settings, count: int) -> Iterator[int]:
    """Run `shoal worker` with `count` processes; yield the id of their supervisor."""
    command = [sys.executable, "-m", "shoal.cli", "worker", "--processes", str(count)]
    process = subprocess.Popen(command, env={**os.environ, **environment(settings)})  # our own program
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(90)


class Others:
    """Other members who post continuously, and the times of their posts."""

    def __init__(self, bench: Bench, handles: Sequence[Handle]) -> None:
        self._bench = bench
        self._handles = handles
        self._waiting: dict[int, tuple[int, float]] = {}
        self._posting: set[asyncio.Task[None]] = set()
        self._ending = False
        self.arrived: list[tuple[float, float]] = []

    async def run(self) -> None:
        """Post and poll until stopped and every post has arrived."""
        started, made = time.perf_counter(), 0
        rng = random.Random(11)
        while not self._ending or self._waiting or self._posting:
            due = int((time.perf_counter() - started) * self._bench.size.rate)
            while made < due and not self._ending:
                task = asyncio.create_task(self._post(rng.choice(self._handles), made))
                self._posting.add(task)
                task.add_done_callback(self._posting.discard)
                made += 1
            self._look()
            await asyncio.sleep(_LOOK_SECONDS)

    def end(self) -> None:
        self._ending = True

    async def _post(self, author: Handle, number: int) -> None:
        post = await author.create(
            f"Post {number}: the boats lie on the sand and wait, and the light goes gray at six."
        )
        self._waiting[post.id] = (self._bench.longest[author.id], time.perf_counter())

    def _look(self) -> None:
        pipeline = self._bench.server.pipeline(transaction=False)
        asked = list(self._waiting.items())
        for _, (reader, _) in asked:
            pipeline.getrange(keys_of("t", np.array([reader]))[0].tobytes(), -_TAIL, -1)
        now = time.perf_counter()
        for (post, (_, committed)), data in zip(asked, pipeline.execute() if asked else [], strict=True):
            if post.to_bytes(8, "little") in data:
                self.arrived.append((committed, now - committed))
                del self._waiting[post]


async def arrival(bench: Bench, post: int) -> None:
    """Return when all sampled members have the post."""
    deadline = time.perf_counter() + _PATIENCE_SECONDS
    while not (found := bench.found(post, bench.looked_at)).all():
        if time.perf_counter() > deadline:
            raise SystemExit(f"the post has reached only {found.astype(bool).mean():.0%} of the sampled members")
        await asyncio.sleep(0.02)


async def one_post(bench: Bench, shoal: Shoal, star: Handle, handles: Sequence[Handle], pid: int) -> Run:
    """Measure one post to all followers while others post."""
    others = Others(bench, handles)
    posting = asyncio.create_task(others.run())
    try:
        await asyncio.sleep(bench.size.settling)
        cpu = bench.cpu(pid)
        post = await star.create("A post to all: the boats are afloat again.")
        committed = time.perf_counter()
        await arrival(bench, post.id)
        arrived = time.perf_counter()
        spent = {name: seconds - cpu[name] for name, seconds in bench.cpu(pid).items()}
        await asyncio.sleep(bench.size.settling / 3)
    finally:
        others.end()
        await posting
    # Afterwards, no entry is in flight, so a missing entry is lost.
    await shoal.network.settle()
    counts = bench.found(post.id, bench.followers)
    quiet = [lag for at, lag in others.arrived if at + lag < committed]
    busy = [lag for at, lag in others.arrived if at + lag >= committed and at < arrived]
    return Run(arrived - committed, quiet, busy, int((counts == 0).sum()), int((counts > 1).sum()), spent)


async def measure(bench: Bench, count: int) -> list[Run]:
    """Measure one post to all per round, with this number of workers."""
    with workers(bench.settings, count) as pid:
        async with open_network(bench.settings) as network:
            shoal = Shoal(network)
            star, *handles = [await shoal.member(int(id_)) for id_ in bench.authors]
            await handles[0].create("The first: workers are there when it has arrived.")
            await network.settle(120)
            return [await one_post(bench, shoal, star, handles, pid) for _ in range(bench.size.rounds)]


def tell(bench: Bench, count: int, runs: list[Run], raw: float) -> None:
    """Add the rows for this number of workers: the median of several rounds; lags of all."""
    name = f"{count} worker{'s' if count > 1 else ''}"
    report, size = bench.report, bench.size
    seconds = statistics.median(run.seconds for run in runs)
    report.add(f"{name}: post to all arrived, median of {len(runs)}", seconds, "s", raw=raw)
    report.add(f"{name}: the slowest", max(run.seconds for run in runs), "s")
    report.add(f"{name}: deliveries of it", size.followers / seconds, "1/s")
    report.check(f"{name}: followers without it", sum(run.missed for run in runs), 0)
    report.add(f"{name}: written twice", max(run.twice for run in runs), f"of {size.followers:,}")
    for when, lags in (("before", [run.quiet for run in runs]), ("during it", [run.busy for run in runs])):
        times = spread([lag * 1_000 for part in lags for lag in part])
        print(f"  {name}: {sum(map(len, lags)):,} posts of others {when}")
        report.add(f"{name}: lag of other posts {when}, median", times.median, "ms")
        report.add(f"{name}: lag of other posts {when}, p99", times.p99, "ms")
        report.add(f"{name}: lag of other posts {when}, most", times.most, "ms")
    for part in runs[0].cpu:
        report.add(f"{name}: CPU of {part} during it", statistics.median(run.cpu[part] for run in runs), "s")


async def run(of: Engines, size: Size, counts: Sequence[int], report: Report) -> None:
    bench = Bench(of, size, report)
    await bench.fill()
    raw = bench.alone()
    for count in counts:
        tell(bench, count, await measure(bench, count), raw)
    bench.server.close()


def main() -> None:
    options = parser(
        __doc__,
        quick={"followers": 20_000, "authors": 20, "rounds": 1},
        smallest={
            "followers": 1_000,
            "authors": 4,
            "each": 50,
            "rate": 5.0,
            "rounds": 1,
            "settling": 0.5,
            "workers": [1],
        },
    )
    options.add_argument(
        "--workers",
        type=int,
        nargs="+",
        default=[1, 2],
        help="numbers of worker processes to measure, one after the other",
    )
    options.add_argument(
        "--each",
        type=int,
        default=400,
        help="number of followers of each author, except the author of the measured post",
    )
    options.add_argument(
        "--settling",
        type=float,
        default=3.0,
        help="seconds for which the other authors (--authors) post before the measured post",
    )
    options.add_argument(
        "--followers", type=int, default=1_000_000, help="number of followers of the author of the measured post"
    )
    options.add_argument(
        "--authors",
        type=int,
        default=100,
        help="number of authors who post at the same time as the author of the measured post",
    )
    options.add_argument("--rate", type=float, default=30.0, help="posts per second of all --authors together")
    options.add_argument(
        "--entries", type=int, default=50, help="number of entries in each timeline before the measurement"
    )
    options.add_argument("--rounds", type=int, default=3, help="number of measured posts for each number of workers")
    chosen = options.parse_args()
    size = Size(
        chosen.followers, chosen.authors, chosen.each, chosen.rate, chosen.entries, chosen.rounds, chosen.settling
    )
    report = Report("shared_fanout", chosen.size)
    with engines(1, broker=True) as of:
        uvloop.run(run(of, size, chosen.workers, report))
    report.show()


if __name__ == "__main__":
    main()

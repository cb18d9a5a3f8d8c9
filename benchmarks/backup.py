"""Backups during commits, of one SQLite file and of two PostgreSQL servers.

A commit is a post of eight rows, as in `postgres_commits`. Callers first commit 500 times per second, and then at the maximum
rate: the client, the servers and the backup share the processors, which is the worst case. The backup is the command in a
separate process, repeated for the duration of the measurement. Media are omitted, because they are copied like any files.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import Report, parser, rss, spread
from benchmarks.postgres_commits import post, server
from shoal.admin.backups.repository import BackupRepository
from shoal.admin.backups.verify import verify
from shoal.admin.report import nothing
from shoal.admin.throttling import Throttle
from shoal.app.stores import open_store
from shoal.graph.contract import Store
from shoal.settings import build

_FILLERS = 256
_WATCH_SECONDS = 0.01
_RATE = 500.0


class Load(NamedTuple):
    """The number of posts, the number of concurrent callers, and the duration."""

    posts: int
    callers: int
    seconds: float


class Made(NamedTuple):
    """A backup: its own report, the seconds and peak memory of its process, and the largest write-ahead log of the store."""

    told: dict[str, Any]
    seconds: float
    memory: int
    log: int


async def fill(graph: Store, numbers: Iterator[int], posts: int) -> None:
    wanted = iter(itertools.islice(numbers, posts))

    async def write() -> None:
        for number in wanted:
            await graph.commit(post(number))

    async with asyncio.TaskGroup() as group:
        for _ in range(_FILLERS):
            group.create_task(write())


async def commit_until(
    graph: Store, numbers: Iterator[int], callers: int, rate: float | None, over: asyncio.Event
) -> list[float]:
    """Return the seconds that each commit took. Without a `rate` (commits per second), callers commit without pauses."""
    took: list[float] = []

    async def write() -> None:
        while not over.is_set():
            began = time.perf_counter()
            await graph.commit(post(next(numbers)))
            took.append(time.perf_counter() - began)
            if rate is not None:
                await asyncio.sleep(max(0.0, callers / rate - took[-1]))

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(write())
    return took


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


async def back_up(store: str, place: Path) -> Made:
    log = Path(f"{store.removeprefix('sqlite:///')}-wal")
    began = time.perf_counter()
    command = [sys.executable, "-m", "shoal.cli", "--store", store, "--media", f"file://{place}/none", "backup"]
    child = await asyncio.create_subprocess_exec(
        *command,
        *("--to", str(place), "--json"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "SHOAL_TAGS": "memory://"},
    )
    reading = asyncio.create_task(child.communicate())
    memory = longest = 0
    while not reading.done():
        memory = max(memory, rss(child.pid))
        longest = max(longest, _size(log))
        await asyncio.wait((reading,), timeout=_WATCH_SECONDS)
    told, _ = reading.result()
    if child.returncode:
        sys.exit("the backup failed")
    return Made(json.loads(told), time.perf_counter() - began, memory, longest)


async def measure(name: str, store: str | dict[str, str], folder: Path, load: Load, report: Report) -> None:
    """Measure commits without a backup, then during one backup after the other."""
    place = folder / name.replace(" ", "-")
    named = store if isinstance(store, str) else json.dumps(store)
    numbers = itertools.count()
    made: list[Made] = []
    async with AsyncExitStack() as stack:
        graph = await open_store(build(store=store), stack, read_only=False, sole=True)
        await fill(graph, numbers, load.posts)
        for rate, what in itertools.product((_RATE, None), ("before", "during a backup")):
            over = asyncio.Event()
            writing = asyncio.create_task(commit_until(graph, numbers, load.callers, rate, over))
            began, so_far = time.perf_counter(), len(made)
            if what == "before":
                await asyncio.sleep(load.seconds)
            while what == "during a backup" and (len(made) == so_far or time.perf_counter() - began < load.seconds):
                made.append(await back_up(named, place))
            whole = time.perf_counter() - began
            over.set()
            took = await writing
            times = spread(took)
            busy = f"{name}, {f'{rate:.0f} commits per second' if rate else 'maximum rate'}, {what}"
            if rate is None:
                report.add(f"{busy}: commits per second", len(took) / whole, "/s")
            report.add(f"{busy}: median", times.median * 1_000, "ms")
            report.add(f"{busy}: p99", times.p99 * 1_000, "ms")
            report.add(f"{busy}: longest", times.most * 1_000, "ms")
    last = made[-1]
    rows = last.told["rows"]
    report.add(f"{name}: rows of a backup", rows)
    report.add(f"{name}: duration of a backup", last.seconds, "s")
    report.add(f"{name}: rows per second", rows / last.seconds, "/s")
    report.add(f"{name}: bytes per row", last.told["bytes"] / rows)
    report.add(f"{name}: peak memory of a backup", max(one.memory for one in made) / 2**20, "MiB")
    report.add(f"{name}: commits wait for all stores to be opened", max(one.told["held_ms"] for one in made), "ms")
    report.add(f"{name}: longest write-ahead log", max(one.log for one in made) / 2**20, "MiB")
    repository = BackupRepository.open(place.as_uri(), make=False)
    manifest = await repository.manifest()
    found = await verify(repository, manifest.generation, Throttle(None), nothing)
    report.check(f"{name}: faults that a look through the last one finds", found.faults, 0)
    # With two stores, the outbox also contains events between them.
    whole = manifest.rows("events") >= manifest.rows("objects") >= load.posts
    report.check(f"{name}: every post is in the last one with its event", whole, 1)


async def run(chosen: Any, report: Report) -> None:
    load = Load(chosen.posts, chosen.callers, chosen.seconds)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-bench-")))
        await measure("one SQLite file", f"sqlite:///{folder}/shoal.db", folder, load, report)
        urls = [stack.enter_context(server()).url for _ in range(2)]
        await measure("two PostgreSQL", {"0-31": urls[0], "32-63": urls[1]}, folder, load, report)


def main() -> None:
    options = parser(
        __doc__, quick={"posts": 5_000, "seconds": 3.0}, smallest={"posts": 300, "seconds": 0.3, "callers": 4}
    )
    options.add_argument("--posts", type=int, default=100_000, help="number of posts in the store before the backup")
    options.add_argument("--callers", type=int, default=16, help="concurrent committers")
    options.add_argument("--seconds", type=float, default=15.0, help="minimum seconds of each measured phase")
    chosen = options.parse_args()
    report = Report("backup", chosen.size)
    asyncio.run(run(chosen, report))
    report.show()


if __name__ == "__main__":
    main()

"""The delay until other processes show a new version of the tag cloud, and their requests, with updates and by polling.

The cloud is in PostgreSQL, the channel in Redis. Half of the processes are notified of new versions (the setting
`tag_cloud_refresh`), the others poll; all read the cloud every two milliseconds. This process merges at random times, one to two
seconds apart (busy), then not at all (quiet). The delay is from the end of the write to the first read that shows the version. `raw
engine` is the figure of the polling processes in this run.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from unittest.mock import patch

import msgspec

from benchmarks.measure import REPOSITORY, Report, parser, spread
from benchmarks.page import BUSY_FIGURE
from benchmarks.results import busy_share
from benchmarks.shared_engines import engines
from benchmarks.tag_merge import made_up_posts, parcels_of, uses_of
from benchmarks.tag_reader import Seen
from shoal.app.network import Network, open_network
from shoal.settings import Settings, environment
from shoal.tagcloud.contract import Merge, Parcel

WAYS = ("notify", "poll")
_CHANGES = 50
_FILLED = 100
"""Increments in the first version, so that the cloud is as large as it gets."""
_PATIENCE_SECONDS = 60.0


class Reader:
    def __init__(self, way: str, process: asyncio.subprocess.Process) -> None:
        self.way = way
        self._process = process

    async def say(self) -> None:
        """Start or stop counting."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        await self._process.stdin.drain()

    async def hear(self) -> bytes:
        assert self._process.stdout is not None
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await self._process.stdout.readline()


@asynccontextmanager
async def reading(settings: Settings, way: str) -> AsyncIterator[Reader]:
    """Run a process that reads the cloud, and wait until it is ready."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.tag_reader"),
        cwd=REPOSITORY,
        env={**os.environ, **environment(msgspec.structs.replace(settings, tag_cloud_refresh=way))},
        stdin=pipe,
        stdout=pipe,
        limit=1 << 20,
    )
    try:
        reader = Reader(way, process)
        assert await reader.hear() == b"ready\n"
        yield reader
    finally:
        process.kill()
        await process.wait()


class Merging:
    def __init__(self, network: Network, parcels: Iterator[Parcel]) -> None:
        self._network = network
        self._parcels = parcels
        self.written: dict[int, int] = {}

    async def merge(self, increments: int = 1) -> None:
        collector, store = self._network.counting.collector, self._network.tag_store
        write = store.write

        async def write_noting(merge: Merge, holder: bytes = b"") -> None:
            await write(merge, holder)
            self.written[merge.head.version] = time.monotonic_ns()

        collector.take([next(self._parcels) for _ in range(increments)])
        with patch.object(store, "write", write_noting):
            await collector.merge()

    async def merge_often(self, versions: int, pause: float) -> None:
        random = Random(7)
        self.written.clear()
        for _ in range(versions):
            await asyncio.sleep(pause * random.uniform(1, 2))
            await self.merge()


def tell(report: Report, when: str, readers: Sequence[Reader], seen: Sequence[Seen], seconds: float) -> None:
    by_way = {way: [one for reader, one in zip(readers, seen, strict=True) if reader.way == way] for way in WAYS}
    notified, polled = by_way["notify"], by_way["poll"]
    for what in ("store", "redis"):
        rates = [sum(getattr(one, what) for one in some) / len(some) / seconds * 60 for some in (notified, polled)]
        name = {"store": "the store", "redis": "Redis"}[what]
        report.add(f"{when}: requests to {name}, a process and minute", rates[0], raw=rates[1])
    costs = [sum(one.cpu for one in some) / sum(one.reads for one in some) * 1e6 for some in (notified, polled)]
    report.add(f"{when}: processor time, a read", costs[0], "us", raw=costs[1])


def delays(seen: Seen, written: dict[int, int]) -> list[float]:
    # A commit is visible to others slightly before the writer gets its answer.
    return [max(0.0, (seen.at[version] - at) / 1e6) for version, at in written.items() if version in seen.at]


async def run(settings: Settings, processes: int, versions: int, pause: float, quiet: float, report: Report) -> None:
    # Create more changes than the increments need, because the changes of one post are never divided between two increments.
    uses = uses_of(made_up_posts(), 2 * _CHANGES * (_FILLED + versions))
    parcels = iter([parcel for _, parcel in parcels_of(uses, _CHANGES)])
    async with AsyncExitStack() as stack:
        network = await stack.enter_async_context(open_network(settings, background=False))
        merging = Merging(network, parcels)
        await merging.merge(_FILLED)
        readers = [
            await stack.enter_async_context(reading(settings, way)) for way in WAYS for _ in range(processes // 2)
        ]
        for when in ("busy", "quiet"):
            began = time.perf_counter()
            for reader in readers:
                await reader.say()
            if when == "busy":
                await merging.merge_often(versions, pause)
            # A process that polls reads the last version after a second.
            await asyncio.sleep(1.5 if when == "busy" else quiet)
            for reader in readers:
                await reader.say()
            seen = [msgspec.json.decode(await reader.hear(), type=Seen) for reader in readers]
            tell(report, when, readers, seen, time.perf_counter() - began)
            if when == "busy":
                check(report, readers, seen, merging.written)


def check(report: Report, readers: Sequence[Reader], seen: Sequence[Seen], written: dict[int, int]) -> None:
    """Report the delays, and check that each version was sent to every process, or that it polled."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for number, (reader, one) in enumerate(zip(readers, seen, strict=True)):
        found[reader.way] += delays(one, written)
        report.check(f"process {number} ({reader.way}): last version", max(one.at), max(written))
        report.check(f"process {number}: updates", one.updates, len(written) if reader.way == "notify" else 0)
    notified, polled = spread(found["notify"]), spread(found["poll"])
    report.add("versions merged", len(written))
    report.add("delay of a version, median", notified.median, "ms", raw=polled.median)
    report.add("delay of a version, p99", notified.p99, "ms", raw=polled.p99)
    report.add("delay of a version, longest", notified.most, "ms", raw=polled.most)


def main() -> None:
    options = parser(
        __doc__,
        quick={"versions": 15, "quiet": 10.0},
        smallest={"versions": 3, "pause": 0.5, "quiet": 0.5, "processes": 2},
    )
    options.add_argument("--processes", type=int, default=4, help="number of processes that read the tag cloud")
    options.add_argument("--versions", type=int, default=60, help="number of versions of the tag cloud to write")
    options.add_argument(
        "--pause", type=float, default=1.0, help="minimum seconds between two versions of the tag cloud"
    )
    options.add_argument(
        "--quiet", type=float, default=60.0, help="seconds of the measurement in which no version is written"
    )
    chosen = options.parse_args()
    report = Report("tag_updates", chosen.size)
    report.add(BUSY_FIGURE, busy_share())
    with engines(1) as running:
        settings = running.settings()
        asyncio.run(run(settings, chosen.processes, chosen.versions, chosen.pause, chosen.quiet, report))
    report.show()


if __name__ == "__main__":
    main()

"""`shoal serve --workers 2` on one SQLite file compared with one process, over HTTP: pages per second, and cost of a page.

The network is the one that GoToSocial was measured with (`benchmarks.network`), with sixteen connections per process. Home pages
of all members are read in turn, from the response cache and rendered again by servers without one; authors with 50 followers post
until the fan-out is drained; and pages are read during posts. The client shares the machine's cores with the servers, so
processor time is more meaningful than pages per second: *capacity* is the rate of as many separate cores as processes, computed
from the processor time of a page. The raw engine is one process in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import shlex
import sys
from collections.abc import Awaitable
from pathlib import Path

import uvloop

from benchmarks.child import Child, serving
from benchmarks.http_client import Outcome, load, until
from benchmarks.http_load import homes, is_page, post_and_drain, tell
from benchmarks.measure import Report, keep_option, parser, tree_cpu, tree_rss, workplace
from benchmarks.network import Keys, Shape, kept
from benchmarks.stores import url_of
from shoal_devcluster.program import free_port

_COMMAND = f"{shlex.quote(sys.executable)} -m shoal.cli --store {{store}} serve --port {{port}} --workers {{workers}}"
_ENVIRON = {"SHOAL_RATE_LIMITS": "false", "SHOAL_MEDIA": "memory://"}
_MIB = 1 << 20
_BOTH_SECONDS = 1.0
"""Seconds in which both processes run."""


class Measured:
    """One server and its figures."""

    def __init__(self, child: Child, workers: int, report: Report, raw: dict[str, float]) -> None:
        self._child = child
        self._workers = workers
        self._report = report
        self._raw = raw
        """Figures of one process by name. Its run stores them, and the run of several processes is compared with them."""

    async def load(self, name: str, work: Awaitable[Outcome]) -> Outcome:
        """Run a load, and report its rate and the cost of a response."""
        before = tree_cpu(self._child.pid)
        outcome = await work
        cost = (tree_cpu(self._child.pid) - before) / max(1, outcome.right)
        self._tell(f"{name}: answers", outcome.right / outcome.seconds, "1/s")
        self._tell(f"{name}: processor time per response", cost * 1e6, "us")
        self._tell(f"{name}: capacity", self._workers / cost if cost else 0.0, "1/s")
        tell(self._report, f"{self._workers}: {name}", outcome)
        return outcome

    def _tell(self, name: str, value: float, unit: str) -> None:
        if self._workers == 1:
            self._raw[name] = value
        self._report.add(f"{self._workers}: {name}", value, unit, raw=None if self._workers == 1 else self._raw[name])

    async def all(self, keys: Keys, seconds: float) -> None:
        """Measure reads, posts, and both together."""
        server, connections = self._child.server, 16 * self._workers
        wanted = homes(server, keys.all)
        for _ in range(3 * self._workers):
            await load(server, itertools.islice(wanted, len(keys.all)), is_page, 16)
        await self.load("home", load(server, until(wanted, seconds), is_page, connections))
        self._report.add(f"{self._workers}: memory after reading", tree_rss(self._child.pid) / _MIB, "MiB")
        await self.load("post", post_and_drain(server, keys.authors, keys.probe, 32, seconds))

    async def anew(self, keys: Keys, seconds: float) -> None:
        """Read pages that are not cached, also while other members post."""
        server, connections = self._child.server, 16 * self._workers
        wanted = homes(server, keys.all)
        for _ in range(self._workers):
            await load(server, itertools.islice(wanted, len(keys.all)), is_page, 16)
        await self.load("home, rendered again", load(server, until(wanted, seconds), is_page, connections))
        reading = asyncio.create_task(load(server, until(wanted, seconds), is_page, connections))
        posting = await post_and_drain(server, keys.authors, keys.probe, 2, seconds)
        read = await reading
        self._report.add(f"{self._workers}: pages during posts", read.right / read.seconds, "1/s")
        self._report.add(f"{self._workers}: posts during pages", posting.right / posting.seconds, "1/s")
        tell(self._report, f"{self._workers}: home during posts", read)
        tell(self._report, f"{self._workers}: post during pages", posting)


async def run(place: Path, chosen: argparse.Namespace, report: Report) -> None:
    store, keys = await kept(place, Shape.of(chosen.circle))
    report.figures += keys.figures
    raw: dict[str, float] = {}
    for workers in (1, 2):
        port = free_port()
        command = shlex.split(_COMMAND.format(store=shlex.quote(url_of(store)), port=port, workers=workers))
        async with serving(command, port, "/api/v1/instance", _ENVIRON) as child:
            await asyncio.sleep(_BOTH_SECONDS)
            await Measured(child, workers, report, raw).all(keys, chosen.seconds)
        async with serving(command, port, "/api/v1/instance", {**_ENVIRON, "SHOAL_ANSWER_CACHE": "0"}) as child:
            await asyncio.sleep(_BOTH_SECONDS)
            await Measured(child, workers, report, raw).anew(keys, chosen.seconds)


def main() -> None:
    options = parser(
        __doc__,
        quick={"seconds": 3.0, "circle": 200},
        smallest={"seconds": 0.3, "circle": 40},
    )
    keep_option(options)
    options.add_argument(
        "--circle", type=int, default=1_000, help="number of members, not counting a celebrity whom all of them follow"
    )
    options.add_argument("--seconds", type=float, default=15.0, help="duration of each load test in seconds")
    chosen = options.parse_args()
    report = Report("processes", chosen.size)
    with workplace(chosen.keep) as place:
        uvloop.run(run(place, chosen, report))
    report.show()


if __name__ == "__main__":
    main()

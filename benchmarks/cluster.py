"""A small cluster on one machine over HTTP: latency, and the processor time of each process per request.

Two PostgreSQL, Redis, RabbitMQ, one `shoal serve` and one `shoal worker` serve the network that GoToSocial was measured with
(`benchmarks.network`); the client shares the machine's cores with them. Home pages of all members are read in turn, warm, over
sixteen connections and over one; members like posts of their homes; authors with 50 followers post until the fan-out is drained.
Then two web processes serve home pages over 16 connections each. *Capacity* is their rate on separate cores, computed from the
processor time of a page. The raw engine is an ASGI application under the same server that returns a ready 25 KB body.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
from collections.abc import Awaitable, Iterator, Mapping

import msgspec
import uvloop

from benchmarks.child import Child, bare_server, serving
from benchmarks.http_client import Outcome, Server, ask, load, until
from benchmarks.http_load import homes, is_page, post_and_drain, tell
from benchmarks.measure import Report, parser, tree_cpu
from benchmarks.network import Keys, Shape, build_on
from benchmarks.shared_engines import Engines, engines
from benchmarks.shared_fanout import workers
from shoal.settings import environment
from shoal_devcluster.program import free_port


class Shown(msgspec.Struct):
    id: str


_page = msgspec.json.Decoder(list[Shown])


class Costs:
    def __init__(self, programs: Mapping[str, list[int]], report: Report) -> None:
        self._programs = programs
        self._report = report

    async def of(self, name: str, work: Awaitable[Outcome]) -> Outcome:
        """Run the load, and report its outcome and the cost of a request."""
        return (await self.told(name, work))[0]

    async def told(self, name: str, work: Awaitable[Outcome]) -> tuple[Outcome, dict[str, float]]:
        """Run the load like `of`, and return the processor time of a request by program, in microseconds."""
        before = self._spent()
        outcome = await work
        tell(self._report, name, outcome)
        answers = max(1, outcome.right)
        spent = {program: (after - before[program]) / answers * 1e6 for program, after in self._spent().items()}
        for program, cost in spent.items():
            self._report.add(f"{name}: processor time, {program}", cost, "us")
        self._report.add(f"{name}: processor time, total", sum(spent.values()), "us")
        return outcome, spent

    async def at_rest(self, seconds: float) -> None:
        """Report the processor time of idle processes."""
        before = self._spent()
        await asyncio.sleep(seconds)
        spent = {program: (after - before[program]) / seconds * 1e3 for program, after in self._spent().items()}
        for program, cost in {**spent, "all of it": sum(spent.values())}.items():
            self._report.add(f"at rest: processor time, {program}", cost, "ms/s")

    def _spent(self) -> dict[str, float]:
        return {program: sum(map(tree_cpu, pids)) for program, pids in self._programs.items()}


async def _likes(server: Server, tokens: list[str]) -> Iterator[bytes]:
    """Yield likes of posts on each member's home page, one member after the other, without duplicates."""
    pages = []
    for token, request in zip(tokens, homes(server, tokens), strict=False):
        _, body = await ask(server, request)
        pages.append([(token, shown.id) for shown in _page.decode(body)])
    return (
        server.request("POST", f"/api/v1/statuses/{id_}/favourite", token)
        for token, id_ in itertools.chain.from_iterable(zip(*pages, strict=False))
    )


def _is_ok(status: int, _: bytes) -> str:
    return "" if status == 200 else f"status {status}"


async def measure(child: Child, keys: Keys, costs: Costs, seconds: float) -> tuple[Outcome, float]:
    """Run every load. Return the outcome of home pages over sixteen connections, and the processor time of each page."""
    server, wanted = child.server, homes(child.server, keys.all)
    for _ in range(2):
        await load(server, itertools.islice(wanted, len(keys.all)), is_page, 16)
    await costs.at_rest(seconds)
    home, spent = await costs.told("home", load(server, until(wanted, seconds), is_page, 16))
    await costs.of("home alone", load(server, until(wanted, seconds), is_page, 1))
    likes = await _likes(server, keys.all)
    await costs.of("like alone", load(server, until(likes, seconds), _is_ok, 1))
    await costs.of("like", load(server, until(likes, seconds), _is_ok, 16))
    await costs.of("post alone", post_and_drain(server, keys.authors, keys.probe, 1, seconds))
    await costs.of("post", post_and_drain(server, keys.authors, keys.probe, 32, seconds))
    await costs.of("home, after posts", load(server, until(wanted, seconds), is_page, 16))
    return home, spent["web"]


async def measure_two(child: Child, keys: Keys, costs: Costs, seconds: float) -> float:
    """Read home pages of two web processes. Return the processor time of a page on both together."""
    wanted = homes(child.server, keys.all)
    for _ in range(4):
        await load(child.server, itertools.islice(wanted, len(keys.all)), is_page, 16)
    _, spent = await costs.told("two: home", load(child.server, until(wanted, seconds), is_page, 32))
    return spent["web"]


async def run(of: Engines, chosen: argparse.Namespace, report: Report) -> None:
    # Without the broker, this process runs the consumers of the events that it emits.
    keys = await build_on(of._replace(broker=None).settings(), Shape.of(chosen.circle))
    report.figures += keys.figures
    settings, port = of.settings(run_consequences=False), free_port()
    command = [sys.executable, "-m", "shoal.cli", "serve", "--port", str(port)]
    with workers(settings, 1) as worker:
        programs = {
            "worker": [worker],
            "PostgreSQL": [store.pid or 0 for store in of.stores],
            "Redis": [of.redis.pid or 0],
            "RabbitMQ": [of.broker.pid or 0] if of.broker else [],
        }
        async with serving(command, port, "/health", environment(settings)) as child:
            costs = Costs({"web": [child.pid], **programs}, report)
            home, one = await measure(child, keys, costs, chosen.seconds)
        async with serving([*command, "--workers", "2"], port, "/health", environment(settings)) as child:
            costs = Costs({"web": [child.pid], **programs}, report)
            two = await measure_two(child, keys, costs, chosen.seconds)
        # The number of pages that the two processes could serve if engines and clients had separate cores.
        report.add("two: home: capacity of the web processes", 2e6 / two, "1/s", raw=1e6 / one)
    async with bare_server("asgi") as child:
        bare = await load(child.server, until(homes(child.server, ["none"]), chosen.seconds), is_page, 16)
    report.add(
        "home: compared with a bare ASGI server", home.right / home.seconds, "1/s", raw=bare.right / bare.seconds
    )


def main() -> None:
    options = parser(
        __doc__,
        quick={"seconds": 3.0, "circle": 200},
        smallest={"seconds": 0.3, "circle": 40},
    )
    options.add_argument(
        "--circle", type=int, default=1_000, help="number of members, not counting a celebrity whom all of them follow"
    )
    options.add_argument("--seconds", type=float, default=15.0, help="duration of each load test in seconds")
    chosen = options.parse_args()
    report = Report("cluster", chosen.size)
    with engines(2, broker=True) as of:
        uvloop.run(run(of, chosen, report))
    report.show()


if __name__ == "__main__":
    main()

"""Readers and writers at once, at a steady rate: 90 % home pages, 5 % posts, 5 % likes, follows and unfollows.

`shoal serve`, with one process and then with two, runs as a child with the network that GoToSocial was measured with
(`benchmarks.network`); the client shares the machine's cores with it. Requests are due at random times, 1,500 per second on
average, independent of earlier responses (`benchmarks.open_load`), and a latency begins when a request is due. Members read their
homes in turn; between two reads there are so many posts that most pages are rendered again. Posts, likes and follows are by
random members. Measuring begins after a minute at full load, or after a tenth of a short run. Pauses of the event loop and of
garbage collection are from the metrics of the writing process. Before that, requests arrive at 0.4 of the capacity that a server
should have, for the processor time of a request; after it, at that capacity, and at 1.5 times of it, where the server must refuse
some at once, and answer the others in time. The raw engine is an ASGI application under the same server that returns a ready 25 KB
body, under the same load for a tenth of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import sys
from array import array
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_plus

import httpx
import msgspec
import uvloop
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.child import Child, bare_server, serving
from benchmarks.http_client import REFUSED, Check, Server
from benchmarks.http_load import Posted, homes, is_page, seen
from benchmarks.measure import Report, keep_option, parser, process_cpu, spread, tree_cpu, tree_rss, workplace
from benchmarks.network import Keys, Shape, kept
from benchmarks.open_load import OpenOutcome, Request, open_load
from benchmarks.stores import url_of
from shoal_devcluster.program import free_port

_MIB = 1 << 20
_TEXT = "Spring tide, number {}: the quay is under water, and the ferry waits outside until the wall can be seen again."
_FORM = "application/x-www-form-urlencoded"
_NEWEST = 500
"""Number of recent posts that may be liked. It is also the number of recent follows that are not undone yet."""
_LOOK_SECONDS = 20.0
_MINUTE = 60.0
_CALM, _OVERLOAD = 0.4, 1.5
"""Fractions of the capacity that a server should have."""
_CALM_WARMING_SECONDS = 10.0
_OTHER_SECONDS = 30.0
"""Maximum duration of the loads at other rates."""
_SHARES = {"home": 90.0, "post": 5.0, "like": 2.5, "follow": 2.5}

_posted = msgspec.json.Decoder(Posted)


class Mixture:
    """An endless mixture of requests by members of the network; responses to posts provide the ids to like."""

    def __init__(self, server: Server, keys: Keys, ids: list[str], seed: int) -> None:
        self._server = server
        self._random = random.Random(seed)
        self._tokens, self._ids = keys.all, ids
        self._homes = homes(server, keys.all)
        self._authors = frozenset(keys.authors)
        self._numbers = itertools.count()
        self._posts: deque[str] = deque(maxlen=_NEWEST)
        self._follows: deque[tuple[str, str]] = deque()
        self.last = ""

    def requests(self) -> Iterator[Request]:
        """Yield requests, drawn by their frequencies."""
        kinds, weights = list(_SHARES), list(_SHARES.values())
        while True:
            kind = self._random.choices(kinds, weights)[0]
            if kind == "home":
                yield Request(kind, next(self._homes), is_page)
            elif kind == "post":
                yield self._post()
            elif kind == "like" and self._posts:
                yield self._act("like", f"statuses/{self._random.choice(self._posts)}/favourite")
            else:
                yield self._follow()

    def _post(self) -> Request:
        token = self._random.choice(self._tokens)
        text = f"status={quote_plus(_TEXT.format(next(self._numbers)))}&visibility=public".encode()
        wire = self._server.request("POST", "/api/v1/statuses", token, text, _FORM)
        return Request("post", wire, self._noting(token in self._authors))

    def _noting(self, by_author: bool) -> Check:
        def note(status: int, body: bytes) -> str:
            if status != 200:
                return f"status {status}"
            id_ = _posted.decode(body).id
            self._posts.append(id_)
            if by_author:
                self.last = max(self.last, id_, key=lambda one: (len(one), one))
            return ""

        return note

    def _follow(self) -> Request:
        """Follow a random member. If there are many such follows, undo the oldest instead."""
        if len(self._follows) >= _NEWEST:
            token, id_ = self._follows.popleft()
            return self._act("unfollow", f"accounts/{id_}/unfollow", token)
        one, other = self._random.sample(range(len(self._ids)), 2)
        token, id_ = self._tokens[one], self._ids[other]
        self._follows.append((token, id_))
        return self._act("follow", f"accounts/{id_}/follow", token)

    def _act(self, kind: str, path: str, token: str = "") -> Request:
        wire = self._server.request("POST", f"/api/v1/{path}", token or self._random.choice(self._tokens))
        return Request(kind, wire, _is_done)


def _is_done(status: int, _body: bytes) -> str:
    return "" if status == 200 else f"status {status}"


async def ids_of(server: Server, tokens: list[str]) -> list[str]:
    """Return the ids of the members with these tokens."""
    async with httpx.AsyncClient(base_url=f"http://{server.host}:{server.port}", timeout=30) as client:
        ids = []
        for token in tokens:
            answer = await client.get(
                "/api/v1/accounts/verify_credentials", headers={"Authorization": f"Bearer {token}"}
            )
            ids.append(_posted.decode(answer.raise_for_status().content).id)
        return ids


class Pauses:
    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._longest = {"loop_delay": 0.0, "garbage_pause": 0.0}
        self._first: dict[tuple[str, str], float] = {}
        self._last: dict[tuple[str, str], float] = {}

    async def watch(self) -> None:
        """Sample repeatedly until cancelled."""
        self._first = await self._look()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        self._last = await self._look()
        for name, longest in self._longest.items():
            self._longest[name] = max(longest, self._last[f"shoal_{name}_longest_seconds", ""])

    async def _look(self) -> dict[tuple[str, str], float]:
        async with httpx.AsyncClient(timeout=30) as client:
            text = (await client.get(self._url)).raise_for_status().text
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return {(sample.name, sample.labels.get("le", "")): sample.value for sample in samples}

    def tell(self, report: Report, workers: int) -> None:
        for name, said in (("loop_delay", "event loop pauses"), ("garbage_pause", "garbage was collected")):
            words = f"{workers}: {said}"
            report.add(f"{words}: longest", self._longest[name] * 1e3, "ms")
            report.add(f"{words}: p99 at most", self._percentile(f"shoal_{name}_seconds", 0.99) * 1e3, "ms")
            report.add(f"{words}: times", self._grown(f"shoal_{name}_seconds_count", ""))

    def _grown(self, name: str, edge: str) -> float:
        return self._last[name, edge] - self._first[name, edge]

    def _percentile(self, name: str, share: float) -> float:
        """Return the upper bound of the histogram bucket that contains the percentile."""
        wanted = share * self._grown(f"{name}_count", "")
        edges = sorted(float(edge) for (of, edge) in self._last if of == f"{name}_bucket" and edge != "+Inf")
        return next((edge for edge in edges if self._grown(f"{name}_bucket", str(edge)) >= wanted), float("inf"))


def tell(report: Report, workers: int, outcome: OpenOutcome, bare: OpenOutcome) -> None:
    """Add the rows of the load on this number of processes."""
    report.add(f"{workers}: requests", outcome.answers / outcome.seconds, "1/s")
    raw = spread(bare.latencies())
    for kind_, latencies in [
        ("all", outcome.latencies()),
        *((name, kind.latencies) for name, kind in sorted(outcome.kinds.items())),
    ]:
        times, name = spread(latencies), f"{workers}: {kind_}"
        report.add(f"{name}: answers", len(latencies), f"in {outcome.seconds:.0f} s")
        report.add(f"{name}: p50", times.median * 1e3, "ms", raw=raw.median * 1e3)
        report.add(f"{name}: p99", times.p99 * 1e3, "ms", raw=raw.p99 * 1e3)
        report.add(f"{name}: max", times.most * 1e3, "ms", raw=raw.most * 1e3)
    late = spread(outcome.late).p99 * 1e3
    report.add(f"{workers}: delay of the client itself, p99", late, "ms", raw=spread(bare.late).p99 * 1e3)
    report.add(f"{workers}: connections", outcome.connections, raw=bare.connections)
    report.add(f"{workers}: errors", outcome.wrong.total(), f"in {outcome.answers}")
    for problem, count in outcome.wrong.items():
        report.add(f"{workers}: wrong: {problem}", count)


def _warming(seconds: float) -> float:
    """Return the seconds of load before the measurement: a tenth of it, or a minute, for which the longest pause is reported."""
    return max(1.0, seconds / 10, _MINUTE if seconds > _MINUTE else 0.0)


async def measure(
    child: Child, port: int, keys: Keys, chosen: argparse.Namespace, report: Report, workers: int, bare_cost: float
) -> OpenOutcome:
    """Load the server; report its memory, and the pauses of the process that writes."""
    server = child.server
    mixture = Mixture(server, keys, await ids_of(server, keys.all), chosen.seed)
    requests, capacity = mixture.requests(), capacity_of(chosen, workers)
    # A request becomes dearer while a network grows, so this comes first.
    calm = f"{workers}: at {_CALM * capacity:,.0f}/s"
    await _at_rate(child, requests, chosen, report, calm, _CALM * capacity, _CALM_WARMING_SECONDS, bare_cost)
    await open_load(server, requests, chosen.rate, _warming(chosen.seconds), chosen.seed)
    report.add(f"{workers}: memory at the beginning", tree_rss(child.pid) / _MIB, "MiB")
    cpu = tree_cpu(child.pid)
    pauses = Pauses(port)
    watching = asyncio.create_task(pauses.watch())
    try:
        outcome = await open_load(server, requests, chosen.rate, chosen.seconds, chosen.seed + 1)
        await pauses.look()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    report.add(f"{workers}: memory at the end", tree_rss(child.pid) / _MIB, "MiB")
    used = tree_cpu(child.pid) - cpu
    report.add(f"{workers}: server: processor time per request", used / max(1, outcome.answers) * 1e6, "us")
    pauses.tell(report, workers)
    right = outcome.answers - outcome.wrong.total()
    report.check(f"{workers}: answers that were right", right, max(1, outcome.answers - outcome.wrong[REFUSED]))
    report.check(f"{workers}: kinds of requests that were answered", len(outcome.kinds) >= 4, wanted=True)
    await _at_rate(child, requests, chosen, report, f"{workers}: at {capacity:,.0f}/s", capacity)
    await _at_rate(child, requests, chosen, report, f"{workers}: overload", _OVERLOAD * capacity)
    arrived = not mixture.last or await seen(server, keys.probe, mixture.last)
    report.check(f"{workers}: a follower has the last post", arrived, wanted=True)
    return outcome


async def _at_rate(
    child: Child,
    requests: Iterator[Request],
    chosen: argparse.Namespace,
    report: Report,
    words: str,
    rate: float,
    warming: float = 2.0,
    raw_cost: float | None = None,
) -> None:
    """Load the server at another rate. Refusals begin, and queues of the previous rate end, in the seconds of `warming`."""
    await open_load(child.server, requests, rate, min(warming, _other_seconds(chosen)), chosen.seed + 2)
    cpu = tree_cpu(child.pid)
    outcome = await open_load(child.server, requests, rate, _other_seconds(chosen), chosen.seed + 3)
    cost = (tree_cpu(child.pid) - cpu) / max(1, outcome.answers)
    report.add(f"{words}: processor time per request", cost * 1e6, "us", raw=raw_cost and raw_cost * 1e6)
    tell_rate(report, words, outcome, rate)


def capacity_of(chosen: argparse.Namespace, workers: int) -> float:
    """Return the requests per second that the server should answer. A second process adds half, next to the client."""
    return float(chosen.capacity * (1 + workers) / 2)


def _other_seconds(chosen: argparse.Namespace) -> float:
    return min(max(1.0, float(chosen.seconds) / 4), _OTHER_SECONDS)


def tell_rate(report: Report, words: str, outcome: OpenOutcome, rate: float) -> None:
    """Add the rows of a load at another rate. A request is answered, or refused with 503; anything else is an error."""
    latencies = outcome.latencies()
    report.add(f"{words}: answers", len(latencies) / outcome.seconds, "1/s", raw=rate)
    report.add(f"{words}: refusals", outcome.wrong[REFUSED] / outcome.seconds, "1/s", raw=rate)
    report.add(f"{words}: p99 of answers", spread(latencies).p99 * 1e3, "ms")
    refusals = array("d", [latency for kind in outcome.kinds.values() for latency in kind.failures])
    if refusals:
        report.add(f"{words}: p99 of refusals", spread(refusals).p99 * 1e3, "ms")
    report.check(f"{words}: other errors", outcome.wrong.total() - outcome.wrong[REFUSED], 0)


async def run(place: Path, chosen: argparse.Namespace, report: Report) -> None:
    """Load the server without logic. Build the network if it does not exist, serve it and load it."""
    store, keys = await kept(place, Shape.of(chosen.circle))
    report.figures += keys.figures
    bare, bare_cost = await _bare(chosen)
    for workers in chosen.workers:
        port, metrics_port = free_port(), free_port()
        command = [sys.executable, "-m", "shoal.cli", "--store", url_of(store), "serve", "--port", str(port)]
        environ = {
            "SHOAL_RATE_LIMITS": "false",
            "SHOAL_MEDIA": "memory://",
            "SHOAL_METRICS_PORT": str(metrics_port),
        }
        async with serving([*command, "--workers", str(workers)], port, "/api/v1/instance", environ) as child:
            outcome = await measure(child, metrics_port, keys, chosen, report, workers, bare_cost)
        tell(report, workers, outcome, bare)


async def _bare(chosen: argparse.Namespace) -> tuple[OpenOutcome, float]:
    """Return the outcome of the load on the server without logic, and its processor time per request at the lowest rate."""
    async with bare_server("asgi") as child:
        ready = (Request("ready", wire, is_page) for wire in homes(child.server, ["none"]))
        bare = await open_load(child.server, ready, chosen.rate, max(chosen.seconds / 10, 1.0), chosen.seed)
        cpu = process_cpu(child.pid)
        calm = await open_load(child.server, ready, _CALM * capacity_of(chosen, 1), _other_seconds(chosen), chosen.seed)
        return bare, (process_cpu(child.pid) - cpu) / max(1, calm.answers)


def main() -> None:
    options = parser(
        __doc__,
        quick={"seconds": 20.0, "circle": 200},
        smallest={"seconds": 1.0, "circle": 40, "rate": 200.0, "capacity": 300.0},
    )
    keep_option(options)
    options.add_argument(
        "--circle", type=int, default=1_000, help="number of members, not counting a celebrity whom all of them follow"
    )
    options.add_argument("--rate", type=float, default=1_500.0, help="requests per second")
    options.add_argument(
        "--capacity", type=float, default=2_000.0, help="requests per second that one process should answer"
    )
    options.add_argument("--seconds", type=float, default=120.0, help="duration of the load test in seconds")
    options.add_argument(
        "--workers", type=int, nargs="+", default=[1, 2], help="numbers of processes to measure, one after the other"
    )
    options.add_argument("--seed", type=int, default=1, help="random seed")
    chosen = options.parse_args()
    report = Report("mixed_load", chosen.size)
    with workplace(chosen.keep) as place:
        uvloop.run(run(place, chosen, report))
    report.show()


if __name__ == "__main__":
    main()

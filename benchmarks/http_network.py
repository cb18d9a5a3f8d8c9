from __future__ import annotations

import argparse
import asyncio
import itertools
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import uvloop

from benchmarks.changed_page import measure_changed_pages
from benchmarks.child import Child, bare_server, serving
from benchmarks.http_client import Outcome, Server, load, until
from benchmarks.http_load import homes, is_page, post_and_drain, tell
from benchmarks.measure import Report, keep_option, parser, tree_rss, workplace
from benchmarks.network import Keys, Shape, kept
from benchmarks.stores import url_of
from shoal_devcluster.program import free_port

_COMMAND = f"{shlex.quote(sys.executable)} -m shoal.cli --store {{store}} serve --port {{port}}"
_MIB = 1 << 20


async def measure(child: Child, keys: Keys, seconds: float, report: Report) -> dict[str, Outcome]:
    """Measure startup, memory, home pages and posts."""
    await asyncio.sleep(1.0)
    report.add("time to the first response", child.seconds, "s")
    report.add("memory when idle", tree_rss(child.pid) / _MIB, "MiB")
    wanted = homes(child.server, keys.all)
    await load(child.server, iter([next(wanted)]), is_page, 1)
    loads = {"home, cold": await load(child.server, itertools.islice(wanted, len(keys.all)), is_page, 16)}
    # A response is cached when it is requested for the second time.
    await load(child.server, itertools.islice(wanted, len(keys.all)), is_page, 16)
    loads["home"] = await load(child.server, until(wanted, seconds), is_page, 16)
    having = await _asked_again(child.server, keys.all)
    loads["home, not modified"] = await load(child.server, until(having, seconds), _is_had, 16)
    report.add("memory after reading", tree_rss(child.pid) / _MIB, "MiB")
    loads["post"] = await post_and_drain(child.server, keys.authors, keys.probe, 32, seconds)
    report.add("memory after posting", tree_rss(child.pid) / _MIB, "MiB")
    loads["home, after posts"] = await load(child.server, until(wanted, seconds), is_page, 16)
    return loads


async def _asked_again(server: Server, tokens: Sequence[str]) -> Iterator[bytes]:
    """Yield conditional requests of home pages of all members in turn, endlessly."""
    wanted = []
    async with httpx.AsyncClient(base_url=f"http://{server.host}:{server.port}") as client:
        for token, plain in zip(tokens, homes(server, list(tokens)), strict=False):
            path = plain.split(b" ", 2)[1].decode()
            answer = await client.get(path, headers={"Authorization": f"Bearer {token}"})
            had = f"If-None-Match: {answer.headers.get('etag', '')}"
            wanted.append(plain.removesuffix(b"\r\n") + had.encode() + b"\r\n\r\n")
    return itertools.cycle(wanted)


def _is_had(status: int, body: bytes) -> str:
    return "" if status == 304 and not body else f"status {status}"


async def ceiling(server: Server, seconds: float) -> float:
    outcome = await load(server, until(homes(server, ["none"]), seconds), is_page, 16)
    return outcome.right / outcome.seconds


async def run(place: Path, chosen: argparse.Namespace, report: Report) -> None:
    store, keys = await kept(place, Shape.of(chosen.circle))
    (place / "tokens.txt").write_text("\n".join(keys.all), "utf-8")
    report.figures += keys.figures
    port = free_port()
    command = shlex.split(chosen.command.format(store=shlex.quote(url_of(store)), port=port))
    environ = {"SHOAL_RATE_LIMITS": "false", "SHOAL_MEDIA": "memory://"}
    async with serving(command, port, "/api/v1/instance", environ) as child:
        loads = await measure(child, keys, chosen.seconds, report)
    if chosen.command == _COMMAND:
        async with serving(command, port, "/api/v1/instance", {**environ, "SHOAL_ANSWER_CACHE": "0"}) as child:
            wanted = homes(child.server, keys.all)
            await load(child.server, itertools.islice(wanted, len(keys.all)), is_page, 16)
            loads["home, rendered again"] = await load(child.server, until(wanted, chosen.seconds), is_page, 16)
    await measure_changed_pages(store, keys, chosen.rounds, report)
    async with bare_server("asgi") as child:
        bare = await ceiling(child.server, chosen.seconds)
    for name, outcome in loads.items():
        tell(report, name, outcome)
        report.add(f"{name}: compared with a bare ASGI server", outcome.right / outcome.seconds, "1/s", raw=bare)


def main() -> None:
    options = parser(
        __doc__,
        quick={"seconds": 2.0, "circle": 100, "rounds": 100},
        smallest={"seconds": 0.3, "circle": 40, "rounds": 3},
    )
    keep_option(options)
    options.add_argument(
        "--circle", type=int, default=1_000, help="number of members, not counting a celebrity whom all of them follow"
    )
    options.add_argument("--seconds", type=float, default=15.0, help="duration of each load test in seconds")
    options.add_argument(
        "--rounds", type=int, default=300, help="number of times a page is requested within this process, without HTTP"
    )
    options.add_argument(
        "--command",
        default=_COMMAND,
        help="command that starts the server; the store URL replaces {store}, the port {port}",
    )
    chosen = options.parse_args()
    report = Report("http_network", chosen.size)
    with workplace(chosen.keep) as place:
        uvloop.run(run(place, chosen, report))
    report.show()


if __name__ == "__main__":
    main()

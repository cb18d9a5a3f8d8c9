"""Measure the latency of another client and the memory of the server while the server is attacked.

`shoal serve` runs as a child on SQLite with a file limit of 1,024, which it may raise. The maximum of connections per address has
its default, and rate limits are off, because they would end most attacks early. The attackers (`benchmarks.attackers`) run in
another child, on other loopback addresses. One client requests a home page every 20 ms throughout.

Each attack first runs alone. Then all run one after the other without a pause, so the server still converts the videos of the
uploads when the passwords arrive.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import resource
import shlex
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import uvloop

from benchmarks.attackers import Target
from benchmarks.child import Child, serving
from benchmarks.http_client import Server, ask
from benchmarks.http_load import homes, is_page
from benchmarks.measure import REPOSITORY, Report, parser, spread, tree_cpu, tree_rss, workplace
from benchmarks.network import Shape, build
from benchmarks.stores import url_of
from shoal_devcluster.program import free_port

_COMMAND = f"{shlex.quote(sys.executable)} -m shoal.cli --store {{store}} serve --port {{port}}"
_MIB = 1 << 20
_PACE_SECONDS = 0.02
_FILES = 1_024
_SIZES = {"silent": 1_100, "scattered": 1_100, "heads": 50, "drips": 300, "passwords": 700, "uploads": 30}
"""Number of connections that each attack opens.

The uploads are last, because their videos are still being probed after the attack.
"""
_IN_A_ROW = ("silent", "scattered", "heads", "drips", "uploads", "passwords")
_APP = b'{"client_name":"attack","redirect_uris":"urn:ietf:wg:oauth:2.0:oob","scopes":"read"}'


class _App(msgspec.Struct):
    client_id: str
    client_secret: str


class Watch:
    """Measurements during an attack: response times in seconds, wrong responses, peak memory and processor time."""

    def __init__(self, child: Child) -> None:
        self.seconds: list[float] = []
        self.wrong = 0
        self.memory = 0
        self.processor = 0.0
        self._child = child

    @asynccontextmanager
    async def watching(self, requests: Sequence[bytes]) -> AsyncIterator[None]:
        """Send requests and sample the server until the block ends."""
        tasks = [asyncio.create_task(self._ask(requests)), asyncio.create_task(self._look())]
        before = tree_cpu(self._child.pid)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.processor = tree_cpu(self._child.pid) - before

    async def _ask(self, requests: Sequence[bytes]) -> None:
        for request in itertools.cycle(requests):
            began = time.perf_counter()
            try:
                wrong = is_page(*await ask(self._child.server, request))
            except OSError:
                wrong = "no answer"
            self.seconds.append(time.perf_counter() - began)
            self.wrong += bool(wrong)
            await asyncio.sleep(_PACE_SECONDS)

    async def _look(self) -> None:
        while True:
            self.memory = max(self.memory, tree_rss(self._child.pid))
            await asyncio.sleep(0.05)


async def attacked(target: Target, name: str, count: int, seconds: float) -> Mapping[str, int]:
    """Attack the server from another process. Return the outcomes of the attacker's connections."""
    command = ["-c", "from benchmarks.attackers import main; main()", name, str(count), str(seconds)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        msgspec.json.encode(target).decode(),
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), seconds + 60)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    return msgspec.json.decode(said, type=dict[str, int])


async def measure(child: Child, tokens: list[str], chosen: argparse.Namespace, report: Report) -> None:
    server = child.server
    app = msgspec.json.decode((await ask(server, _post(server, "/api/v1/apps", _APP)))[1], type=_App)
    target = Target(server.port, tokens[1:], app.client_id, app.client_secret)
    requests = list(itertools.islice(homes(server, tokens[:1]), 1))
    peace = Watch(child)
    async with peace.watching(requests):
        await asyncio.sleep(min(2.0, chosen.seconds))
    _tell(report, "no attack", peace, {})
    names = chosen.attacks.split(",")
    for name in names:
        await _watched(child, target, name, [name], requests, chosen, report)
        # Wait until the connections of this attack are closed and its memory is freed.
        await asyncio.sleep(min(3.0, chosen.seconds))
    await _watched(
        child, target, "all in a row", [name for name in _IN_A_ROW if name in names], requests, chosen, report
    )
    status, _ = await ask(server, server.request("GET", "/health"))
    report.check("the server is up", status, 200)


async def _watched(
    child: Child,
    target: Target,
    title: str,
    names: Sequence[str],
    requests: Sequence[bytes],
    chosen: argparse.Namespace,
    report: Report,
) -> None:
    """Run these attacks directly one after the other, and report them as one."""
    watch = Watch(child)
    found: Counter[str] = Counter()
    counts = [max(5, int(_SIZES[name] * chosen.part)) for name in names]
    async with watch.watching(requests):
        for name, count in zip(names, counts, strict=True):
            found.update(await attacked(target, name, count, chosen.seconds))
    _tell(report, title, watch, found)
    report.check(f"{title}: wrong answers to the other client", watch.wrong, 0)
    report.check(f"{title}: the attack took place", float(found.total() >= sum(counts)), 1)


def _post(server: Server, path: str, body: bytes) -> bytes:
    return server.request("POST", path, "", body, "application/json")


def _tell(report: Report, name: str, watch: Watch, found: Mapping[str, int]) -> None:
    told = spread(watch.seconds)
    report.add(f"{name}: p50 of another client", told.median * 1_000, "ms")
    report.add(f"{name}: p99 of another client", told.p99 * 1_000, "ms")
    report.add(f"{name}: processor time of the server", watch.processor, "s")
    report.add(f"{name}: peak memory", watch.memory / _MIB, "MiB")
    for outcome, times in sorted(found.items()):
        report.add(f"{name}: {outcome}", times)


def _raise_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def run(place: Path, chosen: argparse.Namespace, report: Report) -> None:
    keys = await build(place / "attack.db", Shape(chosen.circle, 20, 10, 25 * chosen.circle))
    port = free_port()
    serve = chosen.command.format(store=shlex.quote(url_of(place / "attack.db")), port=port)
    command = ["sh", "-c", f"ulimit -Sn {_FILES}; exec {shlex.join(shlex.split(serve))}"]
    environ = {"SHOAL_RATE_LIMITS": "false", "SHOAL_TRUSTED_PROXIES": "[]", "SHOAL_MEDIA": f"file://{place}/media"}
    async with serving(command, port, "/api/v1/instance", environ) as child:
        await measure(child, keys.all, chosen, report)


def main() -> None:
    options = parser(
        __doc__,
        quick={"seconds": 5.0, "part": 0.3, "circle": 60},
        smallest={"seconds": 0.5, "part": 0.02, "circle": 30},
    )
    options.add_argument("--circle", type=int, default=100, help="number of members of the network")
    options.add_argument("--seconds", type=float, default=15.0, help="duration of each attack in seconds")
    options.add_argument("--part", type=float, default=1.0, help="number of connections, as a fraction of the default")
    options.add_argument("--attacks", default=",".join(_SIZES), help="attacks to run, separated by commas")
    options.add_argument(
        "--command",
        default=_COMMAND,
        help="command that starts the server; the store URL replaces {store}, the port {port}",
    )
    chosen = options.parse_args()
    _raise_files()
    report = Report("attack", chosen.size)
    with workplace(None) as place:
        uvloop.run(run(place, chosen, report))
    report.show()


if __name__ == "__main__":
    main()

"""Load on any server of the Mastodon API, by its base URL and a file with one member token per line.

`home` reads GET /api/v1/timelines/home?limit=20 for all tokens in turn and checks every response: status 200, a JSON array of 20.
`post` sends POST /api/v1/statuses for all tokens in turn, then waits until a follower of all of them (`--probe`, a token) sees
the last post at home, which means that the fan-out is drained. `ceiling` loads a server without logic, which shows the maximum
rate of this client.

    python -m benchmarks.http_load home --base-url http://127.0.0.1:8500 --tokens tokens.txt --connections 16 --seconds 10
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_plus

import msgspec
import uvloop

from benchmarks.child import bare_server
from benchmarks.http_client import REFUSED, Outcome, Server, ask, load, until
from benchmarks.measure import Report, parser, spread

_HOME = "/api/v1/timelines/home?limit={}"
_TEXT = "Low tide, number {}: the boats lie on the sand and wait, and the light goes gray over the harbour wall at six."
_FORM = "application/x-www-form-urlencoded"

_array = msgspec.json.Decoder(list[msgspec.Raw])


class Posted(msgspec.Struct):
    """The fields of the response to a new post that are read."""

    id: str


_posted = msgspec.json.Decoder(Posted)
_page = msgspec.json.Decoder(list[Posted])


def is_page(status: int, body: bytes) -> str:
    """Return whether a response is a page of 20 posts."""
    if status != 200:
        return f"status {status}"
    try:
        return "" if len(_array.decode(body)) == 20 else "not 20 entries"
    except msgspec.DecodeError:
        return "not a JSON array"


def homes(server: Server, tokens: list[str]) -> Iterator[bytes]:
    """Yield home page requests of all members in turn, endlessly."""
    return itertools.cycle([server.request("GET", _HOME.format(20), token) for token in tokens])


def posts(server: Server, tokens: list[str]) -> Iterator[bytes]:
    """Yield unique new posts of all members in turn, endlessly."""
    for number, token in enumerate(itertools.cycle(tokens)):
        text = f"status={quote_plus(_TEXT.format(number))}&visibility=public".encode()
        yield server.request("POST", "/api/v1/statuses", token, text, _FORM)


async def post_and_drain(server: Server, tokens: list[str], probe: str, connections: int, seconds: float) -> Outcome:
    """Post for some seconds, then wait for the probe; the seconds of the outcome include the time until it has the last post."""
    last: list[str] = [""]

    def note(status: int, body: bytes) -> str:
        if status != 200:
            return f"status {status}"
        last[0] = max(last[0], _posted.decode(body).id, key=lambda id_: (len(id_), id_))
        return ""

    started = time.perf_counter()
    outcome = await load(server, until(posts(server, tokens), seconds), note, connections)
    if probe and not await seen(server, probe, last[0]):
        outcome.wrong["the last post never reached the probe"] += 1
    outcome.seconds = time.perf_counter() - started
    return outcome


async def seen(server: Server, probe: str, id_: str, patience: float = 60.0) -> bool:
    """Wait until the member with this token has a post on the home page; return False on a timeout."""
    end = time.perf_counter() + patience
    while time.perf_counter() < end:
        status, body = await ask(server, server.request("GET", _HOME.format(40), probe))
        if status == 200 and any(entry.id == id_ for entry in _page.decode(body)):
            return True
        await asyncio.sleep(0.005)
    return False


def tell(report: Report, name: str, outcome: Outcome) -> None:
    """Add the rows of a load."""
    times = spread(outcome.latencies)
    report.add(f"{name}: correct responses", outcome.right / outcome.seconds, "1/s")
    report.add(f"{name}: p50", times.median * 1e3, "ms")
    report.add(f"{name}: p90", times.p90 * 1e3, "ms")
    report.add(f"{name}: p99", times.p99 * 1e3, "ms")
    report.add(f"{name}: max", times.most * 1e3, "ms")
    report.add(f"{name}: answers", outcome.right, f"in {outcome.seconds:.1f} s")
    report.add(f"{name}: bytes per response", outcome.bytes / max(1, len(outcome.latencies)), "B")
    for problem, count in outcome.wrong.items():
        report.add(f"{name}: wrong: {problem}", count)
    # On a busy machine, a process may refuse requests of a small run.
    refused = outcome.wrong[REFUSED] if report.quick else 0
    report.check(f"{name}: answers that were right", outcome.right, max(1, len(outcome.latencies) - refused))


async def run(chosen: argparse.Namespace, report: Report) -> None:
    if chosen.scenario == "ceiling":
        async with bare_server("protocol") as child:
            outcome = await load(
                child.server, until(homes(child.server, ["none"]), chosen.seconds), is_page, chosen.connections
            )
            tell(report, "client's ceiling", outcome)
        return
    server = Server(chosen.base_url)
    tokens = chosen.tokens.read_text("utf-8").split()
    if chosen.scenario == "post":
        outcome = await post_and_drain(server, tokens, chosen.probe, chosen.connections, chosen.seconds)
    else:
        wanted = homes(server, tokens)
        first = itertools.islice(wanted, chosen.count) if chosen.count else until(wanted, chosen.seconds)
        outcome = await load(server, first, is_page, chosen.connections)
    tell(report, chosen.scenario, outcome)


def main() -> None:
    options = parser(__doc__, quick={"seconds": 2.0}, smallest={"seconds": 0.3})
    options.add_argument("scenario", choices=("home", "post", "ceiling"), nargs="?", default="ceiling")
    options.add_argument("--base-url", default="http://127.0.0.1:8500", help="http://host:port of the server")
    options.add_argument("--tokens", type=Path, help="file with one access token per line")
    options.add_argument("--probe", default="", help="access token of a member who follows all posting members")
    options.add_argument(
        "--connections", type=int, help="number of connections; default: 16 for reads and 32 for posts"
    )
    options.add_argument("--seconds", type=float, default=10.0, help="duration of the load test in seconds")
    options.add_argument("--count", type=int, help="number of requests in the scenario `home`, instead of a duration")
    chosen = options.parse_args()
    chosen.connections = chosen.connections or (32 if chosen.scenario == "post" else 16)
    if chosen.scenario != "ceiling" and chosen.tokens is None:
        options.error("--tokens is needed")
    report = Report(f"http_load {chosen.scenario}", chosen.size)
    uvloop.run(run(chosen, report))
    report.show()


if __name__ == "__main__":
    main()

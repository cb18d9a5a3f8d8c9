"""A store shared by several processes: a call to the process that owns it, compared with the same call in that process.

Then the guest book of `examples/` under gunicorn, with one worker and with several, is read and written by several clients. One
worker owns the store and executes all calls, so the others share only the work of Django.
"""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import httpx
import uvloop

from benchmarks.measure import REPOSITORY, Report, parser
from shoal import Handle, Shoal

_POSTS = 30
_TAG = "nobody"
_OWNER = """
import sys
from shoal.sync import Shoal

with Shoal.open(sys.argv[1], shared=True) as shoal:
    shoal.register("ann")
    print("ready", flush=True)
    sys.stdin.read()
"""


def latency(url: str, calls: int, report: Report) -> None:
    command = [sys.executable, "-c", _OWNER, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        uvloop.run(_latency(owner, url, calls, report))


async def _latency(owner: subprocess.Popen[str], url: str, calls: int, report: Report) -> None:
    async with Shoal.open(url, shared=True) as shoal:
        bob = await _filled(shoal)
        report.check("entries of a page, over the socket", len((await bob.home()).entries), 20)
        there = await _timed(shoal, bob, calls)
        await asyncio.to_thread(owner.communicate)
        report.check("entries of a page, by the next owner", len((await bob.home()).entries), 20)
        here = await _timed(shoal, bob, calls)
    for what, took in there.items():
        report.add(f"{what}, in the owner, median", here[what] * 1e6, "us")
        report.add(f"{what}, over the socket, median", took * 1e6, "us")
        report.add(f"{what}, over the socket / in the owner", took / here[what])


async def _filled(shoal: Shoal) -> Handle:
    ann, bob = await shoal.member("ann"), await shoal.register("bob")
    await bob.follow(ann)
    for number in range(_POSTS):
        await ann.create(f"Post {number}")
    await shoal.settle()
    return bob


async def _timed(shoal: Shoal, bob: Handle, calls: int) -> dict[str, float]:
    questions: dict[str, Callable[[], Awaitable[object]]] = {
        "the smallest call": lambda: shoal.tags.tag(_TAG),
        "a page of home": bob.home,
        "a post": partial(bob.create, "x"),
    }
    medians = {}
    for what, question in questions.items():
        took = []
        for _ in range(calls):
            began = time.perf_counter()
            await question()
            took.append(time.perf_counter() - began)
        medians[what] = median(took)
    return medians


@contextmanager
def _served(folder: Path, workers: int) -> Iterator[str]:
    command = [sys.executable, "-m", "gunicorn", "-w", str(workers), "-b", "127.0.0.1:0"]
    command += ["--pythonpath", str(REPOSITORY / "examples"), "guestbook"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            for line in server.stderr:
                if found := re.search(r"Listening at: (http://\S+)", line):
                    threading.Thread(target=server.stderr.read, daemon=True).start()
                    yield found[1]
                    return
        finally:
            server.send_signal(signal.SIGTERM)


def throughput(workers: int, requests: int, clients: int, report: Report) -> dict[str, float]:
    """Return requests per second of the guest book: posts and home pages."""
    rates = {}
    who = f"{workers} worker{'s' if workers > 1 else ''}"
    with (
        TemporaryDirectory() as folder,
        _served(Path(folder), workers) as url,
        ThreadPoolExecutor(clients) as pool,
        httpx.Client(base_url=url, headers={"X-User": "ann"}, timeout=60.0) as client,
    ):
        kinds: dict[str, Callable[[int], httpx.Response]] = {
            "posts": lambda number: client.post("/entries", json={"text": f"Entry {number}"}),
            "pages of home": lambda _: client.get("/home"),
        }
        # Every worker starts when it gets its first request.
        list(pool.map(lambda _: client.get("/home"), range(8 * workers)))
        for what, ask in kinds.items():
            began = time.perf_counter()
            answers = list(pool.map(ask, range(requests)))
            rates[what] = requests / (time.perf_counter() - began)
            good = sum(answer.status_code in (200, 201) for answer in answers)
            report.check(f"answers to {what}, {who}", good, requests)
            report.add(f"{what}, {who}", rates[what], "1/s")
    return rates


def main() -> None:
    options = parser(
        __doc__, quick={"calls": 300, "requests": 300}, smallest={"calls": 20, "requests": 20, "workers": 2}
    )
    options.add_argument("--calls", type=int, default=2_000, help="number of library calls of each kind")
    options.add_argument("--requests", type=int, default=2_000, help="number of HTTP requests of each kind")
    options.add_argument("--workers", type=int, default=4, help="number of gunicorn workers, compared with one worker")
    options.add_argument("--clients", type=int, default=8, help="number of concurrent clients")
    chosen = options.parse_args()
    report = Report("shared_calls", chosen.size)
    with TemporaryDirectory() as folder:
        latency(f"sqlite:///{folder}/shoal.db", chosen.calls, report)
    one = throughput(1, chosen.requests, chosen.clients, report)
    more = throughput(chosen.workers, chosen.requests, chosen.clients, report)
    for what, rate in more.items():
        report.add(f"{what}, {chosen.workers} workers / 1 worker", rate / one[what])
    report.show()


if __name__ == "__main__":
    main()

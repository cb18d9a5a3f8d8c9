"""Calls of the library without `await`, through the loop in another thread, compared with awaited calls, in memory.

The smallest call queries an unused tag, so its difference is the cost of switching to the other thread and back.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from threading import Thread

import uvloop

from benchmarks.measure import Report, parser, spread
from shoal import Shoal
from shoal.sync import Shoal as SyncShoal

_URL = "memory://"
_POSTS = 30
_TAG = "nobody"
_SMALLEST, _HOME = "the smallest call", "a page of home"


def without_await(calls: int, threads: int, report: Report) -> None:
    with SyncShoal.open(_URL) as shoal:
        ann, bob = shoal.register("ann"), shoal.register("bob")
        bob.follow(ann)
        for number in range(_POSTS):
            ann.create(f"Post {number}")
        shoal.settle()
        report.check("entries of a page", len(bob.home().entries), 20)
        for what, call in ((_SMALLEST, lambda: shoal.tags.tag(_TAG)), (_HOME, bob.home)):
            took = [_timed(call) for _ in range(calls)]
            report.add(f"{what}, without await, median", spread(took).median * 1e6, "us")
        together = [Thread(target=_repeat, args=(bob.home, calls)) for _ in range(threads)]
        began = time.perf_counter()
        for thread in together:
            thread.start()
        for thread in together:
            thread.join()
        report.add(f"{_HOME}, {threads} threads", threads * calls / (time.perf_counter() - began), "1/s")


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _repeat(call: Callable[[], object], times: int) -> None:
    for _ in range(times):
        call()


async def awaited(calls: int, report: Report) -> None:
    async with Shoal.open(_URL) as shoal:
        ann, bob = await shoal.register("ann"), await shoal.register("bob")
        await bob.follow(ann)
        for number in range(_POSTS):
            await ann.create(f"Post {number}")
        await shoal.settle()
        report.check("entries of a page, awaited", len((await bob.home()).entries), 20)
        questions: tuple[tuple[str, Callable[[], Awaitable[object]]], ...] = (
            (_SMALLEST, lambda: shoal.tags.tag(_TAG)),
            (_HOME, bob.home),
        )
        for what, question in questions:
            took = []
            for _ in range(calls):
                began = time.perf_counter()
                await question()
                took.append(time.perf_counter() - began)
            report.add(f"{what}, awaited, median", spread(took).median * 1e6, "us")


def main() -> None:
    options = parser(__doc__, quick={"calls": 1_000}, smallest={"calls": 50})
    options.add_argument("--calls", type=int, default=10_000, help="number of calls of each method in each thread")
    options.add_argument("--threads", type=int, default=8, help="number of concurrent threads")
    chosen = options.parse_args()
    report = Report("library_calls", chosen.size)
    uvloop.run(awaited(chosen.calls, report))
    without_await(chosen.calls, chosen.threads, report)
    report.show()


if __name__ == "__main__":
    main()

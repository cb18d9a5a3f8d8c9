"""The costs of one process on SQLite: each part of a post, of a page and of a rebuilt timeline by itself.

Jobs are run by hand, so that the main thread does one thing at a time; `contention` is what all of it together costs, beside
the sum.

Glossary (`docs/glossary.md`): loud.
"""

from __future__ import annotations

import sqlite3
import statistics
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shoal.admin.contract import AnyNetwork
from shoal.commands import reactions
from shoal.consumers.table import TABLE
from shoal.graph.contract import Cursor
from shoal.ops.planner.measuring.crowd import Crowd, Opener, gather, put_follows, put_members, together
from shoal.ops.planner.measuring.meters import Stopwatch, line_through
from shoal.ops.planner.measuring.posting import Posting
from shoal.outbox.runner import Runner
from shoal.queries import home
from shoal.settings import Settings
from shoal.timelines.memory import MemoryTimelines

Step = Callable[[str], None]
"""Is told what is measured next."""

_PAGE = Cursor(limit=20)
_AUDIENCE = 4_000
NEAR = 4_000
"""Timelines among which a delivery finds its way in the caches of a processor."""
FAR = 400_000
_SHORT = 64
_ROW_BYTES = 4 + 8 + 8 + 8 + 110
"""A timeline in memory beside its entries: next slot, floor, member, last read, and its place in the dictionary of rows."""


class Effort(NamedTuple):
    """How much is measured."""

    circle: int = 4_000
    """Members who write and read."""
    crowd: int = 36_000
    """Members who only follow the stars."""
    shared_circle: int = 400
    shared_crowd: int = 10_000
    rounds: int = 30
    far: int = FAR
    """Timelines that a delivery finds its way among: more than the caches of a processor hold."""
    pages: int = 60_000
    """Pages of a file of which every sixth is copied from a log."""
    seconds: float = 2.0
    """For how long posts come as fast as they can."""
    log: int = 40 << 20
    """Bytes that are written to the log at most, to see it copied."""


FULL = Effort()
SMALLEST = Effort(
    circle=24, crowd=200, shared_circle=24, shared_crowd=200, rounds=2, far=5_000, pages=200, seconds=0.2, log=1 << 20
)


async def measure(opener: Opener, folder: Path, effort: Effort, step: Step) -> dict[str, float]:
    """Return all costs of `OneProcess` by name, but those that take a server."""
    step("delivery")
    costs = {
        "delivery": await _delivery(NEAR, effort.rounds),
        "delivery_far": await _delivery(effort.far, effort.rounds),
    }
    costs["memory_warm"] = float(_ROW_BYTES)
    costs["copy"] = _copy(folder / "pages.db", effort.pages)
    path = folder / "one.db"
    settings = Settings(store=f"sqlite:///{path}", media="memory://")
    crowd = gather(effort.circle, effort.crowd)
    step("members and follows")
    async with opener.store(settings):
        pass
    sizes = [_files(path)]
    async with opener.store(settings) as store:
        await put_members(store, crowd)
    sizes.append(_files(path))
    async with opener.store(settings) as store:
        follows = await put_follows(store, crowd)
    sizes.append(_files(path))
    async with opener.network(settings, background=False) as network:
        posting = Posting(network, crowd, path)
        step("posts")
        costs |= await posting.measure(effort.rounds, effort.seconds, effort.log)
        costs["job"] = max(0.0, costs["job"] - crowd.each * costs["delivery"])
        step("pages")
        costs |= await _pages(network, crowd, effort.rounds)
        costs["change"] = await _like(network, crowd, posting.made, effort.rounds)
        costs["pull"] = await _pull(network, crowd, effort.rounds)
    sizes.append(_files(path))
    numbers = (len(crowd.everybody), follows, len(posting.made))
    for at, name in enumerate(("member", "follow", "post")):
        costs[f"disk_{name}"] = (sizes[at + 1] - sizes[at]) / numbers[at]
    return costs


async def _delivery(among: int, rounds: int) -> float:
    """Deliveries to timelines that lie all over the memory. They are short: a delivery touches one place of each."""
    timelines = MemoryTimelines(among, _SHORT)
    rng = np.random.default_rng(1)
    for member in range(among):
        await timelines.create(member)
    taken = []
    for entry in range(1, 8 * rounds):
        seats = rng.integers(0, among, _AUDIENCE).astype(np.int32)
        watch = Stopwatch()
        await timelines.push(entry, seats)
        taken.append(watch.stop().worked / _AUDIENCE)
    # The first half takes the memory from the system.
    return statistics.median(taken[len(taken) // 2 :])


def _copy(path: Path, pages: int) -> float:
    """Seconds for copying one page of a write-ahead log into a file, on whose disk no two of them lie side by side."""
    with closing(sqlite3.connect(path, isolation_level=None)) as store:
        store.executescript("PRAGMA page_size = 1024; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0")
        store.execute("CREATE TABLE page (id INTEGER PRIMARY KEY, data BLOB)")
        store.execute("BEGIN")
        store.executemany("INSERT INTO page VALUES (?, zeroblob(900))", ((number,) for number in range(pages)))
        store.execute("COMMIT")
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.execute("UPDATE page SET data = randomblob(900) WHERE id % 6 = 0")
        watch = Stopwatch()
        store.execute("PRAGMA wal_checkpoint(PASSIVE)")
        taken = watch.stop().wall
    path.unlink()
    return taken / (pages // 6)


async def _pages(network: AnyNetwork, crowd: Crowd, rounds: int) -> dict[str, float]:
    """Warm pages of the circle, and cold timelines of the fans."""
    readers = crowd.circle[:200]

    async def read(times: int) -> float:
        taken = []
        for reader in readers * times:
            watch = Stopwatch()
            await home.page(network.reads, reader, _PAGE)
            taken.append(watch.stop().worked)
        return statistics.median(taken)

    fresh, page = await read(1), await read(max(1, rounds // 10))
    numbers, costs = [], []
    for number, fan in list(crowd.fans.items()) * rounds:
        await network.timelines.drop((fan,))
        watch = Stopwatch()
        await home.warm_up(network.reads, fan)
        numbers.append(number)
        # Many lists are read in a thread, for which this member waits and nobody else.
        costs.append(watch.stop().wall)
    rebuild, source = line_through(numbers, costs)
    return {"page": page, "page_fresh": max(page, fresh), "rebuild": rebuild, "rebuild_source": source}


async def _like(network: AnyNetwork, crowd: Crowd, made: Sequence[int], rounds: int) -> float:
    """The main thread's seconds for a like that has others beside it, its notice included."""
    at_once = min(32, len(crowd.circle))
    runner = Runner(network.store, TABLE, network.effects)
    runner.start()
    watch = Stopwatch()
    for post in made[-rounds:]:
        await together(reactions.like(network.writes, member, post) for member in crowd.circle[:at_once])
        await runner.drain()
    await runner.stop()
    return watch.stop().worked / (min(rounds, len(made)) * at_once)


async def _pull(network: AnyNetwork, crowd: Crowd, rounds: int) -> float:
    """The seconds that each loud followee adds to a page."""
    number, fan = max(item for item in crowd.fans.items() if item[0] <= 64)
    before = await _median_page(network, fan, rounds)
    followed = crowd.circle[:number]
    for source in followed:
        await network.effects.loudness.add(source)
    await home.page(network.reads, fan, _PAGE)
    after = await _median_page(network, fan, rounds)
    return max(0.0, after - before) / number


async def _median_page(network: AnyNetwork, reader: int, rounds: int) -> float:
    taken = []
    for _ in range(4 * rounds):
        watch = Stopwatch()
        await home.page(network.reads, reader, _PAGE)
        taken.append(watch.stop().worked)
    return statistics.median(taken)


def _files(path: Path) -> int:
    """Bytes of a store that is closed, its search index and tag cloud included."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))

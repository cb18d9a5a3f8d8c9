"""Costs of a process on SQLite: each part of a post, of a page and of a rebuilt timeline, measured separately.

The measurement itself runs the jobs, so that the main thread does one thing at a time. At the end everything runs concurrently, to
measure `contention`, the slowdown of the main thread by the writer and search threads.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shoal.admin.contract import AnyNetwork
from shoal.app import process
from shoal.commands import posts, reactions
from shoal.commands.posts import Draft
from shoal.consumers.context import Effects
from shoal.consumers.table import TABLE
from shoal.outbox.runner import Runner
from shoal.queries import home
from shoal.search.indexing import Filler
from shoal.search.memory import NoIndex
from shoal.settings import Settings
from shoal.timelines.memory import MemoryTimelines
from shoal_planner.measuring.meters import Elapsed, Stopwatch, line_through, written_to
from shoal_planner.measuring.network import (
    PAGE,
    TEXT,
    Crowd,
    Effort,
    Step,
    gather,
    opened_network,
    opened_store,
    pull_cost,
    put_follows,
    put_members,
    together,
    write,
)

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_WRITERS = (4, 16, 64, 256)
"""Numbers of members who post concurrently, each one post after the other."""
_ROUNDS = 5
_ALONE = 64
"""Posts committed one at a time."""


class _Group(NamedTuple):
    size: int
    commit: Elapsed
    jobs: Elapsed


class Posting:
    """Creates posts in a test network. Their jobs run only when a measurement runs them."""

    def __init__(self, network: AnyNetwork, crowd: Crowd, path: Path) -> None:
        self.network = network
        self.made: list[int] = []
        self._crowd = crowd
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._authors = itertools.cycle(crowd.circle)
        # The costs of the search index are measured separately.
        effects = dataclasses.replace(network.effects, search=Filler(NoIndex()))
        self._runner: Runner[Effects] = Runner(network.store, TABLE, effects)

    async def measure(self, rounds: int, seconds: float, log: int) -> dict[str, float]:
        """Create posts and run their jobs. Return the measured costs by field of `OneProcess`.

        The cost `job` includes deliveries to `Crowd.each` followers, which the caller subtracts.
        """
        for member in self._crowd.follower_set:
            await self.network.timelines.create(member)
            await self.network.timelines.fill(member, [], 0)
        costs = await self._logged()
        costs |= await self._measure_follower_sets()
        costs |= await self._stages(rounds)
        costs |= await self._index(rounds)
        costs |= await self._full_log(log)
        return costs | await self._together(costs, seconds)

    async def _logged(self) -> dict[str, float]:
        """Return the bytes in the write-ahead log per post of a large group commit, and per group commit of one post.

        As a side effect, the follower sets of the authors are cached.
        """
        sizes = [self._size()]
        await self._group(len(self._crowd.circle))
        sizes.append(self._size())
        for _ in range(_ALONE):
            await self._group(1)
        together, alone = (sizes[1] - sizes[0]) / len(self._crowd.circle), (self._size() - sizes[1]) / _ALONE
        return {"log": together, "log_group": max(0.0, alone - together)}

    async def _measure_follower_sets(self) -> dict[str, float]:
        """Measure the cost of loading a follower set: an author's first post loads it, and the second finds it cached."""
        first, second = [statistics.median([await self._star(star) for star in self._crowd.stars]) for _ in range(2)]
        return {"audience": max(0.0, first - second) / len(self._crowd.follower_set)}

    async def _star(self, star: int) -> float:
        self.made += await write(self.network, (star,))
        return (await self._jobs()).worked

    async def _stages(self, rounds: int) -> dict[str, float]:
        groups = [await self._group(size) for _ in range(rounds) for size in _SIZES]
        sizes = [group.size for group in groups]
        group, post = line_through(sizes, [measured.commit.worked for measured in groups])
        sync, store = line_through(sizes, [measured.commit.wall - measured.commit.worked for measured in groups])
        claim, job = line_through(sizes, [measured.jobs.worked for measured in groups])
        waits = [measured.commit.wall - measured.commit.worked - measured.size * store for measured in groups]
        return {
            "group": group,
            "post": post,
            "sync": sync,
            "sync_p90": max(sync, float(np.percentile(waits, 90))),
            "sync_p99": max(sync, float(np.percentile(waits, 99))),
            "store": store,
            "claim": claim,
            "job": job,
        }

    async def _index(self, rounds: int) -> dict[str, float]:
        """Measure writes of new rows to the search index. Each has a new `Filler`, because a used one may delay the next write."""
        taken = []
        waiting = iter(self.made)
        for size in _SIZES * max(1, rounds // 5):
            filler = Filler(self.network.effects.search.index)
            ids = list(itertools.islice(waiting, size))
            watch = Stopwatch()
            await filler.look(self.network.store, ids)
            taken.append((size, watch.stop()))
        sizes = [size for size, _ in taken]
        _, row = line_through(sizes, [measured.worked for _, measured in taken])
        write, each = line_through(sizes, [measured.wall - measured.worked for _, measured in taken])
        return {"index": row, "index_write": write, "index_row": each}

    async def _group(self, size: int) -> _Group:
        authors = list(itertools.islice(self._authors, size))
        watch = Stopwatch()
        self.made += await write(self.network, authors)
        return _Group(size, watch.stop(), await self._jobs())

    async def _jobs(self) -> Elapsed:
        watch = Stopwatch()
        while await self._runner.run_once():
            pass
        return watch.stop()

    async def _full_log(self, most: int) -> dict[str, float]:
        """Fill the write-ahead log until it is checkpointed, and return its maximum size and the bytes written per post."""
        began, made = written_to(self._path), len(self.made)
        grown = [self._size()]
        while len(grown) == 1 or ((grown[-1] < most) and not _stopped_growing(grown)):
            await self._group(_SIZES[-1])
            grown.append(self._size())
        number = len(self.made) - made
        return {
            "log_size": float(grown[-1]),
            "written": (written_to(self._path) - began) / number,
        }

    def _size(self) -> int:
        return self._log.stat().st_size

    async def _together(self, costs: dict[str, float], seconds: float) -> dict[str, float]:
        """Return the costs of posts, group commits and jobs while the main, writer and search threads run concurrently.

        Few concurrent members cause many small group commits, and many members few large ones. The costs of a post and of a group
        commit follow from measurements with different numbers of members.
        """
        # Jobs that an earlier measurement ran may not be acknowledged yet.
        await self._runner.drain()
        runner = Runner(self.network.store, TABLE, self.network.effects)
        runner.start()
        rows, worked = [], []
        for writers in _WRITERS:
            groups, made, watch = _Groups(), len(self.made), Stopwatch()
            await self._crowded(writers, groups, seconds / len(_WRITERS))
            await runner.drain()
            rows.append((len(self.made) - made, groups.number))
            worked.append(watch.stop().worked)
        hindered = await self._hindered(seconds)
        await runner.stop()
        post, group = np.linalg.lstsq(np.array(rows, np.float64), np.array(worked), rcond=None)[0]
        parts = ("post", "job", "index")
        each = max(1.0, float(post) / sum(costs[part] for part in parts))
        shared = max(0.0, float(group)) / (costs["group"] + costs["claim"])
        found = {part: costs[part] * each for part in parts} | {
            part: costs[part] * shared for part in ("group", "claim")
        }
        return found | {"contention": min(10.0, max(1.0, hindered))}

    async def _hindered(self, seconds: float) -> float:
        """Return the factor by which threads that need the interpreter lock slow down a busy main thread.

        Other programs slow it down too, by a varying factor. Alternating rounds with and without these threads cancel it out.
        """
        alone, loaded = [], []
        for _ in range(_ROUNDS):
            alone.append(await _without_pauses(asyncio.sleep(seconds / _ROUNDS / 2)))
            loaded.append(await _without_pauses(self._crowded(_WRITERS[-1], _Groups(), seconds / _ROUNDS / 2)))
        return statistics.median(loaded) / statistics.median(alone)

    async def _crowded(self, writers: int, groups: _Groups, seconds: float) -> None:
        await asyncio.gather(*(self._writes(groups, seconds) for _ in range(writers)))

    async def _writes(self, groups: _Groups, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self.made.append((await posts.create(self.network.writes, next(self._authors), Draft(text=TEXT))).id)
            groups.answered()


async def _without_pauses(work: Awaitable[None]) -> float:
    """Run `work` on an event loop that is always busy, and return the wall-clock seconds per CPU second."""
    task = asyncio.ensure_future(work)
    watch = Stopwatch()
    while not task.done():  # noqa: ASYNC110  # it is meant to be busy
        await asyncio.sleep(0)
    taken = watch.stop()
    await task
    return taken.wall / taken.worked


class _Groups:
    """Counts group commits: all posts of a group are answered in one iteration of the event loop."""

    def __init__(self) -> None:
        self.number = 0
        self._answering = False

    def answered(self) -> None:
        """Count a group commit when its first post is answered. Call this for every post."""
        if not self._answering:
            self._answering = True
            self.number += 1
            asyncio.get_running_loop().call_soon(self._ended)

    def _ended(self) -> None:
        self._answering = False


def _stopped_growing(sizes: Sequence[int]) -> bool:
    return len(sizes) > 4 and sizes[-1] == sizes[-4]


_FOLLOWERS = 4_000
NEAR = 4_000
"""Number of timelines that fit into the processor's caches."""
_SHORT = 64
_ROW_BYTES = 4 + 8 + 8 + 8 + 110
"""A timeline in memory without its entries: next slot, floor, member, last read, and its entry in the dictionary of rows."""


async def measure(folder: Path, effort: Effort, step: Step) -> dict[str, float]:
    """Measure the costs of one process, and return them by field of `OneProcess`, except those that need a server."""
    process.prepare()
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
    async with opened_store(settings):
        pass
    sizes = [_files(path)]
    async with opened_store(settings) as store:
        await put_members(store, crowd)
    sizes.append(_files(path))
    async with opened_store(settings) as store:
        follows = await put_follows(store, crowd)
    sizes.append(_files(path))
    async with opened_network(settings, background=False) as network:
        posting = Posting(network, crowd, path)
        step("posts")
        costs |= await posting.measure(effort.rounds, effort.seconds, effort.log)
        costs["job"] = max(0.0, costs["job"] - crowd.each * costs["delivery"])
        step("pages")
        costs |= await _pages(network, crowd, effort.rounds)
        costs["change"] = await _like(network, crowd, posting.made, effort.rounds)
        costs["pull"] = await pull_cost(network, crowd, 4 * effort.rounds)
    sizes.append(_files(path))
    numbers = (len(crowd.everybody), follows, len(posting.made))
    for at, name in enumerate(("member", "follow", "post")):
        costs[f"disk_{name}"] = (sizes[at + 1] - sizes[at]) / numbers[at]
    return costs


async def _delivery(among: int, rounds: int) -> float:
    """Measure deliveries to `among` timelines, which may be short, because a delivery writes only one element of each."""
    timelines = MemoryTimelines(among, _SHORT)
    rng = np.random.default_rng(1)
    for member in range(among):
        await timelines.create(member)
    taken = []
    for entry in range(1, 8 * rounds):
        slots = rng.integers(0, among, _FOLLOWERS).astype(np.int32)
        watch = Stopwatch()
        await timelines.push(entry, slots)
        taken.append(watch.stop().worked / _FOLLOWERS)
    # Ignore the first half of the measurements, which also allocate memory from the operating system.
    return statistics.median(taken[len(taken) // 2 :])


def _copy(path: Path, pages: int) -> float:
    """Return the seconds for checkpointing a page, if the pages in the log are not adjacent in the store."""
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
    """Measure home pages of materialized timelines and of cold timelines."""
    readers = crowd.circle[:200]

    async def read(times: int) -> float:
        taken = []
        for reader in readers * times:
            watch = Stopwatch()
            await home.page(network.reads, reader, PAGE)
            taken.append(watch.stop().worked)
        return statistics.median(taken)

    fresh, page = await read(1), await read(max(1, rounds // 10))
    numbers, costs = [], []
    for number, fan in list(crowd.fans.items()) * rounds:
        await network.timelines.drop((fan,))
        watch = Stopwatch()
        await home.warm_up(network.reads, fan)
        numbers.append(number)
        # Measure wall-clock time, because another thread reads the lists if there are many followees.
        costs.append(watch.stop().wall)
    rebuild, source = line_through(numbers, costs)
    return {"page": page, "page_fresh": max(page, fresh), "rebuild": rebuild, "rebuild_source": source}


async def _like(network: AnyNetwork, crowd: Crowd, made: Sequence[int], rounds: int) -> float:
    """Return the seconds of the main thread per like, with its notification, while likes run concurrently."""
    at_once = min(32, len(crowd.circle))
    runner = Runner(network.store, TABLE, network.effects)
    runner.start()
    watch = Stopwatch()
    for post in made[-rounds:]:
        await together(reactions.like(network.writes, member, post) for member in crowd.circle[:at_once])
        await runner.drain()
    await runner.stop()
    return watch.stop().worked / (min(rounds, len(made)) * at_once)


def _files(path: Path) -> int:
    """Return the size of a closed store in bytes, including its search index and tag cloud."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))

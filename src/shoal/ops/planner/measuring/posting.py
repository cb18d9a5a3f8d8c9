"""The parts of a post in one process, each measured by itself, and then all at once.

Glossary (`docs/glossary.md`): audience.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import statistics
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shoal.admin.contract import AnyNetwork
from shoal.commands import posts
from shoal.commands.posts import Draft
from shoal.consumers.context import Effects
from shoal.consumers.table import TABLE
from shoal.ops.planner.measuring.crowd import TEXT, Crowd, write
from shoal.ops.planner.measuring.meters import Elapsed, Stopwatch, line_through, written_to
from shoal.outbox.runner import Runner
from shoal.search.contract import NoIndex
from shoal.search.indexing import Filler

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_WRITERS = (4, 16, 64, 256)
"""Members who post at the same time, one after the other."""
_TURNS = 5
_ALONE = 64
"""Posts that are committed one by one."""


class _Group(NamedTuple):
    """Posts that were committed together, and what each stage of them took."""

    size: int
    commit: Elapsed
    jobs: Elapsed


class Posting:
    """Posts of a crowd whose jobs nobody else runs."""

    def __init__(self, network: AnyNetwork, crowd: Crowd, path: Path) -> None:
        self.network = network
        self.made: list[int] = []
        """Ids of all posts so far."""
        self._crowd = crowd
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._authors = itertools.cycle(crowd.circle)
        # Rows for search are written by themselves, and not between two measurements.
        effects = dataclasses.replace(network.effects, search=Filler(NoIndex()))
        self._runner: Runner[Effects] = Runner(network.store, TABLE, effects)

    async def measure(self, rounds: int, seconds: float, log: int) -> dict[str, float]:
        """Return the costs by name; that of a job is with the deliveries to the followers of one in the circle."""
        for member in self._crowd.audience:
            await self.network.timelines.create(member)
            await self.network.timelines.fill(member, [], 0)
        costs = await self._logged()
        costs |= await self._audiences()
        costs |= await self._stages(rounds)
        costs |= await self._index(rounds)
        costs |= await self._full_log(log)
        return costs | await self._together(costs, seconds)

    async def _logged(self) -> dict[str, float]:
        """Return what posts in one group add to a log that is new, and what a group adds that has only one; audiences are read."""
        sizes = [self._size()]
        await self._group(len(self._crowd.circle))
        sizes.append(self._size())
        for _ in range(_ALONE):
            await self._group(1)
        together, alone = (sizes[1] - sizes[0]) / len(self._crowd.circle), (self._size() - sizes[1]) / _ALONE
        return {"log": together, "log_group": max(0.0, alone - together)}

    async def _audiences(self) -> dict[str, float]:
        """The first post of each star, whose audience is in no memory, beside the second."""
        first, second = [statistics.median([await self._star(star) for star in self._crowd.stars]) for _ in range(2)]
        return {"audience": max(0.0, first - second) / len(self._crowd.audience)}

    async def _star(self, star: int) -> float:
        self.made += await write(self.network, (star,))
        return (await self._jobs()).worked

    async def _stages(self, rounds: int) -> dict[str, float]:
        groups = [await self._group(size) for _ in range(rounds) for size in _SIZES]
        sizes = [group.size for group in groups]
        group, post = line_through(sizes, [one.commit.worked for one in groups])
        sync, store = line_through(sizes, [one.commit.wall - one.commit.worked for one in groups])
        claim, job = line_through(sizes, [one.jobs.worked for one in groups])
        waits = [one.commit.wall - one.commit.worked - one.size * store for one in groups]
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
        """Rows of the search index for posts that it does not have yet, written by one who has not paused after a write before."""
        taken = []
        waiting = iter(self.made)
        for size in _SIZES * max(1, rounds // 5):
            filler = Filler(self.network.effects.search.index)
            ids = list(itertools.islice(waiting, size))
            watch = Stopwatch()
            await filler.look(self.network.store, ids)
            taken.append((size, watch.stop()))
        sizes = [size for size, _ in taken]
        _, row = line_through(sizes, [one.worked for _, one in taken])
        write, each = line_through(sizes, [one.wall - one.worked for _, one in taken])
        return {"index": row, "index_write": write, "index_row": each}

    async def _group(self, size: int) -> _Group:
        """Posts that are asked for at once, and their jobs."""
        authors = list(itertools.islice(self._authors, size))
        watch = Stopwatch()
        self.made += await write(self.network, authors)
        return _Group(size, watch.stop(), await self._jobs())

    async def _jobs(self) -> Elapsed:
        watch = Stopwatch()
        while await self._runner.turn():
            pass
        return watch.stop()

    async def _full_log(self, most: int) -> dict[str, float]:
        """Fill the write-ahead log until it is copied: how long it becomes, and what is written for a post altogether."""
        began, made = written_to(self._path), len(self.made)
        grown = [self._size()]
        while len(grown) == 1 or ((grown[-1] < most) and not _stands_still(grown)):
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
        """Return what a post and a group take when writer, search and jobs go on beside the main thread.

        With few writers there are many groups, with many writers few: what is worked for either follows from both.
        """
        # What was done by hand may not be acknowledged yet.
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
        """Return how much longer than it works a main thread takes that never rests, while others need the interpreter too.

        It is compared with itself when only other programs can hinder it, by turns, since those come and go.
        """
        alone, beside = [], []
        for _ in range(_TURNS):
            alone.append(await _never_resting(asyncio.sleep(seconds / _TURNS / 2)))
            beside.append(await _never_resting(self._crowded(_WRITERS[-1], _Groups(), seconds / _TURNS / 2)))
        return statistics.median(beside) / statistics.median(alone)

    async def _crowded(self, writers: int, groups: _Groups, seconds: float) -> None:
        """Have so many write for some seconds, each one post after the other."""
        await asyncio.gather(*(self._writes(groups, seconds) for _ in range(writers)))

    async def _writes(self, groups: _Groups, seconds: float) -> None:
        """One post after the other."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self.made.append((await posts.create(self.network.writes, next(self._authors), Draft(text=TEXT))).id)
            groups.answered()


async def _never_resting(work: Awaitable[None]) -> float:
    """Do it on a loop that always has something to do beside; give the time that passed for each second worked."""
    task = asyncio.ensure_future(work)
    watch = Stopwatch()
    while not task.done():  # noqa: ASYNC110  # it is meant to be busy
        await asyncio.sleep(0)
    taken = watch.stop()
    await task
    return taken.wall / taken.worked


class _Groups:
    """Counts group commits: all posts of one are answered in the same turn of the event loop."""

    def __init__(self) -> None:
        self.number = 0
        self._answering = False

    def answered(self) -> None:
        """Note that a post was answered."""
        if not self._answering:
            self._answering = True
            self.number += 1
            asyncio.get_running_loop().call_soon(self._ended)

    def _ended(self) -> None:
        self._answering = False


def _stands_still(sizes: Sequence[int]) -> bool:
    """Whether the log has been copied, and is written from its beginning again."""
    return len(sizes) > 4 and sizes[-1] == sizes[-4]

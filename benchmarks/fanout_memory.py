"""Fan-out into memory: deliveries per second of `MemoryTimelines.push` on one core, compared with a bare NumPy ring.

Every row is filled first, through `push`, so that each measured delivery evicts an entry. The followers of a post are 1,000
distinct random slots, drawn for each of 4,000 posts, so neither rows nor slots are in a processor cache. The bare ring is a head
and a scatter on the same memory. The two run in alternating rounds, and the median round of each counts. After the first round,
1,000 random timelines are read and compared with the pushed posts.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Report, huge_pages, parser, rss
from shoal.core.ids import floor_at
from shoal.graph.contract import Cursor
from shoal.timelines.contract import Slots
from shoal.timelines.memory import MemoryTimelines

_BLOCK = 2_000
"""Number of rows that are filled together. They fit into the processor's cache."""
_PHASES = 97
"""Blocks get up to this number of entries beyond the capacity of a row, so that the heads of their rings differ."""


def member(index: int) -> int:
    """Return a member id as large as real ones."""
    return (index + 1) * 1_000_003 << 10


async def fill(timelines: MemoryTimelines, members: int) -> None:
    """Make every row warm and push until each is full."""
    for index in range(members):
        await timelines.create(member(index))
        await timelines.fill(member(index), (), 0)
    for number, first in enumerate(range(0, members, _BLOCK)):
        slots = timelines.slots([member(index) for index in range(first, min(first + _BLOCK, members))])
        for entry in range(1, timelines.length + number % _PHASES + 1):
            await timelines.push(entry, slots)


def follower_set_cache(members: int, posts: int, followers: int, seed: int) -> NDArray[np.int32]:
    rng = np.random.default_rng(seed)
    sets = np.empty((posts, followers), np.int32)
    for row in sets:
        drawn = np.unique(rng.integers(0, members, followers + followers // 10, np.int32))
        while len(drawn) < followers:
            drawn = np.unique(np.append(drawn, rng.integers(0, members, followers, np.int32)))
        rng.shuffle(drawn)
        row[:] = drawn[:followers]
    return sets


async def push_all(timelines: MemoryTimelines, sets: NDArray[np.int32], first_entry: int) -> tuple[int, float]:
    """Push one post to each set; return the number of deliveries written and the CPU seconds of this thread."""
    written = 0
    started = time.thread_time()
    for offset, slots in enumerate(sets):
        written += await timelines.push(first_entry + offset, slots)
    return written, time.thread_time() - started


class BareRing:
    """The raw engine: gather the heads, scatter the entry, move the heads. It has no floor, eviction or guarantees."""

    def __init__(self, flat: NDArray[np.int64], rows: int, length: int) -> None:
        self._flat = flat
        self._length = length
        self._heads = np.zeros(rows, np.int32)

    def push(self, entry: int, slots: Slots) -> None:
        rows = slots.astype(np.intp)
        offsets = self._heads[rows]
        self._flat[rows * self._length + offsets] = entry
        offsets += 1
        offsets[offsets == self._length] = 0
        self._heads[rows] = offsets

    def push_all(self, sets: NDArray[np.int32], first_entry: int) -> float:
        """Push one post to each set; return the CPU seconds."""
        started = time.thread_time()
        for offset, slots in enumerate(sets):
            self.push(first_entry + offset, slots)
        return time.thread_time() - started


def scattered(flat: NDArray[np.int64], deliveries: int, followers: int) -> float:
    """Return writes per second to random slots, each on a cache line that was not touched before.

    The next slot of a ring is adjacent to its last one, so 1,000,000 rings keep 64 MB of cache lines in use, which a large cache
    may hold. If this figure is far below that of the bare ring, the ring was measured in such a cache.
    """
    at = np.random.default_rng(6).integers(0, len(flat), (deliveries // followers, followers))
    started = time.thread_time()
    for entry, slots in enumerate(at, 1):
        flat[slots] = entry
    return at.size / (time.thread_time() - started)


async def verified(
    timelines: MemoryTimelines, sets: NDArray[np.int32], first_entry: int, readers: NDArray[np.int32]
) -> int:
    """Return how many of these readers have all pushed entries at the top of their timeline, in order."""
    asked = np.zeros(len(timelines), bool)
    asked[readers] = True
    post, at = np.nonzero(asked[sets])
    pushed: dict[int, list[int]] = {int(slot): [] for slot in readers}
    for slot, number in zip(sets[post, at].tolist(), post.tolist(), strict=True):
        pushed[slot].append(first_entry + number)
    right = 0
    for slot, entries in pushed.items():
        window = await timelines.read(member(slot), Cursor(limit=timelines.length))
        ids = window.ids if window is not None else []
        ordered = all(newer > older for newer, older in itertools.pairwise(ids))
        right += ordered and len(ids) >= timelines.length - 1 and ids[: len(entries)] == entries[::-1]
    return right


async def run(members: int, length: int, posts: int, followers: int, rounds: int, report: Report) -> None:
    before = rss()
    timelines = MemoryTimelines(members, length)
    started = time.perf_counter()
    await fill(timelines, members)
    report.add("rows filled by push", members * length / (time.perf_counter() - started), "entries/s")
    report.add("memory including the index", (rss() - before) / (members * length), "bytes/entry")
    report.add("of these in huge pages", huge_pages() / max(1, rss() - before) * 100, "%")
    sets = follower_set_cache(members, posts, followers, seed=1)
    ring = BareRing(timelines._flat, members, length)
    now = floor_at(int(time.time() * 1000))
    ours: list[float] = []
    bare: list[float] = []
    written = 0
    for turn in range(rounds):
        written, seconds = await push_all(timelines, sets, now + turn * posts)
        ours.append(written / seconds)
        if turn == 0:
            readers = np.random.default_rng(2).choice(members, min(1_000, members), replace=False).astype(np.int32)
            right = await verified(timelines, sets, now, readers)
            report.check("timelines read back, whole and in order", right, len(readers))
        bare.append(sets.size / ring.push_all(sets, now + turn * posts))
    report.check("deliveries written in a turn", written, sets.size)
    report.add("written deliveries", statistics.median(ours), "1/s, one core", raw=statistics.median(bare))
    report.add("share of the bare ring", statistics.median(ours) / statistics.median(bare))
    report.add("best round", max(ours), "1/s, one core", raw=max(bare))
    report.add("bare scatter to random slots", scattered(timelines._flat, sets.size, followers), "1/s")
    report.add("a post", followers / statistics.median(ours) * 1e6, "us", raw=followers / statistics.median(bare) * 1e6)


def main() -> None:
    options = parser(
        __doc__,
        quick={"members": 20_000, "posts": 500, "rounds": 3},
        smallest={"members": 2_000, "length": 200, "posts": 100, "rounds": 1},
    )
    options.add_argument("--members", type=int, default=1_000_000, help="number of materialized timelines")
    options.add_argument("--length", type=int, default=800, help="number of entries in each timeline")
    options.add_argument("--followers", type=int, default=1_000, help="number of followers to whom each post is pushed")
    options.add_argument(
        "--posts", type=int, default=4_000, help="number of posts per round, each with its own random set of followers"
    )
    options.add_argument(
        "--rounds", type=int, default=5, help="number of rounds, each with Shoal and with the bare NumPy array"
    )
    chosen = options.parse_args()
    report = Report("fanout_memory", chosen.size)
    asyncio.run(run(chosen.members, chosen.length, chosen.posts, chosen.followers, chosen.rounds, report))
    report.show()


if __name__ == "__main__":
    main()

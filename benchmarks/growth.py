"""Networks of which one part grows, and the cost of calls in them.

The work of SQLite does not depend on how busy the machine is: its statements, the steps of its virtual machine (a step is one
instruction, such as moving to the next row), and the rows that it changes. Processor time is that of the whole process.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from operator import length_hint
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import spread
from benchmarks.stores import build, ids_of, numbered, post_id
from shoal.app.network import Network
from shoal.graph.schema import LIKED_BY, POSTED
from shoal.graph.sqlite import sql

FOLLOWEES, FANS = 100, 10
AUTHOR, READER = 0, FOLLOWEES + 1
"""Positions of members in a network of growing content."""
STAR, CURIOUS, STRANGER, CROWD = 0, 1, 2, 3
"""Positions of members in a network of growing size: the crowd begins at the last."""
_ENDLESS = 1 << 62

Act = Callable[[], Awaitable[object]]


class Cost(NamedTuple):
    """Work of SQLite, and microseconds of processor time."""

    statements: int
    steps: int
    rows: int
    cpu: float


class Phases(NamedTuple):
    """The cost of a call, and of its asynchronous consequences."""

    online: Cost
    offline: Cost


def build_content(path: Path, posts: int) -> None:
    """Build a network in which the author has this number of posts, and the followees of the reader have as many together."""
    follows = [(READER, followee) for followee in range(1, FOLLOWEES + 1)]
    follows += [(READER + 1 + fan, AUTHOR) for fan in range(FANS)]
    rng = np.random.default_rng(7)
    authors = np.concatenate((np.zeros(posts, np.int64), rng.integers(1, FOLLOWEES + 1, posts)))
    build(path, numbered(READER + 1 + FANS), np.array(follows, np.int64), rng.permutation(authors))


def build_crowd(path: Path, size: int) -> None:
    """Build a network in which a crowd of this size follows the star and likes their post, and the curious member
    follows the crowd.
    """
    if path.exists():
        return
    crowd = np.arange(CROWD, CROWD + size)
    follows = np.concatenate(
        (np.column_stack((crowd, np.full(size, STAR))), np.column_stack((np.full(size, CURIOUS), crowd)))
    )
    names = numbered(CROWD + size)
    half = path.with_suffix(".unliked")
    build(half, names, follows, np.append(np.random.default_rng(7).permutation(crowd), STAR))
    ids = ids_of(names)
    star, post = int(ids[STAR]), post_id(size, int(ids[STAR]))
    with closing(sqlite3.connect(half)) as store, store:
        rows = ((post, LIKED_BY.number, id2, id2, 1, b"") for id2 in ids[CROWD:].tolist())
        store.executemany("INSERT INTO association VALUES (?, ?, ?, ?, ?, ?)", rows)
        store.executemany(sql.COUNT_SET, [(post, LIKED_BY.number, size), (star, LIKED_BY.number, size)])
    half.rename(path)


def newest_first(path: Path, members: Sequence[int]) -> list[int]:
    """Return the ids of the posts of some members."""
    marks = ", ".join("?" * len(members))
    query = f"SELECT id2 FROM association WHERE id1 IN ({marks}) AND atype = ? AND alive = ? ORDER BY id2 DESC"  # noqa: S608  # marks only
    with closing(sqlite3.connect(path)) as store:
        return [id_ for (id_,) in store.execute(query, (*members, POSTED.number, sql.IN_PLACE))]


class Meter:
    """Counts the work of connections. Install it in the thread that uses a connection, and remove it in the same thread.

    In another thread, it would wait for the connection while it holds Python's lock, which a callback needs.
    """

    def __init__(self) -> None:
        self._steps, self._statements = itertools.repeat(0, _ENDLESS), itertools.repeat(None, _ENDLESS)
        self._connections: list[sqlite3.Connection] = []
        self._before = Cost(0, 0, 0, 0.0)

    def install(self, connection: sqlite3.Connection) -> None:
        # Called for each step, without a frame of Python: 0 lets SQLite continue.
        connection.set_progress_handler(self._steps.__next__, 1)
        connection.set_trace_callback(partial(next, self._statements))
        self._connections.append(connection)
        self.start()

    @staticmethod
    def remove(connection: sqlite3.Connection) -> None:
        connection.set_progress_handler(None, 0)
        connection.set_trace_callback(None)

    def start(self) -> None:
        self._before = Cost(0, 0, 0, 0.0)
        self._before = self.cost()

    def cost(self) -> Cost:
        """Return the work since the start."""
        before = self._before
        return Cost(
            _ENDLESS - length_hint(self._statements) - before.statements,
            _ENDLESS - length_hint(self._steps) - before.steps,
            sum(connection.total_changes for connection in self._connections) - before.rows,
            0.0,
        )


@asynccontextmanager
async def counting(network: Network) -> AsyncIterator[Meter]:
    """Count the work of a network's store during the block. This makes calls slower."""
    store: Any = network.memory._store
    meter = Meter()

    async def everywhere(act: Callable[[sqlite3.Connection], None]) -> None:
        act(store._reading)
        await store._in_thread(act)
        await store._written(store._writer, act)

    await everywhere(meter.install)
    meter.start()
    try:
        yield meter
    finally:
        await everywhere(meter.remove)


async def costs_of(network: Network, calls: Mapping[str, Act], times: int, seconds: float) -> dict[str, Phases]:
    """Make all calls several times in turn, each followed by its consequences. Stop early after some seconds.

    The work is that of the last turn. The processor time is the median of the other turns.
    """
    times_taken: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    began = time.monotonic()
    for turn in range(times + 1):
        for name, call in calls.items():
            # The event loop holds the result of the last read until this task yields. Without this line, the next call
            # would pay for freeing it: 60 ms after a merge of a million lists.
            await asyncio.sleep(0)
            before = time.process_time()
            await call()
            between = time.process_time()
            await drain(network)
            # The first turn fills caches.
            if turn:
                times_taken[name].append((between - before, time.process_time() - between))
        if turn and time.monotonic() - began > seconds:
            break
    found = {}
    async with counting(network) as meter:
        for name, call in calls.items():
            meter.start()
            await call()
            online = meter.cost()
            meter.start()
            await drain(network)
            offline = meter.cost()
            here, later = (spread(taken).median * 1e6 for taken in zip(*times_taken[name], strict=True))
            found[name] = Phases(online._replace(cpu=here), offline._replace(cpu=later))
    return found


async def drain(network: Network) -> None:
    """Process all events, including the work that consumers do in the background."""
    runner = network.runner
    while await runner.run_once() or runner._waiting:
        while runner._waiting:
            network.search.hurry()
            await asyncio.sleep(0.001)


def cost_of_query(path: Path, query: str, values: Sequence[int], times: int, seconds: float) -> tuple[Cost, list[Any]]:
    """Return the cost of a query on a bare connection, and its rows."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as read:
        taken: list[float] = []
        rows: list[Any] = []
        began = time.monotonic()
        while len(taken) < times and (not taken or time.monotonic() - began < seconds):
            before = time.process_time()
            rows = read.execute(query, values).fetchall()
            taken.append(time.process_time() - before)
        meter = Meter()
        meter.install(read)
        read.execute(query, values).fetchall()
        return meter.cost()._replace(cpu=spread(taken).median * 1e6), rows

"""Costs of several processes on PostgreSQL, Redis and RabbitMQ: CPU time of each part, for small and large follower sets.

This process acts as the web process; it starts a worker and the engines. The cost of a delivery is the difference between
posts with many and with few followers, divided by the deliveries.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from shoal.admin.contract import AnyNetwork
from shoal.commands import reactions
from shoal.core.ids import floor_at
from shoal.graph.contract import Cursor
from shoal.queries import home
from shoal.search.indexing import Filler
from shoal.settings import Settings, build
from shoal_devcluster import postgres, rabbitmq, redis
from shoal_devcluster.program import Program
from shoal_planner.calibration import SHARED_SIZES
from shoal_planner.measuring.meters import Stopwatch, cpu_of, line_through, memory_of, running, written_to
from shoal_planner.measuring.network import (
    PAGE,
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

_LOOK_SECONDS = 0.0005
_PATIENCE_SECONDS = 60.0
_ENTRIES = 800
_OLD_MS = 1_710_000_000_000
_KEY_BYTES = 110
"""Size of a key in Redis, with its entries in the dictionaries of keys and of expiry times."""


class StartedEngines(NamedTuple):
    store: Program
    cache: Program
    broker: Program


@contextmanager
def started() -> Iterator[StartedEngines]:
    """Start the engines, and stop them when the block ends. Raises `NotInstalled` if one is missing."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-plan-"))
    # If this process runs as root, the engines run as other operating-system users, which must enter the folder.
    folder.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        store = postgres.start(folder / "store")
        stack.callback(store.stop)
        cache = redis.start(folder)
        stack.callback(cache.stop)
        broker = rabbitmq.start(folder / "broker")
        # Kill the broker, because a clean stop takes ten seconds, and its folder is deleted anyway.
        stack.callback(broker.kill)
        yield StartedEngines(store, cache, broker)


def settings_of(engines: StartedEngines) -> Settings:
    return build(
        store=engines.store.url,
        timelines=engines.cache.url,
        broker=engines.broker.url,
        media="memory://",
        run_consequences=False,
        rate_limits=False,
    )


async def measure(engines: StartedEngines, effort: Effort, step: Step) -> dict[str, float]:
    """Measure the costs of a network of several processes, by field of `Shared`, except `web_request`."""
    settings = settings_of(engines)
    crowd = gather(effort.shared_circle, effort.shared_crowd)
    step("shared: members and follows")
    costs = dict(SHARED_SIZES)
    async with opened_store(settings) as store:
        await put_members(store, crowd)
        await put_follows(store, crowd)
    async with (
        opened_network(settings, background=True) as network,
        running(settings, "worker", "--processes", "1") as worker,
    ):
        measuring = _Measuring(network, engines, worker, effort, crowd)
        step("shared: posts")
        costs |= await measuring.posts()
        costs |= await measuring.index()
        costs["store_post"] = max(0.0, costs["store_post"] - costs["store_index"])
        step("shared: pages")
        costs |= await measuring.pages()
    async with opened_network(settings, background=False) as network:
        return costs | await _Measuring(network, engines, os.getpid(), effort, crowd).fresh()


class _Measuring:
    def __init__(self, network: AnyNetwork, engines: StartedEngines, worker: int, effort: Effort, crowd: Crowd) -> None:
        self._network = network
        self._engines = engines
        self._worker = worker
        self._effort = effort
        self._crowd = crowd
        self._made: Sequence[int] = []

    async def posts(self) -> dict[str, float]:
        """Measure the CPU time of each process per post and per delivery, for authors with few and with many followers."""
        crowd, count = self._crowd, 40 * self._effort.rounds
        before = memory_of(self._engines.cache.pid or 0)
        await self._warm()
        # First write posts by authors with few and with many followers, so that their lists of followers are cached.
        made = await self._worked([*crowd.circle[:50]])
        first = await self._worked(crowd.stars)
        costs = await self._alone()
        written = written_to(self._engines.store.log)
        few = await self._worked([crowd.circle[at % len(crowd.circle)] for at in range(count)])
        written = written_to(self._engines.store.log) - written
        self._made = few.ids
        many = await self._worked(crowd.stars * max(2, self._effort.rounds // 2))
        liked = await self._likes(made.ids[-self._effort.rounds :])

        def delivery(part: str) -> float:
            return max(0.0, many.each(part) - few.each(part)) / (len(crowd.follower_set) - crowd.each)

        def read(part: str) -> float:
            return max(0.0, first.each(part) - many.each(part)) / len(crowd.follower_set)

        costs |= {
            "web_post": few.each("web"),
            "web_change": liked.each("web"),
            "worker_read": read("worker"),
            "worker_delivery": delivery("worker"),
            "worker_job": max(0.0, few.each("worker") - crowd.each * delivery("worker")),
            "store_read": read("store"),
            "store_post": few.each("store"),
            "store_change": liked.each("store"),
            "store_written": written / count,
            "redis_delivery": delivery("redis"),
            "redis_post": max(0.0, few.each("redis") - crowd.each * delivery("redis")),
            "broker_job": few.each("broker"),
            "memory_worker": float(memory_of(self._worker)),
            "memory_broker": float(memory_of(self._engines.broker.pid or 0)),
        }
        return costs | await self._entries(before)

    async def _warm(self) -> None:
        timelines = self._network.timelines
        await together(timelines.create(member) for member in self._crowd.follower_set)
        await together(timelines.fill(member, [], 0) for member in self._crowd.follower_set)

    async def _alone(self) -> dict[str, float]:
        """Measure a single post on an idle system: the duration of its commit, and the time until all its few followers have it."""
        commits, arrivals = [], []
        for author in self._crowd.circle[: self._effort.rounds]:
            watch = Stopwatch()
            (post,) = await write(self._network, (author,))
            commits.append(watch.stop().wall)
            watch = Stopwatch()
            await self._arrival(post, author)
            arrivals.append(watch.stop().wall)
        return {"commit": statistics.median(commits), "arrival": statistics.median(arrivals)}

    async def _arrival(self, post: int, author: int) -> None:
        circle = self._crowd.circle
        follower = circle[(circle.index(author) + 1) % len(circle)]
        end = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < end:
            window = await self._network.timelines.read(follower, Cursor(limit=1, after=post - 1))
            if window is not None and post in window.ids:
                return
            await asyncio.sleep(_LOOK_SECONDS)
        raise TimeoutError("a post was not delivered within a minute")

    async def _worked(self, authors: list[int]) -> _Work:
        return await self._during(write(self._network, authors))

    async def _likes(self, liked: Sequence[int]) -> _Work:
        some = self._crowd.circle[:32]
        likes = [reactions.like(self._network.writes, member, post) for post in liked for member in some]
        return await self._during(together(likes))

    async def _during(self, work: Awaitable[Sequence[Any]]) -> _Work:
        before = self._spent()
        made = await work
        await self._network.settle(_PATIENCE_SECONDS)
        return _Work(made, {part: seconds - before[part] for part, seconds in self._spent().items()})

    def _spent(self) -> dict[str, float]:
        engines = self._engines
        parts = {
            "worker": self._worker,
            "store": engines.store.pid,
            "redis": engines.cache.pid,
            "broker": engines.broker.pid,
        }
        return {"web": time.process_time()} | {part: cpu_of(pid or 0) for part, pid in parts.items()}

    async def _entries(self, before: int) -> dict[str, float]:
        """Measure the memory per entry of full timelines in Redis. `before` is the memory (bytes) without these entries."""
        old = [floor_at(_OLD_MS) + number for number in range(_ENTRIES)]
        full = self._crowd.follower_set
        await together(self._network.timelines.union(member, old, 0) for member in full)
        grown = memory_of(self._engines.cache.pid or 0) - before
        return {"memory_entry": grown / len(full) / _ENTRIES, "memory_warm": float(_KEY_BYTES)}

    async def index(self) -> dict[str, float]:
        filler = Filler(self._network.effects.search.index)

        async def write_again() -> Sequence[int]:
            await filler.look(self._network.store, self._made)
            return self._made

        return {"store_index": (await self._during(write_again())).each("store")}

    async def fresh(self) -> dict[str, float]:
        """Measure one page for each of several members for whom this process has cached nothing."""
        pages = await self._read(self._crowd.circle[: 8 * self._effort.rounds])
        return {f"{part}_page_fresh": pages.each(part) for part in ("web", "store", "redis")}

    async def pages(self) -> dict[str, float]:
        network, crowd = self._network, self._crowd
        readers = crowd.circle[:100]
        for reader in readers * 2:
            await home.page(network.reads, reader, PAGE)
        pages = await self._read(readers * max(1, self._effort.rounds // 5))
        return {
            "web_page": pages.each("web"),
            "redis_page": pages.each("redis"),
            "memory_web": float(memory_of(os.getpid(), children=False)),
            **await self._rebuilds(),
            "web_pull": await pull_cost(network, crowd, 2 * self._effort.rounds),
        }

    async def _read(self, readers: list[int]) -> _Work:
        async def read() -> list[int]:
            for reader in readers:
                await home.page(self._network.reads, reader, PAGE)
            return readers

        return await self._during(read())

    async def _rebuilds(self) -> dict[str, float]:
        numbers, web, store = [], [], []
        for number, fan in self._crowd.fans.items():
            work = await self._during(self._rebuilt(fan, 2 * self._effort.rounds))
            numbers.append(number)
            web.append(work.each("web"))
            store.append(work.each("store"))
        rebuild, source = line_through(numbers, web)
        _, stored = line_through(numbers, store)
        return {"web_rebuild": rebuild, "web_rebuild_source": source, "store_rebuild_source": stored}

    async def _rebuilt(self, fan: int, times: int) -> list[int]:
        for _ in range(times):
            await self._network.timelines.drop((fan,))
            await home.warm_up(self._network.reads, fan)
        return list(range(times))


class _Work(NamedTuple):
    ids: Sequence[Any]
    seconds: dict[str, float]

    def each(self, part: str) -> float:
        return self.seconds[part] / len(self.ids)

"""A home page of 20 through Redis and PostgreSQL, in the library: its cost, and its requests to engines.

The real follow graph is loaded into one PostgreSQL store in bulk, with as many posts as in the real data. Readers follow about
200, or about 404, and their timelines are warm. Round trips are counted where they are made: scripts run on Redis, and statements
sent to PostgreSQL. Four states: nothing changed since the last page; one post of the page was liked, so its version token is
gone; everything was changed, and all tokens are gone; and a process that has just started. The raw engine is a socket that reads
the keys of a page from Redis by pre-encoded GET and MGET commands, in as many round trips.
"""

from __future__ import annotations

import argparse
import gc
import random
import socket
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import uvloop
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from benchmarks.measure import REAL_DATA, Report, parser, spread
from benchmarks.shared_engines import Engines, engines
from benchmarks.shared_rows import crowd, fill
from benchmarks.stores import Ints, ids_of, numbered, power_law, real_authors, real_graph
from shoal import Handle, Shoal
from shoal.app.network import open_network
from shoal.core.ids import shard_of
from shoal.graph.postgres.connections import ConnectionPool
from shoal.graph.redis.client import KEY_BYTES, Nodes, Script
from shoal.queries import home

_ENTRIES = 20
_DEGREES = (200, 404)


_READING: ContextVar[bool] = ContextVar("reading", default=False)
"""Whether a page is being read. Only then requests are counted, because the process also polls its shard map."""


class Cost(NamedTuple):
    seconds: float
    worked: float
    redis: int
    postgres: int


class Trips:
    """A counter of requests to engines for a page; it can record the keys of scripts."""

    def __init__(self) -> None:
        self.redis = 0
        self.postgres = 0
        self.keys: list[list[bytes]] | None = None

    @contextmanager
    def counted(self) -> Iterator[None]:
        run, have, trips = Nodes._run, ConnectionPool._have, self

        async def script(nodes: Nodes, client: Any, text: Script, arguments: Sequence[Any], **more: Any) -> Any:
            trips.redis += _READING.get()
            if trips.keys is not None:
                every = arguments[0]
                trips.keys.append([every[at : at + KEY_BYTES] for at in range(0, len(every), KEY_BYTES)])
            return await run(nodes, client, text, arguments, **more)

        async def statement(connections: ConnectionPool, work: Any, *more: Any, **named: Any) -> Any:
            trips.postgres += _READING.get()
            return await have(connections, work, *more, **named)

        with patch.object(Nodes, "_run", script), patch.object(ConnectionPool, "_have", statement):
            yield


class Bench:
    def __init__(self, of: Engines, report: Report, rounds: int) -> None:
        self.engines = of
        self.report = report
        self.rounds = rounds
        self.trips = Trips()
        self.read = self.whole = 0
        self.port = int(of.redis.url.rsplit(":", 1)[1].partition("/")[0])
        self.server: Any = Redis.from_url(of.redis.url)
        self.settings = of.settings()

    async def page(self, reader: Handle) -> Cost:
        redis, postgres = self.trips.redis, self.trips.postgres
        started, began = time.perf_counter(), time.thread_time()
        token = _READING.set(True)
        page = await reader.home(limit=_ENTRIES)
        _READING.reset(token)
        seconds, worked = time.perf_counter() - started, time.thread_time() - began
        self.read += 1
        self.whole += len(page.entries) == _ENTRIES
        return Cost(seconds, worked, self.trips.redis - redis, self.trips.postgres - postgres)

    async def pages(self, readers: Sequence[Handle], before: Callable[[Handle], Awaitable[None]]) -> list[Cost]:
        """Read pages of all readers, `rounds` times. `before` is called before each page and is not counted."""
        costs = []
        for _ in range(self.rounds):
            for reader in readers:
                await before(reader)
                costs.append(await self.page(reader))
        return costs

    def forget_stamps(self) -> None:
        """Delete all version tokens, as if other processes had changed everything."""
        keys = list(self.server.scan_iter("s:*", count=5_000))
        for first in range(0, len(keys), 5_000):
            self.server.unlink(*keys[first : first + 5_000])

    def tell(self, name: str, costs: list[Cost], raw: float | None = None) -> None:
        times = spread([cost.seconds * 1_000 for cost in costs])
        self.report.add(f"{name}, median", times.median, "ms", raw=raw)
        self.report.add(f"{name}, p99", times.p99, "ms")
        worked = statistics.median(cost.worked for cost in costs) * 1_000
        self.report.add(f"{name}, CPU of this thread, median", worked, "ms")
        self.report.add(f"{name}, round trips, max", max(c.redis + c.postgres for c in costs), "")
        told = " + ".join(f"{statistics.mean(n):.1f}" for n in ([c.redis for c in costs], [c.postgres for c in costs]))
        print(f"  {name}: {told} trips to Redis + PostgreSQL, mean of {len(costs):,} pages")

    async def client(self, asked: list[list[bytes]]) -> float:
        """Return the milliseconds of the client library alone for these keys."""
        times = []
        connection: Any = AsyncRedis.from_url(self.engines.redis.url, protocol=2)
        async with connection as client:
            for _ in range(500):
                started = time.perf_counter()
                for keys in asked:
                    await client.execute_command("MGET", *keys)
                times.append(time.perf_counter() - started)
        return statistics.median(times) * 1_000

    def raw(self, asked: list[list[bytes]]) -> tuple[float, int]:
        """Return the milliseconds of a bare socket for these keys, and the bytes received."""
        words = [[b"GET" if len(keys) == 1 else b"MGET", *keys] for keys in asked]
        lines = [_encoded(parts) for parts in words]
        sizes = [self._size(line) for line in lines]
        times = []
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(2_000):
                started = time.perf_counter()
                for line, size in zip(lines, sizes, strict=True):
                    connection.sendall(line)
                    came = 0
                    while came < size:
                        came += len(connection.recv(1 << 16))
                times.append(time.perf_counter() - started)
        return statistics.median(times) * 1_000, sum(sizes)

    def _size(self, line: bytes) -> int:
        """Return the size of the response. The connection carries nothing else, and closes after QUIT."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(line + _encoded([b"QUIT"]))
            size = 0
            while part := connection.recv(1 << 16):
                size += len(part)
        return size - len(b"+OK\r\n")


def _encoded(words: Sequence[bytes]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


async def _nothing(_: Handle) -> None:
    """Do nothing between two pages."""


async def warm(bench: Bench, readers: dict[int, list[int]]) -> None:
    """Measure the three states of a process that has been running for a while."""
    async with open_network(bench.settings, background=False) as network:
        shoal = Shoal(network)
        for degree, ids in readers.items():
            handles = [await shoal.member(id_) for id_ in ids]
            for handle in handles:
                await home.warm_up(network.reads, handle.id)
                # First its objects, then, with the current version tokens, the lists that are not cached yet.
                await handle.home(limit=_ENTRIES)
                await handle.home(limit=_ENTRIES)
            name = f"follows {degree}"
            with bench.trips.counted():
                gc.collect()
                unchanged = await bench.pages(handles, _nothing)
                asked: list[list[bytes]] = []
                bench.trips.keys = asked
                await bench.page(handles[0])
                bench.trips.keys = None
                raw, size = bench.raw(asked)
                bench.tell(f"{name}: nothing changed", unchanged, raw=raw)
                bench.report.add(f"{name}: the same keys through redis-py alone", await bench.client(asked), "ms")
                bench.report.add(f"{name}: keys of a page", sum(len(keys) for keys in asked))
                bench.report.add(f"{name}: bytes sent by Redis", size, "bytes")
                bench.tell(f"{name}: one post of the page was liked", await bench.pages(handles, _liking(bench)))
                bench.tell(f"{name}: everything was changed", await bench.pages(handles, _changing(bench)))


def _changing(bench: Bench) -> Callable[[Handle], Awaitable[None]]:
    async def change(_: Handle) -> None:
        bench.forget_stamps()

    return change


def _liking(bench: Bench) -> Callable[[Handle], Awaitable[None]]:
    """Return an action that deletes the version token of one post of the reader's page, as a like by another member does."""
    pages: dict[int, list[int]] = {}
    rng = random.Random(3)

    async def like(reader: Handle) -> None:
        if reader.id not in pages:
            pages[reader.id] = [entry.post.id for entry in (await reader.home(limit=_ENTRIES)).entries]
        post = rng.choice(pages[reader.id])
        bench.server.unlink(f"s:{{{shard_of(post):04x}}}:{post:016x}")

    return like


async def cold(bench: Bench, readers: dict[int, list[int]], count: int) -> None:
    """Measure the first page of a new process with a warm timeline, and one after the timeline was dropped."""
    for degree, ids in readers.items():
        costs: dict[str, list[Cost]] = {"": [], ", and so is its timeline": []}
        for id_ in ids[:count]:
            for more, taken in costs.items():
                async with open_network(bench.settings, background=False) as network:
                    reader = await Shoal(network).member(id_)
                    if more:
                        await network.timelines.drop((id_,))
                    with bench.trips.counted():
                        taken.append(await bench.page(reader))
        for more, taken in costs.items():
            bench.tell(f"follows {degree}: the process is cold{more}", taken)


def closest(follows: Ints, members: Ints, degree: int, count: int) -> list[int]:
    """Return the members with the number of followees closest to `degree`."""
    degrees = np.bincount(follows[:, 0], minlength=len(members))
    nearest: list[int] = members[np.argsort(np.abs(degrees - degree), kind="stable")[:count]].tolist()
    return nearest


async def run(of: Engines, chosen: argparse.Namespace, report: Report) -> None:
    made_up = chosen.members
    names, follows = (numbered(made_up), power_law(made_up, 10 * made_up)) if made_up else real_graph(chosen.data)
    bench = Bench(of, report, chosen.rounds)
    async with open_network(bench.settings, background=False):
        # Opening a store creates its tables.
        pass
    started = time.perf_counter()
    rows = await fill([store.url for store in of.stores], crowd(names, follows, real_authors(len(names), follows)))
    report.add("rows in the store", rows)
    print(f"  {rows:,} rows were copied in {time.perf_counter() - started:.1f} s")
    readers = {degree: closest(follows, ids_of(names), degree, chosen.readers) for degree in _DEGREES}
    await warm(bench, readers)
    await cold(bench, readers, chosen.cold)
    report.check(f"pages with {_ENTRIES} entries", bench.whole, bench.read)
    bench.server.close()


def main() -> None:
    options = parser(
        __doc__,
        quick={"members": 3_000, "readers": 5, "rounds": 5, "cold": 3},
        smallest={"members": 500, "readers": 2, "rounds": 2, "cold": 1},
    )
    options.add_argument(
        "--members", type=int, default=0, help="number of members of a generated network; 0: use the network in --data"
    )
    options.add_argument(
        "--cold", type=int, default=15, help="number of readers who read a page in a process that has just started"
    )
    options.add_argument(
        "--data", type=Path, default=REAL_DATA, help="directory that contains graph/nodes.csv and graph/edges.csv"
    )
    options.add_argument(
        "--readers",
        type=int,
        default=20,
        help="number of readers in each of two groups, with about 200 and about 404 followees",
    )
    options.add_argument(
        "--rounds",
        type=int,
        default=50,
        help="number of pages that each reader reads in each state of the caches, but not in a new process (--cold)",
    )
    chosen = options.parse_args()
    report = Report("shared_home", chosen.size)
    with engines(1) as of:
        uvloop.run(run(of, chosen, report))
    report.show()


if __name__ == "__main__":
    main()

"""Two PostgreSQL stores compared with one: the cost of a request, and the commit rate when the stores are the bottleneck.

First, single requests on a network of one store and on one of two: the statements sent to each store, the scripts run on Redis,
and the number of sequential waits for an engine. They are calls of the library, each in a block that reads every version token
once, like an HTTP request. Each member does everything twice: "again" is the cost once the process has cached the members.
Members are distributed by their names, so half of all follows and likes involve both stores.

Then commits at the maximum rate. Two cores cannot run two servers and the client at full speed, so each server is also limited to
2 % of a core: a watchdog reads the CPU time of all its processes every millisecond and stops them by a signal while they have
exceeded it. Then only this quota limits the rate, which the reported use of client and servers shows, as on slower machines. The
number of callers per store is constant. At the end the posts in the stores are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple
from unittest.mock import patch

import asyncpg
import uvloop

from benchmarks.measure import Report, parser, spread, tree_cpu
from benchmarks.shared_engines import Engines, engines
from benchmarks.shared_rations import slowed
from shoal import Shoal
from shoal.app.network import open_network
from shoal.core.events import FollowChanged, PostCreated
from shoal.core.ids import EPOCH_MS, IdMaker, compose, shard_of
from shoal.core.model import Post
from shoal.core.placement import DATA_SOURCES, SHARDS, place
from shoal.graph.cache.coherence import one_request
from shoal.graph.contract import Batch
from shoal.graph.postgres import PostgresGraph
from shoal.graph.postgres.connections import ConnectionPool
from shoal.graph.redis.client import Nodes
from shoal.graph.resolve import Owns
from shoal.graph.schema import FOLLOWS, LIKES, POSTED
from shoal.graph.sharding.sharded_graph import ShardedGraph

_MEMBERS = 4_096
_TEXT = "Low tide: the boats lie on the sand and wait for the evening."

_COUNTING: ContextVar[bool] = ContextVar("counting", default=False)
"""Whether a request is running. Only then calls are counted, because the process also polls its shard map."""


class Asked:
    def __init__(self) -> None:
        self.statements: dict[str, int] = {}
        self.scripts = 0
        self.waits = 0
        """How often a request began to wait for an engine; concurrent calls count as one wait."""
        self._under_way = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        run, have, asked = Nodes._run, ConnectionPool._have, self

        async def script(nodes: Nodes, *values: Any, **more: Any) -> Any:
            if not _COUNTING.get():
                return await run(nodes, *values, **more)
            asked.scripts += 1
            answer = run(nodes, *values, **more)
            # Do not count the call that reports the end of a request's changes, because the request does not wait for it.
            return await (answer if values[1].name == "versions.end" else asked._waiting(answer))

        async def statement(connections: ConnectionPool, *values: Any, **more: Any) -> Any:
            if not _COUNTING.get():
                return await have(connections, *values, **more)
            asked.statements[connections._name] = asked.statements.get(connections._name, 0) + 1
            return await asked._waiting(have(connections, *values, **more))

        with patch.object(Nodes, "_run", script), patch.object(ConnectionPool, "_have", statement):
            yield

    async def _waiting(self, answer: Awaitable[Any]) -> Any:
        self.waits += not self._under_way
        self._under_way += 1
        try:
            return await answer
        finally:
            self._under_way -= 1


async def requests(of: Engines, stores: int, report: Report, count: int) -> None:
    settings = of._replace(stores=of.stores[:stores]).settings()
    rng = random.Random(5)
    name = "one store" if stores == 1 else f"{stores} stores"
    async with open_network(settings, background=False) as network:
        shoal = Shoal(network)
        people = [await shoal.register(f"member_{n}_of_{stores}") for n in range(count)]
        made = [await person.create(_TEXT) for person in people]

        async def post(n: int) -> None:
            await people[n].create(_TEXT)

        async def follow(n: int) -> None:
            await people[n].follow(people[(n + steps[0]) % count])

        async def like(n: int) -> None:
            await people[n].like(made[(n + steps[0]) % count])

        async def home(n: int) -> None:
            await people[n].home()

        steps = rng.sample(range(1, count), 2)
        kinds: dict[str, Callable[[int], Awaitable[None]]] = {"post": post, "follow": follow, "like": like}
        for again in ("", " again"):
            for kind, act in kinds.items():
                await cost(f"{kind}{again}, {name}", act, count, report)
            steps.reverse()
        await network.runner.drain(120)
        # The first pages fill the timelines. The second ones then have the current version tokens, and cache the objects.
        for n in (*range(count), *range(count)):
            await home(n)
        await cost(f"home page, {name}", home, count, report)


async def cost(name: str, act: Callable[[int], Awaitable[None]], count: int, report: Report) -> None:
    """Measure the mean cost of one request per member."""
    asked = Asked()
    with asked.counted():
        for n in range(count):
            token = _COUNTING.set(True)
            with one_request():
                await act(n)
            _COUNTING.reset(token)
    report.check(f"{name}: requests were counted", bool(asked.scripts), True)
    by_store = sorted(asked.statements.values())
    report.add(f"{name}: statements", sum(by_store) / count)
    if len(by_store) > 1:
        report.add(f"{name}: of these to the busiest store", by_store[-1] / sum(by_store) * 100, "%")
    report.add(f"{name}: scripts on Redis", asked.scripts / count)
    report.add(f"{name}: sequential waits", asked.waits / count)


# Commits


class Load:
    """A source of the batches that commands create, by members spread by their names."""

    def __init__(self) -> None:
        self._rng = random.Random(9)
        self._new_id = IdMaker()
        self.members = [compose(EPOCH_MS + n, place(f"member_{n}").shard) for n in range(_MEMBERS)]
        self._posts: list[tuple[int, int]] = []
        self.made = [0] * DATA_SOURCES
        """Number of commits on each data source."""

    def post(self) -> Batch:
        author = self._member()
        batch = self._batch(author)
        id_ = self._new_id(batch.shard)
        batch.obj_add(Post(id=id_, author_id=author, text=_TEXT))
        batch.assoc_add(author, POSTED, id_, id_)
        batch.emit(PostCreated(post_id=id_, author_id=author))
        self._posts.append((id_, author))
        return batch

    def follow(self) -> Batch:
        """Return a follow between random members."""
        member, other = self._member(), self._member()
        batch = self._batch(member)
        batch.assoc_add(member, FOLLOWS, other, self._new_id(batch.shard))
        batch.emit(FollowChanged(follower_id=member, source_id=other))
        return batch

    def like(self) -> Batch:
        member, (post, author) = self._member(), self._rng.choice(self._posts)
        batch = self._batch(member)
        batch.assoc_add(member, LIKES, post, self._new_id(batch.shard), aggregate_id=author)
        return batch

    @property
    def posts(self) -> int:
        """Number of posts created."""
        return len(self._posts)

    def mixed(self) -> Batch:
        return self._rng.choice((self.post, self.follow, self.like))()

    def _member(self) -> int:
        return self._rng.choice(self.members)

    def _batch(self, member: int) -> Batch:
        shard = shard_of(member)
        self.made[shard >> 7] += 1
        return Batch(shard)


class Rate(NamedTuple):
    """Commit rates over a period."""

    commits: float
    statements: float
    client: float
    """Cores used by this process."""
    servers: float
    took: list[float]


class Stores(NamedTuple):
    """Stores, their common graph, and the processes of their servers."""

    graph: ShardedGraph
    each: list[PostgresGraph]
    pids: list[int]


async def commits(of: Stores, make: Callable[[], Batch], callers: int, seconds: float) -> Rate:
    """Let each caller commit as soon as its last batch is durable."""
    took: list[float] = []
    trips, cpu = sum(store.round_trips for store in of.each), time.process_time()
    servers = sum(map(tree_cpu, of.pids))
    started = time.perf_counter()

    async def write() -> None:
        while (began := time.perf_counter()) - started < seconds:
            await of.graph.commit(make())
            took.append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(write())
    whole = time.perf_counter() - started
    asked = sum(store.round_trips for store in of.each) - trips
    busy = (sum(map(tree_cpu, of.pids)) - servers) / len(of.pids)
    return Rate(len(took) / whole, asked / len(took), (time.process_time() - cpu) / whole, busy / whole, took)


def _owner(stores: int, at: int) -> Owns:
    return lambda shard: shard * stores // SHARDS == at


async def saturate(
    of: Engines, stores: int, callers: int, seconds: float, report: Report
) -> dict[tuple[str, bool], float]:
    """Measure commits per second of posts alone and of a mixture, with servers at full speed and slowed."""
    rates: dict[tuple[str, bool], float] = {}
    name = "one store" if stores == 1 else f"{stores} stores"
    async with AsyncExitStack() as stack:
        opened: list[PostgresGraph] = []
        for at, program in enumerate(of.stores[:stores]):
            url = await _database(program.url, f"saturated_{stores}")
            # A long timeout, because slowed servers answer late.
            opened.append(await PostgresGraph.open(url, owns=_owner(stores, at), patience=60.0))
            stack.push_async_callback(opened[-1].close)
        graph = ShardedGraph(opened, [shard * stores // SHARDS for shard in range(SHARDS)])
        them = Stores(graph, opened, [program.pid or 0 for program in of.stores[:stores]])
        load = Load()
        # This opens every connection that the load will use.
        await commits(them, load.post, callers * stores, min(1.0, seconds))
        load.made = [0] * DATA_SOURCES
        for slow in (False, True):
            for kind, make in (("posts", load.post), ("posts, follows and likes", load.mixed)):
                with slowed(them.pids) if slow else contextlib.nullcontext():
                    rate = await commits(them, make, callers * stores, seconds)
                rates[kind, slow] = rate.commits
                told = f"{kind}, {name}{', 2 % of a core each' if slow else ''}"
                report.add(f"{told}: commits", rate.commits, "1/s")
                report.add(f"{told}: statements per commit", rate.statements)
                report.add(f"{told}: answer, median", spread(rate.took).median * 1_000, "ms")
                report.add(f"{told}: cores used by the client", rate.client)
                report.add(f"{told}: cores used by each server", rate.servers)
        held = [await _posts(store) for store in opened]
        report.check(f"{name}: posts that were acknowledged and are not there", load.posts - sum(held), 0)
        if stores > 1:
            most = max(sum(load.made[at * 32 : at * 32 + 32]) for at in range(stores))
            report.add(f"{name}: fraction of commits on the busier one", most / sum(load.made) * 100, "%")
    return rates


async def _posts(store: PostgresGraph) -> int:
    return int((await store._reading.ask("SELECT count(*) FROM shoal.object"))[0][0])


async def _database(url: str, name: str) -> str:
    connection = await asyncpg.connect(url)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return f"{url.rpartition('/')[0]}/{name}"


async def run(of: Engines, count: int, callers: int, seconds: float, report: Report) -> None:
    for stores in (1, 2):
        # The networks with one and with two stores run on the same servers, one after the other, and each has new databases.
        await requests(await _fresh(of, f"asked_{stores}"), stores, report, count)
    one = await saturate(of, 1, callers, seconds, report)
    two = await saturate(of, 2, callers, seconds, report)
    for (kind, slow), rate in two.items():
        told = f"{kind}{', 2 % of a core each' if slow else ''}: two stores compared with one"
        report.add(told, rate / one[kind, slow], "times")


async def _fresh(of: Engines, name: str) -> Engines:
    """Create an empty database on each server, and return the engines with their URLs."""
    urls = [await _database(program.url, name) for program in of.stores]
    for program, url in zip(of.stores, urls, strict=True):
        program.url = url
    return of


def main() -> None:
    options = parser(
        __doc__,
        quick={"members": 30, "seconds": 2.0},
        smallest={"members": 4, "callers": 4, "seconds": 0.2},
    )
    options.add_argument("--members", type=int, default=200, help="number of members who make one request of each kind")
    options.add_argument("--callers", type=int, default=1_024, help="number of concurrent commits for each store")
    options.add_argument("--seconds", type=float, default=10.0, help="seconds for which commits are measured")
    chosen = options.parse_args()
    report = Report("shared_stores", chosen.size)
    with engines(2) as of:
        uvloop.run(run(of, chosen.members, chosen.callers, chosen.seconds, report))
    report.show()


if __name__ == "__main__":
    main()

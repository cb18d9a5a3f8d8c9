"""The graphs that the suites run on, and helpers to fill and read them.

A `Backend` can be closed and opened again, and durable ones keep their data. Ann, Ben and Cyd live on data sources that the
sharded backends keep in different stores.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from shoal.core.errors import OutcomeUnknown, Unavailable
from shoal.core.events import InverseOp
from shoal.core.ids import EPOCH_MS, compose, shard_of
from shoal.core.placement import SHARDS_PER_SOURCE
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.contract import Assoc, AssocOp, AssocRow, Batch, Job, Store
from shoal.graph.dynamodb import DynamoGraph
from shoal.graph.memory import MemoryGraph
from shoal.graph.postgres import PostgresGraph
from shoal.graph.schema import ASSOC_TYPES, AnyNode, AssocType
from shoal.graph.shard_map import parse_shard_map
from shoal.graph.sharding.sharded_graph import ShardedGraph
from shoal.graph.sqlite import SqliteGraph
from tests.engines import dynamodb, postgres
from tests.engines.pgbouncer import pooled
from tests.version_tokens import LocalVersionTokens

T = TypeVar("T")

FIRST = -(2**63)
"""A lower bound of all ids."""


def id_on(source: int, n: int = 0, shard: int = 5) -> int:
    """Return the n-th id of a shard of a data source."""
    return compose(EPOCH_MS + 1 + n, source * SHARDS_PER_SOURCE + shard)


def moment(n: int) -> int:
    """Return the n-th timestamp, in the format of association times."""
    return compose(EPOCH_MS + 1_000_000 + n, 0)


ANN, BEN, CYD = id_on(0), id_on(40), id_on(63)
POST_OF_BEN = id_on(40, 1)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _Kind(NamedTuple):
    """The properties of a backend."""

    durable: bool
    shard_map: dict[str, str]
    cached: bool = False
    tables: Callable[[], str] | None = None
    """Creates a DynamoDB table and returns its URL, for backends on DynamoDB."""
    postgres: bool = False
    pooled: bool = False
    stamped: bool = False


_KINDS = {
    "memory": _Kind(durable=False, shard_map={"0-63": "0"}),
    "sqlite": _Kind(durable=True, shard_map={"0-63": "0"}),
    "sharded-memory": _Kind(durable=False, shard_map={"0-31": "0", "32-63": "1"}),
    "sharded-sqlite": _Kind(durable=True, shard_map={"0-9": "0", "10-49": "1", "50-63": "2"}),
    "cached-memory": _Kind(durable=False, shard_map={"0-63": "0"}, cached=True),
    "dynamodb": _Kind(durable=True, shard_map={"0-63": "0"}, tables=dynamodb.new_table),
    "postgres": _Kind(durable=True, shard_map={"0-63": "0"}, postgres=True),
    "sharded-postgres": _Kind(durable=True, shard_map={"0-31": "0", "32-63": "1"}, postgres=True),
    "pooled-postgres": _Kind(durable=True, shard_map={"0-63": "0"}, postgres=True, pooled=True),
    "stamped-memory": _Kind(durable=False, shard_map={"0-31": "0", "32-63": "1"}, cached=True, stamped=True),
    "cached-sharded-sqlite": _Kind(durable=True, shard_map={"0-31": "0", "32-63": "1"}, cached=True),
}

BACKENDS = list(_KINDS)
DURABLE = [name for name, kind in _KINDS.items() if kind.durable]


def started(name: str) -> None:
    """Start the engine of a backend. If it is missing, the test is skipped before it has opened anything."""
    if _KINDS[name].postgres:
        postgres.server()
    if _KINDS[name].tables:
        dynamodb.server()


class Forgetful:
    """A store that refuses the next `refusals` commits, and loses the responses to the `losses` after them.

    A commit with a lost response is stored and raises `OutcomeUnknown`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.refusals = 0
        self.losses = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, batch: Batch) -> None:
        """Commit, and lose the response if losses remain."""
        self._refuse()
        await self._store.commit(batch)
        self._lose()

    async def commit_owing(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        """Commit, and lose the pending inverses with the response if losses remain."""
        self._refuse()
        owed = await self._store.commit_owing(batch)
        self._lose()
        return owed

    def _refuse(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("the store is away")

    def _lose(self) -> None:
        if self.losses:
            self.losses -= 1
            raise OutcomeUnknown("the answer is lost")


class Backend:
    """One graph of a suite. `open` may be called again once the previous graph is closed."""

    def __init__(self, name: str, folder: Path) -> None:
        started(name)
        self._durable, shard_map, self._cached, tables, self._postgres, self._pooled, self._version_key = _KINDS[name]
        self._folder = folder
        self._clock = Clock()
        self.owners = list(map(int, parse_shard_map(shard_map)))
        self._tables = [tables() for _ in set(self.owners)] if tables else []
        self._databases: dict[int, str] = {}
        self.forgetful: list[Forgetful] = []
        """The stores of the open graph, in order, if it was opened with `forgetful`."""

    @asynccontextmanager
    async def open(self, *, forgetful: bool = False, logs: bool | None = None) -> AsyncIterator[Store]:
        stores = [await self.open_store(index, logs=logs) for index in range(max(self.owners) + 1)]
        if forgetful:
            self.forgetful = [Forgetful(store) for store in stores]
            stores = [cast("Store", store) for store in self.forgetful]
        graph: Store = stores[0] if len(stores) == 1 else ShardedGraph(stores, self.owners)
        if self._cached:
            # Small enough to evict all the time.
            graph = CachedGraph(graph, 8, versions=LocalVersionTokens() if self._version_key else None)
        try:
            yield graph
        finally:
            await graph.close()

    async def open_store(self, index: int, *, logs: bool | None = None) -> Store:
        """Open one of the stores of the graph."""

        def owns(shard: int) -> bool:
            return self.owners[shard] == index

        if not self._durable:
            return MemoryGraph(owns, self._clock, logs=bool(logs))
        if self._tables:
            waits = {"patience": dynamodb.PATIENT_SECONDS, "delay": 0.0} | ({"adoption": 0.0} if logs else {})
            return await DynamoGraph.open(self._tables[index], owns=owns, logs=logs, **waits)
        if self._postgres:
            if index not in self._databases:
                url = await postgres.database(self)
                self._databases[index] = pooled(url) if self._pooled else url
            url = self._databases[index]
            return await PostgresGraph.open(url, owns=owns, patience=postgres.PATIENT_SECONDS, logs=logs)
        return await SqliteGraph.open(self._folder / f"{index}.db", owns=owns, logs=logs)

    async def pass_time(self, seconds: float) -> None:
        """Advance the clock of the leases."""
        self._clock.now += seconds
        if self._durable:
            await asyncio.sleep(seconds)


async def begin(
    graph: Store, id1: int, atype: AssocType, id2: int, time: int, data: bytes = b"", *, aggregate_id: int = 0
) -> None:
    """Commit the addition of one association, on the shard of `id1`."""
    batch = Batch(shard_of(id1))
    batch.assoc_add(id1, atype, id2, time, data, aggregate_id=aggregate_id)
    await graph.commit(batch)


async def end(
    graph: Store, id1: int, atype: AssocType, id2: int, time: int, data: bytes = b"", *, aggregate_id: int = 0
) -> None:
    """Commit the deletion of one association, on the shard of `id1`."""
    batch = Batch(shard_of(id1))
    batch.assoc_del(id1, atype, id2, time, data, aggregate_id=aggregate_id)
    await graph.commit(batch)


async def put(graph: Store, op: AssocOp) -> None:
    """Commit one operation unchanged."""
    batch = Batch(shard_of(op.id1))
    batch.put(op)
    await graph.commit(batch)


async def add(graph: Store, *nodes: AnyNode) -> None:
    """Commit new objects of one shard."""
    batch = Batch(shard_of(nodes[0].id))
    for node in nodes:
        batch.obj_add(node)
    await graph.commit(batch)


async def all_objects(graph: Store, page: int = 1000) -> list[AnyNode]:
    """Return all objects, read in pages."""
    return await _pages(lambda after: graph.obj_scan(after[0], page), lambda node: (node.id,), (FIRST,))


async def all_links(graph: Store, page: int = 1000) -> list[AssocRow]:
    """Return all associations, read in pages."""
    start = (FIRST, FIRST, FIRST)
    return await _pages(
        lambda after: graph.assoc_scan((after[0], after[1], after[2]), page), lambda row: row[:3], start
    )


async def all_counts(graph: Store, page: int = 1000) -> list[tuple[int, int, int]]:
    """Return all nonzero counts, read in pages."""
    rows = await _pages(lambda after: graph.count_scan((after[0], after[1]), page), lambda row: row[:2], (FIRST, FIRST))
    return [row for row in rows if row[2]]


async def _pages(
    read: Callable[[tuple[int, ...]], Awaitable[list[T]]], order: Callable[[T], tuple[int, ...]], after: tuple[int, ...]
) -> list[T]:
    rows: list[T] = []
    while page := await read(after):
        rows += page
        after = order(page[-1])
    return rows


async def contents(graph: Store) -> tuple[object, ...]:
    """Return everything that a graph holds, for comparison."""
    return await all_objects(graph), await all_links(graph), await all_counts(graph), await graph.backlog()


async def broken_promises(graph: Store) -> list[str]:
    """Return the wrong counts and blocks, and the live associations without an inverse.

    Aggregate counts at a third object are left to tests that know its id.
    """
    alive = {row[:3]: row for row in await all_links(graph) if row.alive}
    complaints = [
        f"{row} has no inverse"
        for row in alive.values()
        if (inverse := ASSOC_TYPES[row.atype].inverse)
        and ((other := alive.get((row.id2, inverse, row.id1))) is None or other.time != row.time)
    ]
    live: dict[tuple[int, int], int] = {}
    for id1, atype, _ in alive:
        if ASSOC_TYPES[atype].counted:
            live[id1, atype] = live.get((id1, atype), 0) + 1
    stored = {(id1, atype): n for id1, atype, n in await all_counts(graph)}
    complaints += [
        f"{pair} has {n} associations and a count of {stored.get(pair)}"
        for pair, n in live.items()
        if stored.get(pair) != n
    ]
    untallied = [pair for pair in stored if not ASSOC_TYPES[pair[1]].aggregated]
    complaints += [
        f"{pair} has no associations and a count of {stored[pair]}" for pair in untallied if pair not in live
    ]
    placed = [(row.id1, row.atype, row.time) for row in alive.values()]
    return complaints + await _miscounted_blocks(graph, placed)


async def _miscounted_blocks(graph: Store, alive: Collection[tuple[int, int, int]]) -> list[str]:
    """Return the blocks with a wrong count; a block counts the live associations after the end of the previous one."""
    complaints = []
    times: dict[tuple[int, int], list[int]] = {}
    for id1, atype, time in alive:
        times.setdefault((id1, atype), []).append(time)
    before = None
    for block in await _pages(
        lambda after: graph.block_scan((after[0], after[1], after[2], after[3]), 1000),
        lambda row: row[:4],
        (FIRST, 0, 0, 0),
    ):
        since = before.upto if before is not None and before[:3] == block[:3] else 0
        has = sum(since < time <= block.upto for time in times.get(block[:2], ()))
        complaints += [f"{block} covers {has} associations"] if has != block.n else []
        before = block
    return complaints


def ids_of(page: Sequence[Assoc]) -> list[int]:
    """Return the target ids of a page of associations, in order."""
    return [assoc.id2 for assoc in page]

"""The cost of a read: calls of the graph contract, and SQLite statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

from shoal.app.network import Network
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.contract import RememberingReader
from shoal.graph.sqlite import SqliteGraph
from shoal.queries.context import ExpiringCache, Reads
from tests.flows.simulation.faults import Between

Read = Callable[[Reads], Awaitable[object]]


async def calls(network: Network, read: Read) -> Counter[str]:
    """Return the number of calls of each contract method."""
    counted: Counter[str] = Counter()

    async def count(name: str) -> None:
        counted[name] += 1

    async def nothing(_name: str) -> None: ...

    graph = cast("RememberingReader", Between(network.store, count, nothing))
    await read(replace(network.reads, graph=graph, related=ExpiringCache()))
    return counted


async def statements(network: Network, read: Read) -> int:
    """Return the number of SQLite statements of a read that finds only the timelines in memory.

    The read uses separate connections: on the connections of the network, workers poll for jobs twice a second.
    """
    running = cast("CachedGraph", network.store)._store
    assert isinstance(running, SqliteGraph)
    store = await SqliteGraph.open(running._path, read_only=True)
    try:
        with traced(store) as ran:
            await read(replace(network.reads, graph=CachedGraph(store)))
    finally:
        await store.close()
    return len(ran)


@contextmanager
def traced(store: SqliteGraph) -> Iterator[list[str]]:
    """Collect the statements that the read connections of a store run during the block."""
    ran: list[str] = []
    connections = (store._reading, store._scanning)
    for connection in connections:
        connection.set_trace_callback(ran.append)
    try:
        yield ran
    finally:
        for connection in connections:
            connection.set_trace_callback(None)

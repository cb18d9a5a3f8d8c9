"""Cached entries and version tokens are valid for one history of the stores."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter

from shoal.app.stores import open_store
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.cache.coherence import MarkedChange, Renewal, one_request
from shoal.graph.failover import Histories, HistoryTokens, took_over_since
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import LIKES
from shoal.settings import build
from tests.async_runner import in_loop
from tests.ops.shard_move_network import Databases
from tests.stores import ANN, POST_OF_BEN, begin, end, moment
from tests.version_tokens import LocalVersionTokens


class _NeverNew:
    """Version tokens that never change."""

    async def read(self, ids: Sequence[int]) -> dict[int, bytes]:
        return dict.fromkeys(ids, b"stamp")

    async def begin(self, ids: Sequence[int], *, reading: bool = False) -> MarkedChange:
        return await LocalVersionTokens().begin(ids, reading=reading)

    async def end(self, ids: Sequence[int], begun: MarkedChange | None, *, changed: bool = True) -> dict[int, Renewal]:
        return {}


def _everything(_shard: int) -> bool:
    return True


async def _likes(graph: CachedGraph) -> int:
    return (await graph.assoc_count((ANN,), (LIKES,)))[LIKES].get(ANN, 0)


def test_failover_history_of_replaced_server_is_ignored_and_each_failover_changes_the_mark() -> None:
    histories, before = Histories(), perf_counter()
    told: list[int] = []
    histories.on_change(lambda: told.append(1))
    assert histories.note("a", 1, "a")
    assert histories.note("b", 1, "b")
    assert (histories.mark, told, took_over_since(before)) == (b"\0\0", [], False)
    assert histories.note("a", 2, "a")
    assert not histories.note("a", 1, "a")
    assert histories.note("a", 2, "a")
    assert histories.newest("a") == 2
    assert (histories.mark, told, took_over_since(before)) == (b"\1\0", [1], True)
    # A process that starts later and sees the stores in another order.
    other = Histories()
    assert other.note("b", 1, "b")
    assert other.note("a", 2, "a")
    assert other.mark == histories.mark


@in_loop
async def test_failover_history_of_postgres_store_is_recorded_on_open_when_other_store_is_sqlite(
    tmp_path: Path,
) -> None:
    databases = Databases()
    url = await databases.one()
    settings = build(store={"0-31": f"sqlite:///{tmp_path}/shoal.db", "32-63": url})
    for read_only in (False, True):
        histories = Histories()
        async with AsyncExitStack() as stack:
            await open_store(settings, stack, histories, read_only=read_only, sole=False)
            assert histories.newest(url) == 1


@in_loop
async def test_cached_counts_are_read_again_after_failover_of_store() -> None:
    store, histories = MemoryGraph(_everything), Histories()
    histories.note("a", 1, "a")
    graph = CachedGraph(store, versions=HistoryTokens(_NeverNew(), histories))
    await begin(graph, ANN, LIKES, POST_OF_BEN, moment(1))
    assert await _likes(graph) == 1
    await end(store, ANN, LIKES, POST_OF_BEN, moment(2))
    assert await _likes(graph) == 1, "no version token reported the change"
    histories.note("a", 2, "a")
    with one_request():
        assert await _likes(graph) == 0


@in_loop
async def test_graph_cache_discard_of_all_entries_includes_reads_in_progress() -> None:
    store = MemoryGraph(_everything)
    graph = CachedGraph(store)
    await begin(graph, ANN, LIKES, POST_OF_BEN, moment(1))
    assert await _likes(graph) == 1
    await end(store, ANN, LIKES, POST_OF_BEN, moment(2))
    graph.forget_all()
    ticket = await graph._guard.enter((ANN,))
    assert await _likes(graph) == 0
    graph.forget_all()
    assert not graph._guard.keeps(ticket, ANN)

"""Prefetching from a store that joins reads: prefetched data is not read again, and is never older than the request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from shoal.core.ids import shard_of
from shoal.core.model import Member, Post
from shoal.graph.access import prefetch
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.cache.coherence import UnsharedTokens, one_request
from shoal.graph.contract import Assoc, Batch, Cursor
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import COMMENTED_BY, FOLLOWED_BY, FOLLOWS, LIKED_BY, POSTED, AnyNode, AssocType
from tests.async_runner import in_loop
from tests.stores import ANN, BEN, CYD, POST_OF_BEN, add, begin, ids_of, moment

T = TypeVar("T")


class Joined(MemoryGraph):
    """A store that joins reads, counts them, and answers them while `may_answer` is set."""

    joins = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.begun = asyncio.Semaphore(0)
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def counted_with(self, atypes: Sequence[AssocType]) -> Sequence[AssocType]:
        return (*atypes, COMMENTED_BY) if LIKED_BY in atypes else atypes

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        return await self._answered("objects", await super().obj_get(ids))

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        return await self._answered("counts", await super().assoc_count(id1s, atypes))

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        return await self._answered("lists", await super().assoc_range(id1, atype, at))

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        return await self._answered("links", await super().assoc_get(id1, atypes, id2s))

    async def _answered(self, kind: str, answer: T) -> T:
        self.asked[kind] += 1
        self.begun.release()
        await self.may_answer.wait()
        return answer


async def a_world(store: MemoryGraph) -> None:
    await add(store, Member(id=BEN, name="ben"), Post(id=POST_OF_BEN, author_id=BEN, text="hello"))
    await begin(store, BEN, POSTED, POST_OF_BEN, POST_OF_BEN)
    await begin(store, ANN, FOLLOWS, BEN, moment(1))


AHEAD = ((BEN, POSTED, Cursor(limit=24)),)


@in_loop
async def test_cached_graph_prefetched_objects_counts_and_lists_are_not_read_again() -> None:
    store = Joined()
    await a_world(store)
    graph = CachedGraph(store)
    await prefetch(graph, (BEN,), (((BEN,), (FOLLOWED_BY, POSTED)),), AHEAD)
    assert store.asked == {"objects": 1, "counts": 1, "lists": 1}
    assert set(await graph.obj_get((BEN,))) == {BEN}
    assert await graph.assoc_count((BEN,), (FOLLOWED_BY,)) == {FOLLOWED_BY: {BEN: 1}}
    assert ids_of(await graph.assoc_range(BEN, POSTED, Cursor(limit=24))) == [POST_OF_BEN]
    await prefetch(graph, (BEN,), (((BEN,), (FOLLOWED_BY, POSTED)),), AHEAD)
    assert store.asked.total() == 3


@in_loop
async def test_cached_graph_counts_stored_in_one_item_are_cached_together() -> None:
    store = Joined()
    await a_world(store)
    graph = CachedGraph(store)
    assert await graph.assoc_count((POST_OF_BEN,), (LIKED_BY,)) == {LIKED_BY: {}}
    assert await graph.assoc_count((POST_OF_BEN,), (COMMENTED_BY,)) == {COMMENTED_BY: {}}
    assert store.asked["counts"] == 1


@in_loop
async def test_cached_graph_prefetch_overtaken_by_a_commit_is_read_again() -> None:
    store = Joined()
    await a_world(store)
    graph = CachedGraph(store)
    store.may_answer.clear()
    ahead = asyncio.ensure_future(prefetch(graph, (BEN,), (((BEN,), (FOLLOWED_BY,)),), AHEAD))
    for _ in range(3):
        await store.begun.acquire()
    await begin(graph, CYD, FOLLOWS, BEN, moment(2))
    store.may_answer.set()
    await ahead
    assert await graph.assoc_count((BEN,), (FOLLOWED_BY,)) == {FOLLOWED_BY: {BEN: 2}}


@in_loop
async def test_cached_graph_prefetches_nothing_from_a_store_that_does_not_join_reads() -> None:
    store = Joined()
    store.joins = False
    await a_world(store)
    await prefetch(CachedGraph(store), (BEN,), (((BEN,), (FOLLOWED_BY,)),), AHEAD)
    assert not store.asked


@in_loop
async def test_cached_graph_short_list_read_whole_answers_association_lookups() -> None:
    store = Joined()
    await a_world(store)
    graph = CachedGraph(store)
    assert ids_of(await graph.assoc_range(ANN, FOLLOWS, Cursor(limit=20_000))) == [BEN]
    asked = store.asked.copy()
    assert set((await graph.assoc_get(ANN, (FOLLOWS,), (BEN, CYD, ANN)))[FOLLOWS]) == {BEN}
    assert store.asked == asked
    await begin(graph, ANN, FOLLOWS, CYD, moment(3))
    assert set((await graph.assoc_get(ANN, (FOLLOWS,), (BEN, CYD, ANN)))[FOLLOWS]) == {BEN, CYD}


@in_loop
async def test_cached_graph_association_looked_up_is_not_read_again_until_it_changes() -> None:
    store = Joined()
    await a_world(store)
    await begin(store, ANN, FOLLOWS, CYD, moment(1))
    graph = CachedGraph(store)
    assert set((await graph.assoc_get(ANN, (FOLLOWS,), (BEN,)))[FOLLOWS]) == {BEN}
    asked = store.asked.copy()
    assert set((await graph.assoc_get(ANN, (FOLLOWS,), (BEN,)))[FOLLOWS]) == {BEN}
    assert store.asked == asked
    batch = Batch(shard_of(ANN))
    batch.assoc_del(ANN, FOLLOWS, BEN, moment(2))
    await graph.commit(batch)
    assert not (await graph.assoc_get(ANN, (FOLLOWS,), (BEN,)))[FOLLOWS]


@in_loop
async def test_cached_graph_without_shared_tokens_looks_up_few_associations_but_reads_list_for_many() -> None:
    store = Joined()
    await a_world(store)
    graph = CachedGraph(store, versions=UnsharedTokens())
    for others, kind in (((BEN, CYD, POST_OF_BEN), "links"), (range(1, 52), "lists")):
        store.asked.clear()
        with one_request():
            for _ in range(2):
                await graph.assoc_get(ANN, (FOLLOWS,), others)
        assert store.asked == {"counts": 1, kind: 1}

"""Queries in parallel with version tokens: answers are fresh, and are cached or combined only if no change intervened."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import Context

from shoal.core.events import InverseOp
from shoal.core.model import Post
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.cache.coherence import MarkedChange, Renewal, one_request
from shoal.graph.contract import Assoc, Batch, Job
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import BLOCKED_BY, BLOCKS, EVERYBODY, FOLLOWS, HIGH_FAN_OUT, MUTES, AssocType
from tests.async_runner import in_loop
from tests.stores import ANN, BEN, CYD, POST_OF_BEN, add, begin, end, moment
from tests.version_tokens import LocalVersionTokens

GUARDS = (FOLLOWS, BLOCKS, BLOCKED_BY, MUTES)


class SlowReads(LocalVersionTokens):
    """Version tokens that can hold their answers. With `early` they read before the hold; `end` takes `late` seconds."""

    early = False
    late = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.reached = asyncio.Event()

    async def read(self, ids: Sequence[int]) -> dict[int, bytes]:
        found = await super().read(ids) if self.early else None
        self.reached.set()
        await self.may_answer.wait()
        return await super().read(ids) if found is None else found

    async def end(self, ids: Sequence[int], begun: MarkedChange | None, *, changed: bool = True) -> dict[int, Renewal]:
        await asyncio.sleep(self.late)
        return await super().end(ids, begun, changed=changed)

    def halt(self) -> None:
        """Hold all answers until `may_answer` is set."""
        self.may_answer.clear()
        self.reached.clear()


class Links(MemoryGraph):
    """A store that counts queries for links and counts, answers count queries after `slow` seconds, and commits only while
    `may_store` is set."""

    asked = 0
    slow = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.may_store = asyncio.Event()
        self.may_store.set()

    async def commit_owing(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        await self.may_store.wait()
        return await super().commit_owing(batch)

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        self.asked += 1
        return await super().assoc_get(id1, atypes, id2s)

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        self.asked += 1
        await asyncio.sleep(self.slow)
        return await super().assoc_count(id1s, atypes)


def two_processes() -> tuple[Links, SlowReads, CachedGraph, CachedGraph]:
    store, versions = Links(), SlowReads()
    return store, versions, CachedGraph(store, versions=versions), CachedGraph(store, versions=versions)


async def blocked(graph: CachedGraph) -> bool:
    with one_request():
        return BEN in (await graph.assoc_get(ANN, GUARDS, (BEN, CYD)))[BLOCKED_BY]


@in_loop
async def test_cached_graph_reads_associations_in_parallel_with_version_token_and_caches_counts() -> None:
    store, versions, one, _ = two_processes()
    await one.obj_get((ANN,))
    versions.halt()
    asking = asyncio.create_task(blocked(one))
    await versions.reached.wait()
    await asyncio.sleep(0)
    assert store.asked == 2
    versions.may_answer.set()
    assert not await asking
    assert not await blocked(one)
    assert store.asked == 2, "the empty lists are cached"


@in_loop
async def test_cached_graph_does_not_cache_associations_read_before_a_change_under_newer_token() -> None:
    for ours in (False, True):
        store, versions, one, two = two_processes()
        await one.obj_get((ANN,))
        versions.early = ours
        versions.halt()
        asking = asyncio.create_task(blocked(one))
        await versions.reached.wait()
        await asyncio.sleep(0)
        assert store.asked == 2
        # An own change can finish before its end is published, and before the older version token arrives.
        versions.late = 0.02 * ours
        changing = begin(one if ours else two, BEN, BLOCKS, ANN, moment(1))
        await asyncio.create_task(changing, context=Context())
        versions.may_answer.set()
        assert not await asking, "the answer is not older than the request"
        assert await blocked(one)
        await one.close()
        assert await blocked(one)


@in_loop
async def test_cached_graph_with_version_token_already_read_caches_associations_during_own_change() -> None:
    store, versions, one, _ = two_processes()
    versions.late, store.slow = 0.01, 0.02
    with one_request():
        await one.obj_get((ANN,))
        await begin(one, ANN, FOLLOWS, CYD, moment(1))
        await one.assoc_get(ANN, GUARDS, (BEN, CYD))
    asked = store.asked
    await one.close()
    with one_request():
        assert (await one.assoc_count((ANN,), GUARDS))[FOLLOWS] == {ANN: 1}
    assert store.asked == asked


@in_loop
async def test_cached_graph_without_known_version_token_reads_the_token_before_associations() -> None:
    store, versions, one, _ = two_processes()
    versions.halt()
    asking = asyncio.create_task(blocked(one))
    await versions.reached.wait()
    await asyncio.sleep(0)
    assert store.asked == 0, "links were read before the version token was known"
    versions.may_answer.set()
    assert not await asking
    assert not await blocked(one)
    assert store.asked == 2


@in_loop
async def test_cached_graph_author_lookup_returns_zero_for_uncached_post_or_member() -> None:
    _, _, one, two = two_processes()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    assert (one.cached_author(POST_OF_BEN), two.cached_author(POST_OF_BEN)) == (BEN, 0)
    assert one.cached_author(BEN) == 0


async def loud(graph: CachedGraph) -> set[int]:
    return set((await graph.assoc_common(ANN, (FOLLOWS,), EVERYBODY, HIGH_FAN_OUT))[FOLLOWS])


async def with_a_loud_ben() -> tuple[Links, SlowReads, CachedGraph, CachedGraph]:
    """One process has cached that Ann follows Ben, who is marked as high fan-out."""
    store, versions, one, two = two_processes()
    await begin(two, EVERYBODY, HIGH_FAN_OUT, BEN, moment(1))
    await begin(two, ANN, FOLLOWS, BEN, moment(1))
    await two.close()
    assert await loud(one) == {BEN}
    return store, versions, one, two


async def beside(graph: CachedGraph, asked: list[str]) -> tuple[str] | None:
    async def ask() -> str:
        asked.append("asked")
        return "answer"

    return await graph.query_with_tokens(EVERYBODY, HIGH_FAN_OUT, (ANN, EVERYBODY), ask)


@in_loop
async def test_cached_graph_query_is_run_together_with_version_token_read_of_a_cached_list() -> None:
    _, versions, one, two = await with_a_loud_ben()
    asked: list[str] = []
    versions.halt()
    with one_request():
        asking = asyncio.create_task(beside(one, asked))
        await versions.reached.wait()
        assert asked == ["asked"]
        versions.may_answer.set()
        assert await asking == ("answer",)
        versions.asked.clear()
        assert await loud(one) == {BEN}
        assert versions.asked == []
        # All version tokens are known, so the query would run alone.
        assert await beside(one, asked) is None
    with one_request():
        # A list that is not cached is read first.
        assert await beside(two, asked) is None
    assert asked == ["asked"]


@in_loop
async def test_cached_graph_query_run_with_token_read_is_discarded_when_list_changed_after_the_query() -> None:
    for ours in (False, True):
        _, versions, one, two = await with_a_loud_ben()
        asked: list[str] = []
        versions.early, versions.late = ours, 0.02 * ours
        versions.halt()
        with one_request():
            asking = asyncio.create_task(beside(one, asked))
            await versions.reached.wait()
            changing = end(one if ours else two, EVERYBODY, HIGH_FAN_OUT, BEN, moment(2))
            await asyncio.create_task(changing, context=Context())
            versions.may_answer.set()
            assert await asking is None
            assert await loud(one) == set()
        assert asked == ["asked"]


@in_loop
async def test_cached_graph_query_run_with_token_read_is_discarded_during_own_change_of_list() -> None:
    store, versions, one, _ = await with_a_loud_ben()
    versions.early = True
    versions.halt()
    store.may_store.clear()
    with one_request():
        asking = asyncio.create_task(beside(one, []))
        await versions.reached.wait()
        changing = asyncio.create_task(end(one, EVERYBODY, HIGH_FAN_OUT, BEN, moment(2)), context=Context())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        versions.may_answer.set()
        assert await asking is None, "the list is read next and can be newer"
        store.may_store.set()
        await changing
        assert await loud(one) == set()


@in_loop
async def test_cached_graph_query_run_with_token_read_is_kept_when_only_the_viewer_changed() -> None:
    _, _, one, two = await with_a_loud_ben()
    await begin(two, ANN, FOLLOWS, CYD, moment(3))
    with one_request():
        assert await beside(one, []) == ("answer",)
        assert await loud(one) == {BEN}


@in_loop
async def test_cached_graph_query_with_token_read_is_not_run_in_single_process_network() -> None:
    graph = CachedGraph(MemoryGraph())
    assert not await blocked(graph)
    with one_request():
        assert await beside(graph, []) is None

"""A request that announces its changes marks them with its first read; announced but unchanged data stay cached."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import Context

import pytest

from shoal.core.errors import Unavailable
from shoal.core.events import InverseOp
from shoal.core.ids import shard_of
from shoal.core.model import Post
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.cache.coherence import MarkedChange, Renewal, foreseen_change, one_request
from shoal.graph.contract import Batch, Job
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import LIKED_BY, LIKES, AnyNode
from tests.async_runner import in_loop
from tests.stores import ANN, BEN, CYD, POST_OF_BEN, add, begin, moment
from tests.version_tokens import LocalVersionTokens

CHANGED = [ANN, BEN, POST_OF_BEN]


class Marks(LocalVersionTokens):
    """Version tokens that record marks. `end` and `read` can be delayed; with `deaf` marks are refused."""

    seconds = 0.0
    late = 0.0
    deaf = False

    def __init__(self) -> None:
        super().__init__()
        self.marked: list[set[int]] = []

    async def read(self, ids: Sequence[int]) -> dict[int, bytes]:
        await asyncio.sleep(self.late)
        return await super().read(ids)

    async def begin(self, ids: Sequence[int], *, reading: bool = False) -> MarkedChange:
        await asyncio.sleep(0)
        if self.deaf:
            raise Unavailable("no mark")
        self.marked.append(set(ids))
        return await super().begin(ids, reading=reading)

    async def end(self, ids: Sequence[int], begun: MarkedChange | None, *, changed: bool = True) -> dict[int, Renewal]:
        await asyncio.sleep(self.seconds)
        return await super().end(ids, begun, changed=changed)


class Store(MemoryGraph):
    """A store that counts object reads, and asserts that committed objects are marked."""

    asked = 0
    versions: Marks | None = None

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        self.asked += 1
        return await super().obj_get(ids)

    async def commit_owing(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        if batch.after is not None:
            await batch.after
        if self.versions is not None and not self.versions.deaf:
            changed = {id_ for op in batch.assocs for id_ in (op.id1, op.id2, op.aggregate_id)}
            assert await self.versions.read([*changed]) == {}, "stored without a mark"
        return await super().commit_owing(batch)


async def two_processes() -> tuple[Store, Marks, CachedGraph, CachedGraph]:
    """Return two processes that have cached Ben's post, its author and its like count of 0."""
    store, versions = Store(), Marks()
    one, two = (CachedGraph(store, versions=versions) for _ in range(2))
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    await one.close()
    for graph in (one, two):
        assert (await text_of(graph), await likes(graph)) == ("first", 0)
        await graph.assoc_count((ANN, BEN), (LIKES, LIKED_BY))
    store.versions, store.asked = versions, 0
    versions.marked.clear()
    versions.asked.clear()
    return store, versions, one, two


async def text_of(graph: CachedGraph) -> str | None:
    post = (await graph.obj_get((POST_OF_BEN,))).get(POST_OF_BEN)
    return post.text if isinstance(post, Post) else None


async def likes(graph: CachedGraph) -> int:
    return (await graph.assoc_count((POST_OF_BEN,), (LIKED_BY,)))[LIKED_BY].get(POST_OF_BEN, 0)


async def like(graph: CachedGraph, member: int = ANN, time: int = 1, *, author: int = BEN) -> None:
    batch = Batch(shard_of(member))
    batch.assoc_add(member, LIKES, POST_OF_BEN, moment(time), aggregate_id=author)
    await graph.commit(batch)


async def rewrite(graph: CachedGraph | MemoryGraph, text: str, version: int) -> None:
    batch = Batch(shard_of(POST_OF_BEN))
    batch.obj_set(Post(id=POST_OF_BEN, author_id=BEN, text=text, version=version))
    await graph.commit(batch)


@in_loop
async def test_cached_graph_change_announced_before_read_of_cached_object_is_marked_once_by_the_first_read() -> None:
    store, versions, one, two = await two_processes()
    with one_request(), foreseen_change(ANN, of=POST_OF_BEN):
        assert await text_of(one) == "first"
        assert store.asked == 0, "the mark returns the version token of the cached post"
        assert await versions.read(CHANGED) == {}
        await like(one)
        assert (await text_of(one), await likes(one)) == ("first", 1)
    assert versions.marked == [set(CHANGED)], "marked once"
    assert [await likes(graph) for graph in (one, two)] == [1, 1]
    assert store.asked == 0
    await one.close()
    assert (await versions.read(CHANGED)).keys() == set(CHANGED)


@in_loop
async def test_cached_graph_change_announced_before_read_does_not_confirm_data_changed_by_other_process() -> None:
    store, _, one, two = await two_processes()
    store.versions = None
    await rewrite(two, "second", 2)
    await like(two, CYD)
    with one_request(), foreseen_change(ANN, of=POST_OF_BEN):
        assert (await text_of(one), await likes(one)) == ("second", 1)
        await like(one, time=2)
    for graph in (one, two):
        assert (await text_of(graph), await likes(graph)) == ("second", 2)


@in_loop
async def test_cached_graph_change_announced_during_change_of_other_process_reads_from_the_store() -> None:
    store, versions, one, two = await two_processes()
    store.versions = None
    theirs = await versions.begin([POST_OF_BEN])
    with one_request(), foreseen_change(ANN, of=POST_OF_BEN):
        assert await text_of(one) == "first"
        await rewrite(store, "second", 2)
        await versions.end([POST_OF_BEN], theirs)
        await like(one)
    for graph in (one, two):
        assert (await text_of(graph), await likes(graph)) == ("second", 1)


@in_loop
async def test_cached_graph_change_announced_but_not_committed_keeps_caches_and_version_tokens() -> None:
    store, versions, one, two = await two_processes()
    before = await versions.read(CHANGED)
    with one_request(), foreseen_change(ANN, of=POST_OF_BEN):
        assert await text_of(one) == "first"
    assert [await text_of(graph) for graph in (one, two)] == ["first"] * 2
    assert await versions.read(CHANGED) == before
    assert store.asked == 0


@in_loop
async def test_cached_graph_change_announced_but_not_committed_does_not_hide_change_of_other_process() -> None:
    store, versions, one, two = await two_processes()
    store.versions = None
    before = await versions.read(CHANGED)
    with one_request(), foreseen_change(ANN, of=POST_OF_BEN):
        assert await text_of(one) == "first"
        await asyncio.create_task(rewrite(two, "second", 2), context=Context())
        await two.close()
    await one.close()
    assert (await versions.read(CHANGED))[POST_OF_BEN] != before[POST_OF_BEN]
    assert [await text_of(graph) for graph in (one, two)] == ["second"] * 2


@in_loop
async def test_cached_graph_change_announced_by_failed_or_cancelled_request_releases_its_change_marks() -> None:
    _, versions, one, _ = await two_processes()
    before = await versions.read(CHANGED)

    async def fail() -> None:
        with one_request(), foreseen_change(ANN, of=POST_OF_BEN):
            await text_of(one)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await fail()
    # A request can also be cancelled while it marks.
    gone = asyncio.create_task(fail())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    assert len(versions.marked) == 2
    await one.close()
    assert await versions.read(CHANGED) == before


@in_loop
async def test_cached_graph_change_announced_for_one_member_and_committed_for_another_is_marked_twice() -> None:
    _, versions, one, two = await two_processes()
    with one_request(), foreseen_change(ANN, of=POST_OF_BEN):
        assert await text_of(one) == "first"
        await like(one, CYD)
    assert versions.marked == [set(CHANGED), {CYD, BEN, POST_OF_BEN}]
    assert [await likes(graph) for graph in (one, two)] == [1, 1]
    await one.close()
    assert len(await versions.read([*CHANGED, CYD])) == 4


@in_loop
async def test_cached_graph_change_announced_before_read_of_uncached_object_is_marked_by_the_commit_only() -> None:
    store, versions, _, _ = await two_processes()
    three = CachedGraph(store, versions=versions)
    with one_request(), foreseen_change(ANN, of=POST_OF_BEN):
        assert await text_of(three) == "first"
        assert versions.marked == []
        await like(three)
    assert versions.marked == [set(CHANGED)]
    assert await likes(three) == 1


@in_loop
async def test_cached_graph_change_announced_with_refused_change_mark_is_visible_in_all_processes() -> None:
    store, versions, one, two = await two_processes()
    versions.deaf, versions.seconds = True, 0.02
    with one_request(), foreseen_change(ANN, of=POST_OF_BEN):
        assert await text_of(one) == "first"
        assert store.asked == 1, "the cached post is unconfirmed"
        await like(one)
    assert [await likes(graph) for graph in (two, one)] == [1, 1]
    assert await text_of(one) == "first"
    with one_request(), foreseen_change(CYD, of=POST_OF_BEN):
        await text_of(one)
        assert versions.marked == []
        versions.deaf = False
        await like(one, CYD, 2)
    assert versions.marked == [{CYD, BEN, POST_OF_BEN}], "marked before the commit"
    assert [await likes(graph) for graph in (two, one)] == [2, 2]


@in_loop
async def test_cached_graph_change_announced_during_previous_change_waits_and_keeps_the_cache() -> None:
    store, versions, one, _ = await two_processes()
    versions.seconds = 0.02
    for time, member in enumerate((ANN, CYD, ANN + 1), 1):
        with one_request(), foreseen_change(member, of=POST_OF_BEN):
            assert (await text_of(one), await likes(one)) == ("first", time - 1)
            await like(one, member, time)
    assert store.asked == 0


@in_loop
async def test_cached_graph_change_announced_before_read_delays_reads_until_its_change_mark_is_set() -> None:
    store, versions, one, _ = await two_processes()
    versions.late = 0.01
    with one_request(), foreseen_change(ANN, of=POST_OF_BEN):
        liked, text = await asyncio.gather(likes(one), text_of(one))
        assert (liked, text) == (0, "first")
        await like(one)
        assert await likes(one) == 1
    assert store.asked == 0


@in_loop
async def test_cached_graph_change_announced_in_single_process_network_sets_no_change_mark() -> None:
    store = MemoryGraph()
    graph = CachedGraph(store)
    await add(graph, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    with one_request(), foreseen_change(ANN, of=POST_OF_BEN):
        assert await text_of(graph) == "first"
        await begin(graph, ANN, LIKES, POST_OF_BEN, moment(1))
        assert await likes(graph) == 1

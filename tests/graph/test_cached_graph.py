"""The cache above a store is never older than a returned answer, even when callers are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import Conflict
from shoal.core.ids import shard_of
from shoal.core.model import Member, Post
from shoal.graph.cache import cached_graph
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.cache.lru import Recent
from shoal.graph.contract import Batch, Cursor
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import FOLLOWS, HIGH_FAN_OUT, LIKED_BY, MUTES, POSTED, TAGGED, AssocType
from tests.async_runner import eventually, in_loop
from tests.stores import ANN, BEN, CYD, POST_OF_BEN, add, begin, end
from tests.version_tokens import LocalVersionTokens


def set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


class Slow(MemoryGraph):
    """A store that applies commits only while `may_store` is set, and answers those it applied while `may_answer` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.may_store, self.may_answer = set_event(), set_event()
        self.stored = asyncio.Event()

    async def commit(self, batch: Batch) -> None:
        await self.commit_owing(batch)

    async def commit_owing(self, batch: Batch):  # type: ignore[no-untyped-def]  # as in the class above
        await self.may_store.wait()
        answer = await super().commit_owing(batch)
        self.stored.set()
        await self.may_answer.wait()
        return answer

    async def hold_answer(self, commit: Coroutine[Any, Any, None]) -> tuple[asyncio.Task[None], asyncio.Event]:
        """Start a commit, and return its task once the commit is stored, with an event: once it is set, the task ends."""
        self.stored.clear()
        held = self.may_answer = asyncio.Event()
        task = asyncio.create_task(commit)
        await self.stored.wait()
        self.may_answer = set_event()
        return task, held


def deletion(id_: int) -> Batch:
    batch = Batch(shard_of(id_))
    batch.obj_del(Post(id=id_, author_id=BEN))
    return batch


@in_loop
async def test_cached_graph_commit_with_cancelled_caller_still_invalidates_cache() -> None:
    store = Slow()
    graph = CachedGraph(store)
    await add(graph, Post(id=POST_OF_BEN, author_id=BEN))
    store.may_store.clear()
    waiting = asyncio.create_task(graph.commit(deletion(POST_OF_BEN)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert POST_OF_BEN in await graph.obj_get((POST_OF_BEN,)), "the post is not deleted yet"
    store.may_store.set()

    async def held() -> bool:
        return POST_OF_BEN in await graph.obj_get((POST_OF_BEN,))

    await eventually(held, answer=False)


@in_loop
async def test_cached_graph_count_read_before_stored_commit_returns_is_not_cached() -> None:
    store = Slow()
    graph = CachedGraph(store)
    await add(graph, Post(id=POST_OF_BEN, author_id=BEN))
    store.may_store.clear()
    store.may_answer.clear()
    store.stored.clear()
    committing = asyncio.create_task(begin(graph, ANN, LIKED_BY, BEN, 5))
    await asyncio.sleep(0)
    assert (await graph.assoc_count((ANN,), (LIKED_BY,)))[LIKED_BY] == {}

    store.may_store.set()
    await store.stored.wait()
    assert not committing.done()
    assert (await graph.assoc_count((ANN,), (LIKED_BY,)))[LIKED_BY] == {ANN: 1}, (
        "the cached count is older than the stored commit"
    )
    committing.cancel()


@in_loop
async def test_cached_graph_close_waits_for_abandoned_commits() -> None:
    store = Slow()
    graph = CachedGraph(store)
    await add(graph, Post(id=POST_OF_BEN, author_id=BEN))
    store.may_store.clear()
    waiting = asyncio.create_task(graph.commit(deletion(POST_OF_BEN)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    closing = asyncio.create_task(graph.close())
    await asyncio.sleep(0)
    store.may_store.set()
    await closing
    assert await store.obj_get((POST_OF_BEN,)) == {}


class Counting(MemoryGraph):
    """A store that counts queries for counts and ranges, and records the lists of each `assoc_ranges` call."""

    counts = 0
    ranges = 0

    def __init__(self) -> None:
        super().__init__()
        self.together: list[list[int]] = []

    async def assoc_ranges(self, id1s: Any, *args: Any) -> Any:
        self.together.append(list(id1s))
        return await super().assoc_ranges(id1s, *args)

    async def assoc_count(self, *args: Any) -> Any:
        self.counts += 1
        return await super().assoc_count(*args)

    async def assoc_range(self, *args: Any) -> Any:
        self.ranges += 1
        return await super().assoc_range(*args)


@in_loop
async def test_cached_graph_commit_updates_changed_counts_and_keeps_others() -> None:
    store = Counting()
    graph = CachedGraph(store)
    await begin(graph, ANN, FOLLOWS, BEN, 1)
    await graph.assoc_count((ANN,), (FOLLOWS, POSTED, MUTES))
    await begin(graph, ANN, POSTED, POST_OF_BEN, 2)
    store.counts = 0
    assert await graph.assoc_count((ANN,), (FOLLOWS, MUTES)) == {FOLLOWS: {ANN: 1}, MUTES: {}}
    assert await graph.assoc_count((ANN,), (POSTED,)) == {POSTED: {ANN: 1}}
    assert store.counts == 0


class SlowCounting(Slow, Counting):
    """A slow store that counts queries."""


async def both_at_once(store: SlowCounting, graph: CachedGraph, id1: int, atype: AssocType) -> None:
    """Commit two additions to one list, such that the first stored commit returns last."""
    first, may_return = await store.hold_answer(begin(graph, id1, atype, POST_OF_BEN, 1))
    await begin(graph, id1, atype, POST_OF_BEN + 1, 2)
    may_return.set()
    await first
    store.counts = 0


@in_loop
async def test_cached_graph_count_changed_by_concurrent_commits_is_read_again() -> None:
    store = SlowCounting()
    graph = CachedGraph(store)
    await graph.assoc_count((ANN,), (POSTED, MUTES))
    await both_at_once(store, graph, ANN, POSTED)
    assert await graph.assoc_count((ANN,), (MUTES,)) == {MUTES: {}}
    assert store.counts == 0
    assert await graph.assoc_count((ANN,), (POSTED,)) == {POSTED: {ANN: 2}}
    assert store.counts == 1


@in_loop
async def test_cached_graph_count_of_new_object_changed_by_concurrent_commits_is_read_again() -> None:
    store = SlowCounting()
    graph = CachedGraph(store)
    batch = Batch(shard_of(CYD))
    batch.new_id = CYD
    batch.obj_add(Member(id=CYD, name="cyd"))
    await graph.commit(batch)
    assert await graph.assoc_count((CYD,), (FOLLOWS,)) == {FOLLOWS: {}}
    await both_at_once(store, graph, CYD, POSTED)
    assert await graph.assoc_count((CYD,), (FOLLOWS, MUTES)) == {FOLLOWS: {}, MUTES: {}}
    assert store.counts == 0, "the other counts are still cached"
    assert await graph.assoc_count((CYD,), (POSTED,)) == {POSTED: {CYD: 2}}
    assert store.counts == 1


@in_loop
async def test_cached_graph_caches_newest_list_entries_up_to_largest_requested_limit() -> None:
    store = Counting()
    graph = CachedGraph(store)
    for number in range(30):
        await begin(graph, ANN, POSTED, POST_OF_BEN + number, number + 1)
    store.ranges = 0
    for limit, ranges in ((10, 1), (10, 1), (3, 1), (20, 2), (12, 2), (64, 3), (40, 3)):
        page = await graph.assoc_range(ANN, POSTED, Cursor(limit=limit))
        assert [assoc.time for assoc in page] == list(range(30, 0, -1))[:limit]
        assert store.ranges == ranges
    assert [assoc.time for assoc in await graph.assoc_range(ANN, POSTED, Cursor(before=6, limit=10))] == [5, 4, 3, 2, 1]
    assert store.ranges == 3, "the whole list is cached"
    await begin(graph, ANN, POSTED, POST_OF_BEN + 30, 31)
    assert [assoc.time for assoc in await graph.assoc_range(ANN, POSTED, Cursor(limit=2))] == [31, 30]


@in_loop
async def test_cached_graph_list_read_in_full_answers_association_lookups() -> None:
    store = Counting()
    for member in (BEN, CYD):
        await begin(store, ANN, FOLLOWS, member, member)
    graph = CachedGraph(store)
    assert len(await graph.assoc_range(ANN, FOLLOWS, Cursor(limit=20_000))) == 2
    found = await graph.assoc_get(ANN, (FOLLOWS,), (BEN, CYD, POST_OF_BEN))
    assert set(found[FOLLOWS]) == {BEN, CYD}
    assert store.ranges == 1
    await end(graph, ANN, FOLLOWS, BEN, BEN + 1)
    assert set((await graph.assoc_get(ANN, (FOLLOWS,), (BEN, CYD)))[FOLLOWS]) == {CYD}


@in_loop
async def test_cached_graph_read_of_many_lists_caches_their_few_newest_entries_and_empty_lists() -> None:
    store = Counting()
    graph = CachedGraph(store)
    for number in range(3):
        await begin(graph, ANN, POSTED, POST_OF_BEN + number, number + 1)
    few = Cursor(limit=2)
    for _ in range(2):
        found = await graph.assoc_ranges((ANN, BEN), POSTED, few)
        assert {id1: [assoc.time for assoc in page] for id1, page in found.items()} == {ANN: [3, 2]}
        found[ANN].clear()
    assert store.together == [[ANN, BEN]]
    await begin(graph, BEN, POSTED, POST_OF_BEN + 9, 9)
    assert [assoc.time for assoc in (await graph.assoc_ranges((ANN, BEN), POSTED, few))[BEN]] == [9]
    assert store.together == [[ANN, BEN]], "the committed entry is cached"
    assert len((await graph.assoc_ranges((ANN,), POSTED, Cursor(limit=3)))[ANN]) == 3
    for many in (Cursor(limit=17), Cursor(limit=17)):
        await graph.assoc_ranges((ANN, BEN), POSTED, many)
    assert store.together == [[ANN, BEN], [ANN], [ANN, BEN], [ANN, BEN]], "only short heads are cached"


@in_loop
async def test_cached_graph_read_of_many_lists_is_not_cached_with_shared_store() -> None:
    store = Counting()
    graph = CachedGraph(store, versions=LocalVersionTokens())
    for _ in range(2):
        await graph.assoc_ranges((ANN, BEN), POSTED, Cursor(limit=2))
    assert store.together == [[ANN, BEN]] * 2


def test_lru_cache_lookup_of_many_keys_equals_single_lookups() -> None:
    recent: Recent[int, str] = Recent(4)
    for key in range(3):
        recent.put(key, str(key))
    assert recent.many((2, 0, 7, 2)) == {2: "2", 0: "0"}
    assert recent.many(()) == {}


def test_lru_cache_entry_with_weight_evicts_several_entries() -> None:
    recent: Recent[int, str] = Recent(10)
    for key in range(3):
        recent.put(key, "large", 5)
    assert recent.get(0) is None
    assert recent.get(2) == "large"


_PUTS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 12), st.sampled_from(["put", "get", "forget"])), max_size=200
)


@given(size=st.integers(1, 60), done=_PUTS)
def test_lru_cache_never_exceeds_its_size_and_returns_the_latest_value(
    size: int, done: list[tuple[int, int, str]]
) -> None:
    recent: Recent[int, int] = Recent(size)
    put: dict[int, tuple[int, int]] = {}
    for number, (key, weight, verb) in enumerate(done, 1):
        if verb == "put":
            recent.put(key, number, weight)
            put[key] = (number, weight)
            assert recent.get(key) == number
        elif verb == "forget":
            recent.forget(key)
            put.pop(key, None)
        assert recent.get(key) in (None, put.get(key, (None,))[0])
        held = recent.many(range(31))
        assert all(put[key][0] == value for key, value in held.items())
        assert len(held) == len(recent)
        assert len(held) <= 1 or sum(put[key][1] for key in held) <= size


def test_lru_cache_keeps_frequently_used_entries_during_scans() -> None:
    recent: Recent[int, str] = Recent(1_000)
    for key in range(800):
        recent.put(key, "hot")
    missed = 0
    for round_ in range(100):
        for key in range(800):
            if recent.get(key) is None:
                missed += 1
                recent.put(key, "hot")
            if key % 40 == 0:
                recent.put(10_000 + 800 * round_ + key, "cold")
    assert missed == 0


def test_lru_cache_entry_replaced_counts_its_weight_once() -> None:
    recent: Recent[int, str] = Recent(10)
    for key in range(2):
        recent.put(key, "large", 5)
    for _ in range(100):
        recent.put(1, "again", 5)
    assert recent.many((0, 1)) == {0: "large", 1: "again"}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("short", [1, 256])
@in_loop
async def test_cached_graph_common_associations_change_with_either_list(short: int, shared: bool) -> None:
    store = MemoryGraph()
    with patch.multiple(cached_graph, _SHORT=short, _SHORT_REMOTE=short):
        versions = LocalVersionTokens()
        one, two = (CachedGraph(store, versions=versions) for _ in range(2)) if shared else [CachedGraph(store)] * 2

        async def common() -> set[int]:
            answers = [(await graph.assoc_common(ANN, (FOLLOWS,), BEN, HIGH_FAN_OUT))[FOLLOWS] for graph in (one, two)]
            assert answers[0] == answers[1]
            return set(answers[0])

        assert await common() == set()
        for id2 in (7, 8, 9):
            await begin(one, BEN, HIGH_FAN_OUT, id2, id2)
            assert await common() == set()
        for id2 in (7, 8, 6):
            await begin(one, ANN, FOLLOWS, id2, id2)
        assert await common() == {7, 8}
        await begin(one, ANN, FOLLOWS, 9, 9)
        assert await common() == {7, 8, 9}
        await end(one, ANN, FOLLOWS, 8, 10)
        assert await common() == {7, 9}
        await end(one, BEN, HIGH_FAN_OUT, 7, 11)
        assert await common() == {9}
        await begin(one, BEN, HIGH_FAN_OUT, 6, 12)
        assert await common() == {6, 9}


@pytest.mark.parametrize("shared", [False, True])
@in_loop
async def test_cached_graph_committed_object_is_read_from_cache(shared: bool) -> None:
    store = Reading()
    graph = CachedGraph(store, versions=LocalVersionTokens() if shared else None)
    await add(graph, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    assert await graph.obj_get((POST_OF_BEN,)) == await MemoryGraph.obj_get(store, (POST_OF_BEN,))
    assert store.objects == 0
    await graph.commit(edit("second", 2))
    assert (await graph.obj_get((POST_OF_BEN,)))[POST_OF_BEN].version == 2
    assert store.objects == 0
    await graph.commit(deletion(POST_OF_BEN))
    assert await graph.obj_get((POST_OF_BEN,)) == {}


def edit(text: str, version: int) -> Batch:
    batch = Batch(shard_of(POST_OF_BEN))
    batch.obj_set(Post(id=POST_OF_BEN, author_id=BEN, text=text, version=version))
    return batch


class Reading(Slow):
    """A store that counts object reads."""

    objects = 0

    async def obj_get(self, ids: Any) -> Any:
        self.objects += 1
        return await super().obj_get(ids)


@pytest.mark.parametrize("shared", [False, True])
@in_loop
async def test_cached_graph_object_changed_by_concurrent_commits_is_not_cached(shared: bool) -> None:
    store = Reading()
    graph = CachedGraph(store, versions=LocalVersionTokens() if shared else None)
    await add(graph, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    # The second commit is stored after the first and answered before it; the third starts while the first is pending.
    first, may_return = await store.hold_answer(graph.commit(edit("second", 2)))
    await graph.commit(edit("third", 3))
    assert (await graph.obj_get((POST_OF_BEN,)))[POST_OF_BEN].version == 3
    may_return.set()
    await first
    assert (await graph.obj_get((POST_OF_BEN,)))[POST_OF_BEN].version == 3
    await graph.commit(edit("fourth", 4))
    objects = store.objects
    assert (await graph.obj_get((POST_OF_BEN,)))[POST_OF_BEN].version == 4
    assert store.objects == objects, "a commit without concurrency is cached again"


@pytest.mark.parametrize("shared", [False, True])
@in_loop
async def test_cached_graph_object_with_failed_commit_is_read_from_store(shared: bool) -> None:
    store = Reading()
    graph = CachedGraph(store, versions=LocalVersionTokens() if shared else None)
    await add(graph, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    with pytest.raises(Conflict):
        await graph.commit(edit("ninth", 9))
    assert (await graph.obj_get((POST_OF_BEN,)))[POST_OF_BEN].version == 1
    assert store.objects == 1


@in_loop
async def test_cached_graph_commit_during_discard_of_all_entries_does_not_cache_the_object() -> None:
    store = Reading()
    graph = CachedGraph(store)
    await add(graph, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    committing, may_return = await store.hold_answer(graph.commit(edit("second", 2)))
    graph.forget_all()
    may_return.set()
    await committing
    await MemoryGraph.commit(store, deletion(POST_OF_BEN))
    assert await graph.obj_get((POST_OF_BEN,)) == {}


class Silent(MemoryGraph):
    """A store that does not record its results in `judged`."""

    async def commit_owing(self, batch: Batch):  # type: ignore[no-untyped-def]  # as in the class above
        noted, batch.list_changes = batch.list_changes, None
        answer = await super().commit_owing(batch)
        batch.list_changes = noted
        return answer


@pytest.mark.parametrize("kind", [MemoryGraph, Silent])
@in_loop
async def test_cached_graph_counts_of_new_object_are_known_without_reads(
    kind: type[MemoryGraph],
) -> None:
    store = kind()
    graph = CachedGraph(store, versions=LocalVersionTokens())
    batch = Batch(shard_of(POST_OF_BEN))
    batch.obj_add(Post(id=POST_OF_BEN, author_id=BEN))
    batch.assoc_add(BEN, POSTED, POST_OF_BEN, POST_OF_BEN)
    batch.assoc_add(POST_OF_BEN, TAGGED, ANN, POST_OF_BEN)
    batch.new_id = POST_OF_BEN
    await graph.commit(batch)
    with patch.object(store, "assoc_count", side_effect=AssertionError("asked")):
        assert await graph.assoc_count((POST_OF_BEN,), (LIKED_BY,)) == {LIKED_BY: {}}
        if kind is MemoryGraph:
            assert await graph.assoc_count((POST_OF_BEN,), (TAGGED,)) == {TAGGED: {POST_OF_BEN: 1}}
    assert await graph.assoc_count((POST_OF_BEN,), (TAGGED, LIKED_BY)) == {TAGGED: {POST_OF_BEN: 1}, LIKED_BY: {}}

"""Several caches of a graph: no cache returns data older than the request, whichever process changed it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import Context

import pytest

from shoal.core.errors import Unavailable
from shoal.core.ids import shard_of
from shoal.core.model import Post
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.cache.coherence import MarkedChange, Renewal, one_request
from shoal.graph.contract import Assoc, Batch, Cursor
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import FOLLOWS, LIKED_BY, LIKES, POSTED, AnyNode, AssocType
from tests.async_runner import in_loop
from tests.stores import ANN, BEN, CYD, POST_OF_BEN, add, begin, end, moment
from tests.version_tokens import LocalVersionTokens


class Counted(MemoryGraph):
    """A store that counts queries and can delay answers."""

    asked = 0
    seconds = 0.0

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        self.asked += 1
        found = await super().obj_get(ids)
        await asyncio.sleep(self.seconds)
        return found

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        self.asked += 1
        return await super().assoc_range(id1, atype, at)


class Trying(LocalVersionTokens):
    """Version tokens that can delay `end`, refuse marks, or be unreachable for marks."""

    seconds = 0.0
    told_late = 0.0
    full = False
    deaf = False
    slow_marks = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.marking = asyncio.Event()

    async def begin(self, ids: Sequence[int], *, reading: bool = False) -> MarkedChange:
        if self.full:
            raise ValueError("no mark")
        if self.deaf:
            raise Unavailable("no mark")
        self.marking.set()
        await asyncio.sleep(self.slow_marks)
        return await super().begin(ids, reading=reading)

    async def end(self, ids: Sequence[int], begun: MarkedChange | None, *, changed: bool = True) -> dict[int, Renewal]:
        await asyncio.sleep(self.seconds)
        renewed = await super().end(ids, begun, changed=changed)
        await asyncio.sleep(self.told_late)
        return renewed


def two_memories() -> tuple[Counted, Trying, CachedGraph, CachedGraph]:
    store, versions = Counted(), Trying()
    return store, versions, CachedGraph(store, versions=versions), CachedGraph(store, versions=versions)


async def text_of(graph: CachedGraph) -> str | None:
    post = (await graph.obj_get((POST_OF_BEN,))).get(POST_OF_BEN)
    return post.text if isinstance(post, Post) else None


async def rewrite(graph: CachedGraph | MemoryGraph, text: str, version: int) -> None:
    batch = Batch(shard_of(POST_OF_BEN))
    batch.obj_set(Post(id=POST_OF_BEN, author_id=BEN, text=text, version=version))
    await graph.commit(batch)


@in_loop
async def test_cached_graph_rereads_only_data_changed_by_other_process() -> None:
    store, _, one, two = two_memories()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    assert [await text_of(two) for _ in range(5)] == ["first"] * 5
    assert store.asked == 1
    await rewrite(one, "second", 2)
    assert [await text_of(graph) for graph in (two, one, two)] == ["second"] * 3
    assert store.asked == 2, "the process that made the change has cached it"
    await begin(two, ANN, LIKES, POST_OF_BEN, moment(1))
    for graph in (one, two):
        assert (await graph.assoc_count((POST_OF_BEN,), (LIKED_BY,)))[LIKED_BY] == {POST_OF_BEN: 1}


@in_loop
async def test_cached_graph_own_change_invalidates_only_changed_data() -> None:
    store, versions, one, two = two_memories()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    for graph in (one, two):
        assert await text_of(graph) == "first"
    store.asked = 0
    await begin(one, ANN, LIKES, POST_OF_BEN, moment(1))
    assert await text_of(one) == "first"
    assert store.asked == 0, "a like does not change the post"
    assert await text_of(two) == "first"
    assert store.asked == 1, "the other process cannot know which data changed"
    assert (await one.assoc_count((POST_OF_BEN,), (LIKED_BY,)))[LIKED_BY] == {POST_OF_BEN: 1}
    assert versions.renewed
    with one_request():
        versions.asked.clear()
        await begin(one, BEN, LIKES, POST_OF_BEN, moment(2))
        assert (await one.assoc_count((POST_OF_BEN,), (LIKED_BY,)))[LIKED_BY] == {POST_OF_BEN: 2}
        assert versions.asked == [], "the end of the change has returned the version token"


@in_loop
async def test_cached_graph_change_overlapping_with_other_process_invalidates_the_object() -> None:
    store, versions, one, two = two_memories()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    assert await text_of(one) == "first"
    theirs = await versions.begin([POST_OF_BEN])
    await begin(one, ANN, LIKES, POST_OF_BEN, moment(1))
    await rewrite(store, "second", 2)
    await versions.end([POST_OF_BEN], theirs)
    assert await text_of(one) == "second"
    # In reverse: the change of the other process starts last and finishes first.
    begun = await versions.begin([POST_OF_BEN])
    theirs = await versions.begin([POST_OF_BEN])
    await rewrite(store, "third", 3)
    await versions.end([POST_OF_BEN], theirs)
    assert await versions.end([POST_OF_BEN], begun) == {}
    # A process that could not mark its change publishes its end.
    begun = await versions.begin([POST_OF_BEN])
    await versions.end([POST_OF_BEN], None)
    assert await versions.end([POST_OF_BEN], begun) == {}
    assert [await text_of(graph) for graph in (one, two)] == ["third"] * 2


@in_loop
async def test_cached_graph_own_change_does_not_revalidate_data_changed_by_other_process() -> None:
    _, _, one, two = two_memories()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    assert await text_of(one) == "first"
    await rewrite(two, "second", 2)
    await begin(one, ANN, LIKES, POST_OF_BEN, moment(1))
    assert await text_of(one) == "second"


@in_loop
async def test_cached_graph_read_overlapping_with_own_change_is_not_cached() -> None:
    for late in (0.0, 0.03):
        store, versions, one, _ = two_memories()
        await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
        with one_request():
            await one.assoc_count((POST_OF_BEN,), (LIKED_BY,))
            store.seconds = 0.02
            slow = asyncio.create_task(text_of(one))
            await asyncio.sleep(0)
            versions.seconds = late
            await rewrite(one, "second", 2)
            assert await slow == "first"
            assert await text_of(one) == "second"
        assert await text_of(one) == "second"


@in_loop
async def test_cached_graph_change_is_visible_in_all_processes_before_its_change_mark_is_removed() -> None:
    store, versions, one, two = two_memories()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    assert [await text_of(graph) for graph in (one, two)] == ["first"] * 2
    versions.seconds, renewed = 0.05, versions.renewed
    await rewrite(one, "second", 2)
    assert await text_of(two) == "second"
    assert versions.renewed == renewed, "the end of the change is not published yet"
    asked = store.asked
    # Another request of the changing process waits for the end, and then needs no read.
    assert await text_of(one) == "second"
    assert versions.renewed == renewed + 1
    assert store.asked == asked


@in_loop
async def test_cached_graph_late_removal_of_change_mark_does_not_hide_change_of_other_process() -> None:
    store, versions, one, _ = two_memories()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    assert await text_of(one) == "first"
    versions.told_late = 0.05
    await rewrite(one, "second", 2)
    await asyncio.sleep(0.01)
    # The end is stored, but this process has not received the answer yet.
    assert POST_OF_BEN in await versions.read([POST_OF_BEN])
    theirs = await versions.begin([POST_OF_BEN])
    await rewrite(store, "third", 3)
    assert await text_of(one) == "third"
    await versions.end([POST_OF_BEN], theirs)
    assert await text_of(one) == "third"


@in_loop
async def test_cached_graph_request_continues_before_its_change_mark_is_removed() -> None:
    store, versions, one, two = two_memories()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    with one_request():
        assert await text_of(one) == "first"
        assert (await one.assoc_count((POST_OF_BEN,), (LIKED_BY,)))[LIKED_BY] == {}
        versions.seconds, renewed, asked = 0.05, versions.renewed, store.asked
        await begin(one, ANN, LIKES, POST_OF_BEN, moment(1))
        await asyncio.create_task(rewrite(two, "second", 2), context=Context())
        assert await text_of(one) == "first", "the request keeps the state of its start"
        assert (await one.assoc_count((POST_OF_BEN,), (LIKED_BY,)))[LIKED_BY] == {POST_OF_BEN: 1}
        assert (versions.renewed, store.asked) == (renewed, asked)
    # Another process changed the post during the request.
    await one.close()
    assert await text_of(one) == "second"


@in_loop
async def test_cached_graph_change_without_change_mark_is_visible_to_other_process_when_commit_returns() -> None:
    _, versions, one, two = two_memories()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    assert await text_of(two) == "first"
    versions.deaf, versions.seconds = True, 0.02
    await rewrite(one, "second", 2)
    assert await text_of(two) == "second"


@in_loop
async def test_cached_graph_own_change_is_not_added_to_count_changed_by_other_process() -> None:
    _, versions, one, two = two_memories()

    async def likes() -> int:
        return (await one.assoc_count((POST_OF_BEN,), (LIKED_BY,)))[LIKED_BY].get(POST_OF_BEN, 0)

    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    assert await likes() == 0
    await begin(two, BEN, LIKES, POST_OF_BEN, moment(1))
    # The own like starts from a cached count of 0. Before it is marked, another request reads the first like.
    versions.slow_marks = 0.02
    versions.marking.clear()
    like = asyncio.create_task(begin(one, ANN, LIKES, POST_OF_BEN, moment(2)))
    await versions.marking.wait()
    assert await likes() == 1
    await like
    assert await likes() == 2
    # The change of the other process has not been read by any request.
    await begin(two, CYD, LIKES, POST_OF_BEN, moment(3))
    await begin(one, CYD + 1, LIKES, POST_OF_BEN, moment(4))
    assert await likes() == 4


@in_loop
async def test_cached_graph_close_removes_change_marks_of_finished_changes() -> None:
    _, versions, one, _ = two_memories()
    versions.seconds = 0.02
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    assert versions.renewed == 0
    await one.close()
    assert versions.renewed == 1


@in_loop
async def test_cached_graph_change_with_refused_change_mark_is_not_committed() -> None:
    _, versions, one, _ = two_memories()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    versions.full = True
    with pytest.raises(ValueError, match="no mark"):
        await rewrite(one, "second", 2)
    versions.full = False
    assert await text_of(one) == "first"


@in_loop
async def test_cached_graph_read_started_before_a_change_is_not_cached_after_it() -> None:
    store, _, one, two = two_memories()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    store.seconds = 0.02
    slow = asyncio.create_task(text_of(two))
    await asyncio.sleep(0)
    await rewrite(one, "second", 2)
    await slow
    assert await text_of(two) == "second"


@in_loop
async def test_cached_graph_object_being_changed_is_not_cached() -> None:
    store, versions, one, _ = two_memories()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    begun = await versions.begin([POST_OF_BEN])
    for _ in range(3):
        await text_of(one)
    assert store.asked == 3
    await versions.end([POST_OF_BEN], begun)
    for _ in range(3):
        await text_of(one)
    assert store.asked == 4


@in_loop
async def test_cached_graph_without_version_tokens_reads_from_store_and_writes_continue() -> None:
    store, versions, one, two = two_memories()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    assert await text_of(two) == "first"
    versions.away = True
    await rewrite(one, "second", 2)
    asked = store.asked
    assert [await text_of(two) for _ in range(3)] == ["second"] * 3
    assert store.asked == asked + 3
    versions.away = False
    assert await text_of(two) == "second"


@in_loop
async def test_cached_graph_request_reads_version_token_once_and_sees_its_own_change() -> None:
    _, versions, one, two = two_memories()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    with one_request():
        versions.asked.clear()
        for _ in range(3):
            await text_of(one)
        assert versions.asked == [[POST_OF_BEN, BEN]], "the version token of the author is read with it"
        await rewrite(one, "second", 2)
        assert await text_of(one) == "second"
    await rewrite(two, "third", 3)
    with one_request():
        assert await text_of(one) == "third"


@pytest.mark.parametrize("posts", [3, 64, 65, 100])
@in_loop
async def test_cached_graph_list_head_is_cached_once_and_pages_in_both_directions_are_complete(posts: int) -> None:
    store, _, one, two = two_memories()
    for number in range(posts):
        await begin(one, BEN, POSTED, number, moment(number))
    newest = [moment(number) for number in reversed(range(posts))]
    for _ in range(2):
        for limit in (1, 20, 64):
            page = await two.assoc_range(BEN, POSTED, Cursor(limit=limit))
            assert [assoc.time for assoc in page] == newest[:limit]
    assert store.asked == 1
    for before in (newest[0], newest[-1], newest[len(newest) // 2]):
        page = await two.assoc_range(BEN, POSTED, Cursor(before=before, limit=20))
        assert [assoc.time for assoc in page] == [time for time in newest if time < before][:20]
        page = await two.assoc_range(BEN, POSTED, Cursor(after=before, limit=20))
        assert [assoc.time for assoc in page] == [time for time in newest if time > before][:20]
        page = await two.assoc_range(BEN, POSTED, Cursor(after=before, limit=20, oldest_first=True))
        assert [assoc.time for assoc in page] == [time for time in newest[::-1] if time > before][:20]
    await end(one, BEN, POSTED, posts - 1, moment(posts + 1))
    assert [assoc.time for assoc in await two.assoc_range(BEN, POSTED, Cursor(limit=1))] == newest[1:2]


@in_loop
async def test_cached_graph_unfollow_in_other_process_applies_immediately() -> None:
    _, _, one, two = two_memories()
    await begin(one, ANN, FOLLOWS, BEN, moment(1))
    assert BEN in (await two.assoc_get(ANN, (FOLLOWS,), (BEN,)))[FOLLOWS]
    await end(one, ANN, FOLLOWS, BEN, moment(2))
    assert (await two.assoc_get(ANN, (FOLLOWS,), (BEN,)))[FOLLOWS] == {}

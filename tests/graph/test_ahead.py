"""Questions beside the stamps: answers are fresh, and remembered or taken for the later of two only where nothing has changed."""

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
from tests.running import in_loop
from tests.stores import ANN, BEN, CYD, POST_OF_BEN, add, begin, end, moment
from tests.version_tokens import LocalVersionTokens

GUARDS = (FOLLOWS, BLOCKS, BLOCKED_BY, MUTES)


class SlowReads(LocalVersionTokens):
    """Stamps that wait, if they are told to, until they may answer. `early` they know what before; ends take `late` seconds."""

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
        """Answer no question until `may_answer`."""
        self.may_answer.clear()
        self.reached.clear()


class Links(MemoryGraph):
    """A store that counts the questions for links and for counts, answers the latter after `slow` seconds, and stores only when
    it may."""

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
async def test_links_are_asked_for_beside_the_stamp_and_their_counts_remembered() -> None:
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
    assert store.asked == 2, "all these lists are empty, as is remembered"


@in_loop
async def test_links_that_were_asked_for_before_a_change_are_not_remembered_under_the_stamp_after_it() -> None:
    for ours in (False, True):
        store, versions, one, two = two_processes()
        await one.obj_get((ANN,))
        versions.early = ours
        versions.halt()
        asking = asyncio.create_task(blocked(one))
        await versions.reached.wait()
        await asyncio.sleep(0)
        assert store.asked == 2
        # An own one may be done before its end is told, and before the stamp that was read before it arrives.
        versions.late = 0.02 * ours
        changing = begin(one if ours else two, BEN, BLOCKS, ANN, moment(1))
        await asyncio.create_task(changing, context=Context())
        versions.may_answer.set()
        assert not await asking, "it is not older than the request"
        assert await blocked(one)
        await one.close()
        assert await blocked(one)


@in_loop
async def test_where_the_stamp_is_known_to_the_request_links_are_remembered_though_an_own_change_ends_meanwhile() -> (
    None
):
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
async def test_a_process_that_has_never_seen_a_stamp_of_an_object_asks_for_it_first() -> None:
    store, versions, one, _ = two_processes()
    versions.halt()
    asking = asyncio.create_task(blocked(one))
    await versions.reached.wait()
    await asyncio.sleep(0)
    assert store.asked == 0, "what is read before is worth nothing under it"
    versions.may_answer.set()
    assert not await asking
    assert not await blocked(one)
    assert store.asked == 2


@in_loop
async def test_an_author_is_recalled_as_far_as_the_post_is_remembered() -> None:
    _, _, one, two = two_processes()
    await add(one, Post(id=POST_OF_BEN, author_id=BEN, text="first"))
    assert (one.cached_author(POST_OF_BEN), two.cached_author(POST_OF_BEN)) == (BEN, 0)
    assert one.cached_author(BEN) == 0


async def loud(graph: CachedGraph) -> set[int]:
    return set((await graph.assoc_common(ANN, (FOLLOWS,), EVERYBODY, HIGH_FAN_OUT))[FOLLOWS])


async def with_a_loud_ben() -> tuple[Links, SlowReads, CachedGraph, CachedGraph]:
    """One process remembers that Ann follows Ben, who is loud."""
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
async def test_a_question_is_put_beside_the_stamps_of_a_list_that_is_remembered() -> None:
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
        # All stamps are there, so it would be put alone.
        assert await beside(one, asked) is None
    with one_request():
        # Where the list is not remembered, it is read first.
        assert await beside(two, asked) is None
    assert asked == ["asked"]


@in_loop
async def test_an_answer_is_worth_nothing_if_the_list_has_changed_since_the_question() -> None:
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
async def test_an_answer_is_worth_nothing_while_the_process_itself_changes_the_list() -> None:
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
        assert await asking is None, "the list is read next, and may be newer"
        store.may_store.set()
        await changing
        assert await loud(one) == set()


@in_loop
async def test_a_change_of_the_viewer_alone_takes_nothing_from_the_answer() -> None:
    _, _, one, two = await with_a_loud_ben()
    await begin(two, ANN, FOLLOWS, CYD, moment(3))
    with one_request():
        assert await beside(one, []) == ("answer",)
        assert await loud(one) == {BEN}


@in_loop
async def test_a_process_that_makes_every_change_itself_puts_nothing_beside() -> None:
    graph = CachedGraph(MemoryGraph())
    assert not await blocked(graph)
    with one_request():
        assert await beside(graph, []) is None

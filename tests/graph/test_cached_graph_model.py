"""A cache answers like its store after random commits, for one process and for two processes on a shared store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from shoal.core.ids import shard_of
from shoal.core.model import Post
from shoal.graph.cache import cached_graph, entries
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.cache.change_log import FollowedLog, OwnersLog
from shoal.graph.cache.coherence import foreseen_change, one_request
from shoal.graph.contract import MAX_TIME, Batch, Cursor, Reader
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, LIKED_BY, LIKES, MUTES, POSTED, AssocType
from shoal.multiprocess.shared_memory import POSITION, SharedMemory, barrier
from tests.stores import ANN, BEN, CYD, id_on
from tests.version_tokens import LocalVersionTokens

MEMBERS = (ANN, BEN, CYD)
TYPES = (FOLLOWS, LIKES, MUTES, POSTED)
BOTH_WAYS = (*TYPES, FOLLOWED_BY, LIKED_BY)


class Step(NamedTuple):
    """An association is added or removed, with an aggregate count if its type has one; then this part of every list is read."""

    id1: int
    atype: AssocType
    id2: int
    alive: bool
    aggregate_id: int
    before: int
    after: int
    limit: int
    oldest_first: bool
    new: bool
    """Whether an added POSTED association points to a post created in the commit."""
    by_other: bool
    """Whether the second process commits the step, if there are two."""
    early: bool
    """Whether the step is older than all stored associations."""
    asked: bool
    """Whether the request announces the change and reads before it."""
    made: bool
    """Whether an announced change is committed."""


members = st.sampled_from(MEMBERS)
steps = st.builds(
    Step,
    members,
    st.sampled_from(TYPES),
    st.integers(0, 7).map(lambda n: CYD + n),
    st.sampled_from((True, True, False)),
    # An aggregate counts the associations of other objects, as an author counts the likes of posts, so it owns no such list.
    st.sampled_from((0, ANN, BEN)),
    st.sampled_from((MAX_TIME, MAX_TIME, 3, 10)),
    st.sampled_from((0, 0, 4)),
    st.sampled_from((1, 2, 3, 100)),
    st.sampled_from((False, False, True)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from((True, True, False)),
)


async def answers(graph: Reader, step: Step, made: Sequence[int]) -> list[object]:
    """Return objects, counts, the part of each list, singly and combined, and lookups of single associations."""
    part = Cursor(step.before, step.after, step.limit, step.oldest_first)
    found: list[object] = [await graph.obj_get(made), await graph.assoc_count((*MEMBERS, *made), BOTH_WAYS)]
    for id1 in (*MEMBERS, *made):
        found += [await graph.assoc_get(id1, BOTH_WAYS, some) for some in (MEMBERS[1:], MEMBERS)]
        found += [await graph.assoc_range(id1, atype, part) for atype in BOTH_WAYS]
    return found + [await graph.assoc_ranges(MEMBERS, atype, part) for atype in BOTH_WAYS]


async def in_common(graph: CachedGraph) -> list[dict[AssocType, frozenset[int]]]:
    """Return the intersection of each member's lists with the members followed by Ben."""
    return [await graph.assoc_common(id1, BOTH_WAYS, BEN, FOLLOWS) for id1 in MEMBERS]


async def in_common_by_definition(graph: Reader) -> list[dict[AssocType, frozenset[int]]]:
    """Return the expected result of `in_common`, computed from the full lists."""

    async def ids(id1: int, atype: AssocType) -> frozenset[int]:
        return frozenset([assoc.id2 for assoc in await graph.assoc_range(id1, atype, Cursor(limit=100))])

    those = await ids(BEN, FOLLOWS)
    return [{atype: await ids(id1, atype) & those for atype in BOTH_WAYS} for id1 in MEMBERS]


async def made(graph: CachedGraph, batch: Batch, step: Step, posts: Sequence[int]) -> None:
    """Commit the batch, or only announce it, in a request that reads before and after."""
    if not step.asked:
        await graph.commit(batch)
        return
    changed = {
        *(op.id for op in batch.objects),
        *(id_ for op in batch.assocs for id_ in (op.id1, op.id2, op.aggregate_id)),
    } - {0}
    with one_request(), foreseen_change(*changed):
        await answers(graph, step, posts)
        if step.made:
            await graph.commit(batch)
        await answers(graph, step, posts)


def processes(store: MemoryGraph, shared: str) -> tuple[CachedGraph, CachedGraph]:
    """Return a graph that changes the store, and a graph that reads it."""
    if shared == "versions":
        versions = LocalVersionTokens()
        return CachedGraph(store, versions=versions), CachedGraph(store, versions=versions)
    if shared == "log":
        memory = SharedMemory.create(2, 1, 1)
        ours = CachedGraph(store, log=OwnersLog(memory, POSITION, barrier))
        return ours, CachedGraph(store, log=FollowedLog(memory, POSITION, lambda: True))
    alone = CachedGraph(store)
    return alone, alone


@given(
    st.lists(steps, max_size=20),
    st.sampled_from(("alone", "versions", "log")),
    st.sampled_from((1, 256)),
    st.sampled_from((2, 64)),
)
def test_cached_graph_answers_equal_the_store_for_random_commits(
    steps: list[Step], shared: str, short: int, head: int
) -> None:
    async def run() -> None:
        store = MemoryGraph()
        one, two = processes(store, shared)
        posts: list[int] = []
        for time, step in enumerate(steps, 2):
            batch = Batch(shard_of(step.id1))
            change, id2 = batch.assoc_add if step.alive else batch.assoc_del, step.id2
            if step.new and step.alive and step.atype is POSTED:
                id2 = batch.new_id = id_on(0, 1_000 + time)
                batch.obj_add(Post(id=id2, author_id=step.id1))
                batch.assoc_add(id2, LIKES, step.id2, time)
                posts.append(id2)
            elif posts and step.new:
                id2 = posts[-1]
            change(step.id1, step.atype, id2, 1 if step.early else time, aggregate_id=step.aggregate_id)
            # A process that follows the log of another process makes no changes.
            await made(two if step.by_other and shared != "log" else one, batch, step, posts)
            expected = await answers(store, step, posts)
            assert await answers(one, step, posts) == expected
            assert await answers(two, step, posts) == expected
            for graph in (one, two):
                assert await in_common(graph) == await in_common_by_definition(store)

    short_lists = patch.multiple(cached_graph, _SHORT=short, _SHORT_REMOTE=short, HEAD=head)
    with short_lists, patch.object(entries, "HEAD", head):
        asyncio.run(run())

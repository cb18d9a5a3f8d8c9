"""Ranks in lists, on every graph, against a plain list: entries are removed, backdated, added again and moved in time."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator
from random import Random
from unittest.mock import patch

import pytest

from shoal.core.ids import shard_of
from shoal.graph.bulk import Movable, Rows
from shoal.graph.contract import MAX_TIME, AssocRow, Batch, Store
from shoal.graph.postgres import ranks as postgres_ranks
from shoal.graph.schema import BOOKMARKS, POSTED, TAG_OF, AssocType
from shoal.graph.sqlite import ranks as sqlite_ranks
from tests.async_runner import in_loop
from tests.stores import ANN, BEN, CYD, FIRST, Backend, all_links, broken_promises


@pytest.fixture(autouse=True)
def small_blocks() -> Iterator[None]:
    """Shrink blocks so that a few dozen entries fill blocks of every level."""
    with (
        patch.multiple(sqlite_ranks, BLOCK=3, FAN=2, OPEN=6, _AT_ONCE=12),
        patch.multiple(postgres_ranks, BLOCK=3, FAN=2, OPEN=6, AT_ONCE=12),
    ):
        yield


async def change(graph: Store, atype: AssocType, begun: dict[int, int], ended: dict[int, int]) -> None:
    ops = [(id2, time, True) for id2, time in begun.items()] + [(id2, time + 1, False) for id2, time in ended.items()]
    for at in range(0, len(ops), 15):
        batch = Batch(shard_of(BEN))
        for id2, time, alive in ops[at : at + 15]:
            (batch.assoc_add if alive else batch.assoc_del)(BEN, atype, id2, time)
        await graph.commit(batch)


async def assert_ranked(graph: Store, atype: AssocType, listed: dict[int, int], times: list[int]) -> None:
    every = sorted(listed.values())
    ranks = await graph.assoc_ranks([ANN, BEN, CYD], atype, times)
    assert ranks[BEN] == [len(every) - bisect_right(every, time) for time in times]
    assert ranks[ANN] == ranks[CYD] == [0] * len(times)


@pytest.mark.parametrize("atype", [POSTED, TAG_OF, BOOKMARKS], ids=repr)
@in_loop
async def test_graph_assoc_ranks_match_plain_list_after_random_changes(backend: Backend, atype: AssocType) -> None:
    random = Random(13)
    listed: dict[int, int] = {}
    gone: list[int] = []
    async with backend.open() as graph:
        await assert_ranked(graph, atype, listed, [0, MAX_TIME])
        for turn in range(14):
            newest = max(listed, default=1)
            begun = {id2: id2 for id2 in random.sample(range(newest + 1, newest + 10**9), 8)}
            late = {id2: id2 for id2 in random.sample(range(2, newest + 1), 3 if turn else 0) if id2 not in gone}
            moved = {
                id2: time + random.randrange(1, 10**6)
                for id2, time in random.sample(sorted(listed.items()), len(listed) // 9)
            }
            ended = {
                id2: time for id2, time in random.sample(sorted(listed.items()), len(listed) // 7) if id2 not in moved
            }
            again = {id2: random.randrange(newest, newest + 10**9) for id2 in gone[:2]} if turn % 3 == 0 else {}
            begun = late | begun | again | moved
            ended = {id2: time for id2, time in ended.items() if id2 not in begun}
            await change(graph, atype, begun, ended)
            listed = {id2: time for id2, time in (listed | begun).items() if id2 not in ended}
            gone = [id2 for id2 in gone if id2 not in begun] + list(ended)
            if turn != 7:
                some = random.sample(sorted(listed.values()), 5)
                times = [0, MAX_TIME, *some, some[0] - 1, random.randrange(newest)]
                await assert_ranked(graph, atype, listed, times)
                assert await broken_promises(graph) == []


@in_loop
async def test_graph_assoc_ranks_are_correct_with_concurrent_writes_during_block_creation(backend: Backend) -> None:
    listed = {id2: id2 for id2 in range(1000, 1090)}
    async with backend.open() as graph:
        await change(graph, POSTED, listed, {})
        changes = [change(graph, POSTED, {id2 - 500: id2 - 500}, {id2: id2}) for id2 in range(1000, 1040, 2)]
        reads = [graph.assoc_ranks([BEN], POSTED, [0]) for _ in changes]
        found = await asyncio.gather(*[thing for pair in zip(changes, reads, strict=True) for thing in pair])
        assert all(answer in (None, {BEN: [90]}) for answer in found)
        for id2 in range(1000, 1040, 2):
            del listed[id2]
            listed[id2 - 500] = id2 - 500
        await assert_ranked(graph, POSTED, listed, [0, 499, 500, 520, 999, 1001, 1088, 1089])


@in_loop
async def test_graph_assoc_ranks_are_correct_after_rows_are_moved(backend: Backend) -> None:
    async with backend.open() as graph:
        if not isinstance(graph, Movable):
            return
        listed = {id2: id2 for id2 in range(1000, 1090)}
        await change(graph, POSTED, listed, {})
        await assert_ranked(graph, POSTED, listed, [0, 1030])
        gone = [row for row in await all_links(graph) if row.id2 % 3 == 0]
        await graph.remove_rows(Rows(assocs=gone))
        listed = {id2: id2 for id2 in listed if id2 % 3}
        await graph.put_rows(Rows(counts=[(BEN, POSTED.number, len(listed))]))
        await assert_ranked(graph, POSTED, listed, [0, 1029, 1030, 1089])
        assert await broken_promises(graph) == []
        come = [AssocRow(BEN, POSTED.number, id2, id2, alive=True, data=b"") for id2 in range(500, 1060, 7)]
        listed |= {row.id2: row.id2 for row in come}
        await graph.put_rows(Rows(assocs=come, counts=[(BEN, POSTED.number, len(listed))]))
        await assert_ranked(graph, POSTED, listed, [0, 499, 700, 999, 1029, 1030, 1031, 1089])
        assert await broken_promises(graph) == []


@in_loop
async def test_graph_rank_blocks_are_deleted_and_rebuilt(backend: Backend) -> None:
    async with backend.open() as graph:
        for whose in (BEN, CYD):
            for first in range(1000, 1060, 15):
                batch = Batch(shard_of(whose))
                for id2 in range(first, first + 15):
                    batch.assoc_add(whose, POSTED, id2, id2)
                await graph.commit(batch)
        every = {BEN: [30], CYD: [30]}
        assert await graph.assoc_ranks([BEN, CYD], POSTED, [1029]) == every
        assert await graph.assoc_ranks([BEN, CYD], POSTED, [2000]) == {BEN: [0], CYD: [0]}
        made = await graph.block_scan((FIRST, 0, 0, 0), 100)
        await graph.block_drop(BEN, POSTED.number)
        assert await graph.block_scan((FIRST, 0, 0, 0), 100) == [block for block in made if block.id1 != BEN]
        assert await graph.assoc_ranks([BEN, CYD], POSTED, [1029]) == every
        await graph.assoc_ranks([BEN], POSTED, [2000])
        assert await graph.block_scan((FIRST, 0, 0, 0), 100) == made

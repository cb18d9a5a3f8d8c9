"""Several stores as one: who keeps what, and what becomes of an inverse when its store is away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from shoal.core.errors import Unavailable
from shoal.core.events import InverseOp, InverseOwed, PostCreated
from shoal.core.ids import shard_of
from shoal.core.model import Member
from shoal.core.placement import DATA_SOURCES, source_of
from shoal.graph.contract import Assoc, Batch, Job
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, LIKED_BY, LIKES, POSTED, Key
from shoal.graph.sharded import ShardedGraph, parse_shard_map
from tests.running import in_loop
from tests.stores import ANN, BEN, CYD, POST_OF_BEN, Backend, add, all_links, begin, broken_promises, end, id_on, moment

HALVES = [0] * 32 + [1] * 32
ANNS, BENS = shard_of(ANN), shard_of(BEN)


class Fragile(MemoryGraph):
    """A store that can be taken away, and knows how often it was asked to commit."""

    def __init__(self, index: int, owners: Sequence[int]) -> None:
        super().__init__(lambda shard: owners[source_of(shard)] == index)
        self.down = False
        self.commits = 0

    async def commit_owing(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        self._reached()
        self.commits += 1
        return await super().commit_owing(batch)

    async def claim(self, limit: int, lease: float) -> list[Job]:
        self._reached()
        return await super().claim(limit, lease)

    def _reached(self) -> None:
        if self.down:
            raise Unavailable("the store is away")


def two_stores() -> tuple[ShardedGraph, Fragile, Fragile]:
    """Ann lives in the first store, Ben and Cyd in the second."""
    one, two = Fragile(0, HALVES), Fragile(1, HALVES)
    return ShardedGraph([one, two], HALVES), one, two


async def settle_what_is_owed(graph: ShardedGraph) -> list[InverseOp]:
    """What a worker does with the events."""
    jobs = await graph.claim(10, 60)
    owed = [job.event.op for job in jobs if isinstance(job.event, InverseOwed)]
    await graph.settle(owed)
    await graph.ack(jobs)
    return owed


# Who keeps what


@in_loop
async def test_everything_is_kept_by_the_store_of_its_shard() -> None:
    graph, one, two = two_stores()
    async with_members(graph)
    assert [set(await store.obj_get([ANN, BEN, CYD])) for store in (one, two)] == [{ANN}, {BEN, CYD}]
    assert [[row[:3] for row in await all_links(store)] for store in (one, two)] == [
        [(ANN, FOLLOWS.number, BEN)],
        [(BEN, FOLLOWED_BY.number, ANN)],
    ]
    keys = [Key(shard_of(id_), "user_name", str(id_)) for id_ in (ANN, BEN, CYD)]
    assert [set((await store.key_get(keys)).values()) for store in (one, two)] == [{ANN}, {BEN, CYD}]
    assert await graph.key_get(keys) == dict(zip(keys, (ANN, BEN, CYD), strict=True))

"""Consequences of a post are cheap without listeners, mentions and watchers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from shoal import Shoal
from shoal.app.network import open_network
from shoal.core.model import Post
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.contract import Batch
from shoal.graph.memory import MemoryGraph
from shoal.graph.sqlite import SqliteGraph
from shoal.search.contract import IndexChange, Making
from shoal.search.indexing import AT_ONCE, Filler
from shoal.search.memory import MemoryIndex, NoIndex
from shoal.settings import Settings
from tests.async_runner import TurnClock, in_loop, run

READS = ("obj_get", "assoc_get", "assoc_range", "assoc_ranges", "assoc_count", "key_get")


@in_loop
async def test_outbox_consumers_of_posts_without_recipients_read_posts_in_one_batch(tmp_path: Path) -> None:
    settings = Settings(store=f"sqlite:///{tmp_path}/shoal.db", media="memory://")
    # No background task runs during the count.
    async with open_network(settings, background=False) as network:
        shoal = Shoal(network)
        ann = await shoal.register("ann")
        # After this post the followers of the author and the tags are cached.
        await ann.create("the first #sea #tide")
        await shoal.settle()
        for n in range(40):
            await ann.create(f"{n} #sea #tide")
        read: Counter[str] = Counter()
        posts: list[int] = []

        def counting(name: str) -> Any:
            method = getattr(SqliteGraph, name)

            async def count(store: SqliteGraph, *args: Any, **more: Any) -> Any:
                read[name] += 1
                if name == "obj_get":
                    posts.append(len(args[0]))
                return await method(store, *args, **more)

            return count

        # Clear the cache of the posts, to simulate a worker in another process.
        cast("CachedGraph", network.reads.graph).memories["objects"].clear()
        with patch.multiple(SqliteGraph, **{name: counting(name) for name in READS}):
            while await shoal.network.runner.run_once():
                pass
            await shoal.network.search.close()
        assert sum(posts) == 40, read
        assert read.keys() <= {"obj_get", "assoc_count"}, read
        # The watchers of the author are read again after each commit of the author, and then cached.
        assert read.total() <= 6


class Writes(MemoryIndex):
    """Record the size of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    async def write(self, change: IndexChange | Making) -> None:
        made = change if isinstance(change, IndexChange) else change()
        self.sizes.append(len(made.posts))
        await super().write(made)


class HeldWrites(Writes):
    """An index whose writes wait for a semaphore."""

    def __init__(self) -> None:
        super().__init__()
        self.let = asyncio.Semaphore(0)

    async def write(self, change: IndexChange | Making) -> None:
        await self.let.acquire()
        await super().write(change)


async def _posts(graph: MemoryGraph, ids: Sequence[int]) -> None:
    for id_ in ids:
        batch = Batch(0)
        batch.obj_add(Post(id=id_, author_id=1, text="tide"))
        await graph.commit(batch)


def test_search_indexer_batches_writes_under_load_and_writes_immediately_when_idle() -> None:
    # The pause between writes must not end before all requests are made, however slow the machine is.
    run(_check_batches(), TurnClock)


async def _check_batches() -> None:
    graph, index = MemoryGraph(), Writes()
    filler = Filler(index)
    ids = [n << 20 for n in range(1, 2 * AT_ONCE)]
    await _posts(graph, ids)
    await filler.look(graph, ids[:1])
    await filler.look(graph, ids[1:2])
    assert index.sizes == [1, 1]
    await filler.look(graph, ids[:100])
    waits = []
    for id_ in ids[100:200]:
        waits.append(filler.look(graph, (id_,)))
        await asyncio.sleep(0)
    await asyncio.gather(*waits)
    assert index.sizes == [1, 1, 100, 100]
    # A full batch is written immediately, and so are pending writes on close.
    await filler.look(graph, ids[:AT_ONCE])
    await filler.close()
    assert index.sizes[4:] == [AT_ONCE]


@in_loop
async def test_search_indexer_completes_first_batch_first_and_reports_lag_of_oldest() -> None:
    graph, index = MemoryGraph(), HeldWrites()
    filler = Filler(index)
    ids = [n << 20 for n in range(1, 2 * AT_ONCE)]
    await _posts(graph, ids)
    assert filler.behind() == 0
    first = filler.look(graph, ids[:AT_ONCE])
    rest = filler.look(graph, ids[AT_ONCE:])
    await asyncio.sleep(0.01)
    assert filler.behind() >= 0.01
    index.let.release()
    await first
    assert index.sizes == [AT_ONCE]
    assert not rest.done()
    index.let.release()
    await rest
    assert index.sizes == [AT_ONCE, AT_ONCE - 1]
    await filler.close()
    assert filler.behind() == 0


@in_loop
async def test_search_indexer_throttles_continuous_small_writes_after_a_burst() -> None:
    graph, index = MemoryGraph(), Writes()
    filler = Filler(index)
    ids = [n << 20 for n in range(1, 400)]
    await _posts(graph, ids)
    began = asyncio.get_running_loop().time()
    waits = []
    for id_ in ids:
        waits.append(filler.look(graph, (id_,)))
        # Yield, so that one write can run in between.
        for _ in range(10):
            await asyncio.sleep(0)
    await asyncio.gather(*waits)
    took = asyncio.get_running_loop().time() - began
    assert index.sizes[:40] == [1] * 40
    assert len(index.sizes) <= 60 + 20 * took
    assert sum(index.sizes) >= len(ids)


@in_loop
async def test_search_indexer_without_index_completes_immediately() -> None:
    filler = Filler(NoIndex())
    for id_ in range(1, 400):
        done = filler.look(MemoryGraph(), (id_,))
        for _ in range(5):
            await asyncio.sleep(0)
        assert done.done()

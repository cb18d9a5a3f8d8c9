"""A graph made of graphs: it routes by the shard in the id, asks the stores side by side, and merges.

A batch is committed on the store of the acting shard. Inverses that belong to another store are recorded there as owed, in
the same commit; then they are applied at once, and acknowledged. When that fails - the other store is down, this process
dies - the outbox has them still, and `settle` applies them later. They keep their times, so twice does no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from shoal.core.errors import Unavailable
from shoal.core.events import InverseOp
from shoal.core.ids import shard_of
from shoal.core.placement import DATA_SOURCES, source_of
from shoal.graph.contract import (
    MAX_TIME,
    Assoc,
    AssocOp,
    AssocRow,
    Batch,
    Job,
    ObjOp,
    Store,
    WakeUp,
)
from shoal.graph.schema import AnyNode, AssocType, Key

T = TypeVar("T")
Lists = dict[AssocType, dict[int, T]]

_log = logging.getLogger(__name__)


def parse_shard_map(ranges: Mapping[str, str]) -> dict[int, str]:
    """`{"0-31": url, "32-63": url}` as the URL of each of the 64 data sources; each must be named exactly once."""
    owners: dict[int, str] = {}
    for text, url in ranges.items():
        first, _, last = text.partition("-")
        if not (first.isdigit() and (last or first).isdigit() and int(first) <= int(last or first)):
            raise ValueError(f"shard map: {text!r} is not a range of data sources such as 0-31")
        for source in range(int(first), int(last or first) + 1):
            if source >= DATA_SOURCES or source in owners:
                raise ValueError(f"shard map: data source {source} is named twice or is past {DATA_SOURCES - 1}")
            owners[source] = url
    missing = sorted(set(range(DATA_SOURCES)) - set(owners))
    if missing:
        raise ValueError(f"shard map: no store for data source {missing[0]}")
    return owners


class ShardedGraph:
    """Several stores as one. `owners[source]` is the index in `stores` of the store that keeps a data source."""

    def __init__(self, stores: Sequence[Store], owners: Sequence[int]) -> None:
        if len(owners) != DATA_SOURCES:
            raise ValueError(f"a shard map names {DATA_SOURCES} data sources, not {len(owners)}")
        self._stores = list(stores)
        self._owners = list(owners)
        self._turn = 0

    def _at(self, shard: int) -> int:
        return self._owners[source_of(shard)]

    def _split(self, ids: Sequence[int]) -> dict[int, list[int]]:
        parts: dict[int, list[int]] = {}
        for id_ in ids:
            parts.setdefault(self._at(shard_of(id_)), []).append(id_)
        return parts

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        parts = self._split(ids)
        answers = await _side_by_side(self._stores[at].obj_get(part) for at, part in parts.items())
        return {id_: node for answer in answers for id_, node in answer.items()}

    async def key_get(self, keys: Sequence[Key]) -> dict[Key, int]:
        parts: dict[int, list[Key]] = {}
        for key in keys:
            parts.setdefault(self._at(key.shard), []).append(key)
        answers = await _side_by_side(self._stores[at].key_get(part) for at, part in parts.items())
        return {key: id_ for answer in answers for key, id_ in answer.items()}

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        return await self._stores[self._at(shard_of(id1))].assoc_get(id1, atypes, id2s)

    async def assoc_range(
        self,
        id1: int,
        atype: AssocType,
        *,
        before: int = MAX_TIME,
        after: int = -1,
        limit: int,
        oldest_first: bool = False,
    ) -> list[Assoc]:
        store = self._stores[self._at(shard_of(id1))]
        return await store.assoc_range(id1, atype, before=before, after=after, limit=limit, oldest_first=oldest_first)

    async def assoc_ranges(
        self,
        id1s: Sequence[int],
        atype: AssocType,
        *,
        before: int = MAX_TIME,
        after: int = -1,
        limit: int,
        oldest_first: bool = False,
    ) -> dict[int, list[Assoc]]:
        answers = await _side_by_side(
            self._stores[at].assoc_ranges(
                part, atype, before=before, after=after, limit=limit, oldest_first=oldest_first
            )
            for at, part in self._split(id1s).items()
        )
        return {id1: page for answer in answers for id1, page in answer.items()}

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        answers = await _side_by_side(
            self._stores[at].assoc_count(part, atypes) for at, part in self._split(id1s).items()
        )
        merged: dict[AssocType, dict[int, int]] = {atype: {} for atype in atypes}
        for answer in answers:
            for atype, counts in answer.items():
                merged[atype].update(counts)
        return merged

    async def commit(self, batch: Batch) -> None:
        await self.commit_owing(batch)

    async def commit_owing(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        """Commit on the acting store, then apply at once what is owed to others. Nothing is left for the caller to do."""
        at = self._at(batch.shard)
        self._refuse_strays(batch, at)
        owed = await self._stores[at].commit_owing(batch)
        for target, jobs in self._by_target(owed).items():
            try:
                await self.settle([op for _, op in jobs])
            except Unavailable:
                _log.warning("a store cannot be reached; %d inverses stay owed to store %d", len(jobs), target)
            else:
                await self._stores[at].ack([job for job, _ in jobs])
        return []

    def _by_target(self, owed: Sequence[tuple[Job, InverseOp]]) -> dict[int, list[tuple[Job, InverseOp]]]:
        parts: dict[int, list[tuple[Job, InverseOp]]] = {}
        for job, op in owed:
            parts.setdefault(self._at(shard_of(op.id1)), []).append((job, op))
        return parts

    async def settle(self, ops: Sequence[InverseOp]) -> None:
        """Apply inverses where they belong, as they stand."""
        parts: dict[int, Batch] = {}
        for op in ops:
            shard = shard_of(op.id1)
            parts.setdefault(self._at(shard), Batch(shard)).put(AssocOp(*op, plain=True))
        await _side_by_side(self._stores[at].commit(batch) for at, batch in parts.items())

    def _refuse_strays(self, batch: Batch, at: int) -> None:
        """Objects, keys and lists of another store cannot commit with this one: that would be a mistake of ours."""
        objects: list[ObjOp] = batch.objects
        shards = [shard_of(op.id) for op in objects] + [op.key.shard for op in batch.keys]
        shards += [shard_of(op.id1) for op in batch.assocs]
        if any(self._at(shard) != at for shard in shards):
            raise ValueError("a batch names something that belongs to another store than its acting shard")

    async def claim(self, limit: int, lease: float) -> list[Job]:
        """A fair share of each store, another one first each time. A store that is down holds up none of the others."""
        jobs: list[Job] = []
        stores = len(self._stores)
        self._turn = (self._turn + 1) % stores
        for asked in range(stores):
            at = (self._turn + asked) % stores
            share = -(-(limit - len(jobs)) // (stores - asked))
            try:
                jobs += [job._replace(store=at) for job in await self._stores[at].claim(share, lease)]
            except Unavailable:
                _log.warning("store %d cannot be reached; its events wait", at)
        return jobs

    async def ack(self, jobs: Sequence[Job]) -> None:
        for at, store in enumerate(self._stores):
            mine = [job for job in jobs if job.store == at]
            if mine:
                await store.ack(mine)

    async def put_back(self, job: Job, delay: float = 0.0) -> None:
        await self._stores[job.store].put_back(job, delay)

    async def bury(self, job: Job, error: str) -> None:
        await self._stores[job.store].bury(job, error)

    async def backlog(self) -> int:
        return sum([await store.backlog() for store in self._stores])

    async def buried(self) -> list[tuple[Job, str]]:
        return [
            (job._replace(store=at), error)
            for at, store in enumerate(self._stores)
            for job, error in await store.buried()
        ]

    def on_event(self, wake: WakeUp) -> None:
        for store in self._stores:
            store.on_event(wake)

    async def obj_scan(self, after: int, limit: int) -> list[AnyNode]:
        return await self._merged(lambda store: store.obj_scan(after, limit), lambda node: node.id, limit)

    async def assoc_scan(self, after: tuple[int, int, int], limit: int) -> list[AssocRow]:
        return await self._merged(lambda store: store.assoc_scan(after, limit), lambda row: row[:3], limit)

    async def count_scan(self, after: tuple[int, int], limit: int) -> list[tuple[int, int, int]]:
        return await self._merged(lambda store: store.count_scan(after, limit), lambda row: row[:2], limit)

    async def _merged(
        self, scan: Callable[[Store], Awaitable[list[T]]], order: Callable[[T], int | tuple[int, ...]], limit: int
    ) -> list[T]:
        pages = await _side_by_side(scan(store) for store in self._stores)
        return sorted((row for page in pages for row in page), key=order)[:limit]

    async def count_set(self, id1: int, atype: int, n: int) -> None:
        await self._stores[self._at(shard_of(id1))].count_set(id1, atype, n)

    async def sweep(self, before: int, now: int) -> int:
        return sum(await _side_by_side(store.sweep(before, now) for store in self._stores))

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


async def _side_by_side(questions: Iterable[Awaitable[T]]) -> list[T]:
    """All answers, asked at once; one store alone is simply asked."""
    awaitables = list(questions)
    if len(awaitables) == 1:
        return [await awaitables[0]]
    return list(await asyncio.gather(*awaitables))

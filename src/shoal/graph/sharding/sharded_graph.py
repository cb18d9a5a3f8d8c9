"""A graph over several stores: routes by the shard in the id, queries stores concurrently, and merges.

A batch commits on the store of the acting shard, which also records inverses that belong to other stores as pending. They are then
applied on these stores and acknowledged. After a failure they are still in the outbox, and `settle` applies them later. They keep
their times, so applying them twice is harmless. The same holds for an entry of a public list that is in another part of the data
source. Requests that reach a shard during a move are retried with the new map. Rows of shards that a store does not own are never
read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.events import InverseOp
from shoal.core.ids import shard_of
from shoal.core.placement import SHARDS, source_of
from shoal.graph.bulk import KeyRow, Loading, LoadPart, Movable, Rows, Spread, Spreading
from shoal.graph.contract import (
    Assoc,
    AssocOp,
    AssocRow,
    Batch,
    BlockRow,
    Cursor,
    Frozen,
    Job,
    Joining,
    LogSource,
    Missing,
    ObjOp,
    PendingInverses,
    Store,
    WakeUp,
)
from shoal.graph.schema import ASSOC_TYPES, AnyNode, AssocType, Key
from shoal.graph.shard_map import round_seconds
from shoal.throttled_log import ThrottledLog

T = TypeVar("T")
R = TypeVar("R")


async def side_by_side(questions: Iterable[Awaitable[T]]) -> list[T]:
    """Await all awaitables concurrently and return their results; a single one is awaited without a task."""
    awaitables = list(questions)
    if len(awaitables) == 1:
        return [await awaitables[0]]
    return list(await asyncio.gather(*awaitables))


class Watch(Protocol):
    """Reports whether the shard map is still valid for a store, given by its index."""

    def fresh(self, store: int) -> bool:
        """Return whether the store confirmed the map recently."""

    async def renew(self, store: int) -> None:
        """Wait until the store confirms that the current shard map is valid. Raises `Unavailable`."""


_SWITCH_SECONDS = 4.5
"""How long to retry during a switch, which takes a fraction of a second. If the mover dies, the shards are frozen for 3 s."""
_AGAIN_SECONDS = 0.02
_LEAST_PAGE = 50
"""Minimum number of rows that a scan reads from each store at once."""


class ShardedGraph:
    """Several stores as one. `owners[shard]` is the index in `stores` of the store that keeps a logical shard.

    If `owners` is a list, `remap` changes it in place, so that stores that read the list see the change at once.
    """

    def __init__(self, stores: Sequence[Store], owners: Sequence[int]) -> None:
        if len(owners) != SHARDS:
            raise ValueError(f"a shard map must have {SHARDS} shards (got {len(owners)})")
        self._stores = list(stores)
        self._owners = owners if isinstance(owners, list) else list(owners)
        self._version = 0
        self._first = 0
        self._outage = ThrottledLog(logging.getLogger(__name__))
        self._wake: WakeUp | None = None
        # The stores that reported new events since they were last polled, by index. If there are none, all stores are polled.
        self._woken: set[int] = set()
        self._next_round = 0.0
        self.watch: Watch | None = None
        """Asked before every read or write, if the map may change."""

    @property
    def stores(self) -> Sequence[Store]:
        return self._stores

    def remap(self, stores: Sequence[Store], owners: Sequence[int]) -> None:
        """Replace the shard map. Existing stores keep their indexes; new ones are appended."""
        for store in stores:
            if self._wake is not None and store not in self._stores:
                store.on_event(partial(self._notice, stores.index(store)))
        self._stores = list(stores)
        self._owners[:] = owners
        self._version += 1

    def _at(self, shard: int) -> int:
        return self._owners[shard]

    @property
    def joins(self) -> bool:
        return all(isinstance(store, Joining) and store.joins for store in self._stores)

    def counted_with(self, atypes: Sequence[AssocType]) -> Sequence[AssocType]:
        store = self._stores[0]
        return store.counted_with(atypes) if isinstance(store, Joining) else atypes

    async def _store(self, shard: int) -> Store:
        at = self._at(shard)
        while self.watch is not None and not self.watch.fresh(at):
            await self.watch.renew(at)
            at = self._at(shard)
        return self._stores[at]

    async def _split(self, things: Sequence[T], shard: Callable[[T], int]) -> list[tuple[Store, list[T]]]:
        while True:
            parts: dict[int, list[T]] = {}
            for thing in things:
                parts.setdefault(self._at(shard(thing)), []).append(thing)
            if not await self._renewed(parts):
                return [(self._stores[at], part) for at, part in parts.items()]

    async def _renewed(self, stores: Iterable[int]) -> bool:
        """Return whether one of these stores had to confirm the shard map again, which may have changed it."""
        watch = self.watch
        if watch is None or not (stale := [at for at in stores if not watch.fresh(at)]):
            return False
        await side_by_side(watch.renew(at) for at in stale)
        return True

    async def _confirm_map(self) -> None:
        while await self._renewed(range(len(self._stores))):
            pass

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        parts = await self._split(ids, shard_of)
        answers = await side_by_side(store.obj_get(part) for store, part in parts)
        return {id_: node for answer in answers for id_, node in answer.items()}

    async def key_get(self, keys: Sequence[Key]) -> dict[Key, int]:
        parts = await self._split(keys, lambda key: key.shard)
        answers = await side_by_side(store.key_get(part) for store, part in parts)
        return {key: id_ for answer in answers for key, id_ in answer.items()}

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        return await (await self._store(shard_of(id1))).assoc_get(id1, atypes, id2s)

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        return await (await self._store(shard_of(id1))).assoc_range(id1, atype, at)

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:
        parts = await self._split(id1s, shard_of)
        answers = await side_by_side(store.assoc_ranges(part, atype, at) for store, part in parts)
        return {id1: page for answer in answers for id1, page in answer.items()}

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        parts = await self._split(id1s, shard_of)
        answers = await side_by_side(store.assoc_count(part, atypes) for store, part in parts)
        merged: dict[AssocType, dict[int, int]] = {atype: {} for atype in atypes}
        for answer in answers:
            for atype, counts in answer.items():
                merged[atype].update(counts)
        return merged

    async def assoc_ranks(self, id1s: Sequence[int], atype: AssocType, times: Sequence[int]) -> dict[int, list[int]]:
        parts = await self._split(id1s, shard_of)
        answers = await side_by_side(store.assoc_ranks(part, atype, times) for store, part in parts)
        return {id1: ranks for answer in answers for id1, ranks in answer.items()}

    async def assoc_ended(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        return await (await self._store(shard_of(id1))).assoc_ended(id1, atypes, id2s)

    async def assoc_ended_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        return await (await self._store(shard_of(id1))).assoc_ended_range(id1, atype, at)

    async def commit(self, batch: Batch) -> None:
        await self.commit_owing(batch)

    async def commit_owing(self, batch: Batch) -> PendingInverses:
        """Commit on the acting store, then apply inverses on other stores.

        Returns an empty list: no inverse is left to the caller.
        """
        store, pending_inverses = await self._patiently(lambda: self._commit(batch))
        by_target: dict[int, PendingInverses] = {}
        for job, op in pending_inverses:
            by_target.setdefault(self._at(shard_of(op.id1)), []).append((job, op))
        for target, jobs in by_target.items():
            try:
                await self.settle([op for _, op in jobs], batch.expects, new=batch.presumed_new)
                await store.ack([job for job, _ in jobs])
            except Missing:
                # The object at the other end was deleted concurrently: the job of the pending inverse deletes the association.
                continue
            except Unavailable:
                # The batch is committed on the acting store, and the outbox of that store still has the inverses.
                self._outage.warning(
                    "%d inverse associations are pending for store %d, which is unreachable",
                    len(jobs),
                    target,
                    name=target,
                )
        return []

    async def _commit(self, batch: Batch) -> tuple[Store, PendingInverses]:
        store = await self._store(batch.shard)
        self._refuse_strays(batch)
        return store, await store.commit_owing(batch)

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SWITCH_SECONDS
        while True:
            version = self._version
            try:
                return await attempt()
            except Frozen:
                if loop.time() > deadline:
                    raise
            except Missing:
                # If the map changed during the attempt, the object may exist in another store: retry.
                if version == self._version:
                    raise
            await asyncio.sleep(_AGAIN_SECONDS)

    async def settle(self, ops: Sequence[InverseOp], expected: Collection[int] = (), *, new: bool = False) -> None:
        """Apply inverses on their stores, with their times unchanged. If `new`, most likely none of them is stored yet.

        Raises `Missing` if an inverse starts at one of the `expected` objects, and that object does not exist.
        """
        await self._patiently(lambda: self._settle(ops, expected, new=new))

    async def _settle(self, ops: Sequence[InverseOp], expected: Collection[int], *, new: bool) -> None:
        batches: list[tuple[Store, Batch]] = []
        for store, part in await self._split(ops, lambda op: shard_of(op.id1)):
            batch = Batch(shard_of(part[0].id1))
            batch.presumed_new = new
            for op in part:
                batch.put(AssocOp(*op, plain=True))
                if op.id1 in expected:
                    batch.expect(op.id1)
            batches.append((store, batch))
        await side_by_side(store.commit(batch) for store, batch in batches)

    def _refuse_strays(self, batch: Batch) -> None:
        """Raise `ValueError` for objects, keys or lists in another store than that of the acting shard, which would be a bug.

        Public lists and other lists whose type has no inverse may be on another shard of the same data source.
        """
        at = self._at(batch.shard)
        objects: list[ObjOp] = batch.objects
        shards = [shard_of(op.id) for op in objects] + [op.key.shard for op in batch.keys]
        source = source_of(batch.shard)
        shards += [
            shard
            for op in batch.assocs
            if source_of(shard := shard_of(op.id1)) != source or ASSOC_TYPES[op.atype].inverse
        ]
        if any(self._at(shard) != at for shard in shards):
            raise ValueError("all objects, keys and lists of a batch must be in the store of its acting shard")

    async def claim(self, limit: int, lease: float) -> list[Job]:
        """Claim an equal number of jobs from each store that reported events, and regularly from all stores.

        All stores are asked because a store does not report events of other processes. An unreachable store delays no other.
        """
        jobs: list[Job] = []
        self._first = (self._first + 1) % len(self._stores)
        rest = [*range(self._first, len(self._stores)), *range(self._first)]
        now = asyncio.get_running_loop().time()
        if self._woken and now < self._next_round:
            rest = [at for at in rest if at in self._woken]
        else:
            self._next_round = now + round_seconds(len(self._stores))
        self._woken.difference_update(rest)
        while rest and len(jobs) < limit:
            at_once, rest = rest[: limit - len(jobs)], rest[limit - len(jobs) :]
            share = (limit - len(jobs)) // len(at_once)
            for at, claimed in zip(
                at_once, await side_by_side(self._claim(at, share, lease) for at in at_once), strict=True
            ):
                jobs += claimed
                if len(claimed) == share:
                    rest.append(at)
        for at in rest:
            self._notice(at)  # it may have more jobs
        return jobs

    async def _claim(self, at: int, limit: int, lease: float) -> list[Job]:
        try:
            return [job._replace(store=at) for job in await self._stores[at].claim(limit, lease)]
        except Unavailable:
            self._outage.warning("store %d is unreachable; its events stay pending", at, name=at)
            return []

    async def ack(self, jobs: Sequence[Job]) -> None:
        for store, mine in self._jobs_by_store(jobs):
            await store.ack(mine)

    async def put_back(self, job: Job, delay: float = 0.0) -> None:
        await self._stores[job.store].put_back(job, delay)

    async def park(self, job: Job, error: str) -> None:
        await self._stores[job.store].park(job, error)

    async def backlog(self) -> int:
        return sum(await side_by_side(store.backlog() for store in self._stores))

    async def lag(self) -> float:
        return max(await side_by_side(store.lag() for store in self._stores))

    async def parked(self) -> list[tuple[Job, str]]:
        return [
            (job._replace(store=at), error)
            for at, store in enumerate(self._stores)
            for job, error in await store.parked()
        ]

    async def unpark(self, jobs: Sequence[Job]) -> int:
        return sum([await store.unpark(mine) for store, mine in self._jobs_by_store(jobs)])

    def _jobs_by_store(self, jobs: Sequence[Job]) -> list[tuple[Store, list[Job]]]:
        parts = [(store, [job for job in jobs if job.store == at]) for at, store in enumerate(self._stores)]
        return [(store, mine) for store, mine in parts if mine]

    def on_event(self, wake: WakeUp) -> None:
        self._wake = wake
        for at, store in enumerate(self._stores):
            store.on_event(partial(self._notice, at))

    def _notice(self, at: int) -> None:
        if self._wake is not None:
            self._woken.add(at)
            self._wake()

    async def obj_scan(self, after: int, limit: int) -> list[AnyNode]:
        return await self._merged(
            lambda store, *page: store.obj_scan(*page),
            after,
            limit,
            lambda node: node.id,
            lambda node: shard_of(node.id),
        )

    async def assoc_scan(self, after: tuple[int, int, int], limit: int) -> list[AssocRow]:
        return await self._merged(
            lambda store, *page: store.assoc_scan(*page),
            after,
            limit,
            lambda row: row[:3],
            lambda row: shard_of(row.id1),
        )

    async def count_scan(self, after: tuple[int, int], limit: int) -> list[tuple[int, int, int]]:
        return await self._merged(
            lambda store, *page: store.count_scan(*page),
            after,
            limit,
            lambda row: row[:2],
            lambda row: shard_of(row[0]),
        )

    async def block_scan(self, after: tuple[int, int, int, int], limit: int) -> list[BlockRow]:
        return await self._merged(
            lambda store, *page: store.block_scan(*page),
            after,
            limit,
            lambda row: row[:4],
            lambda row: shard_of(row.id1),
        )

    async def key_scan(self, after: tuple[str, str], limit: int) -> list[KeyRow]:
        return await self._merged(
            lambda store, *page: _movable(store).key_scan(*page),
            after,
            limit,
            lambda row: row[:2],
            lambda row: row.shard,
        )

    async def _merged(
        self,
        scan: Callable[[Store, T, int], Awaitable[list[R]]],
        after: T,
        limit: int,
        order: Callable[[R], T],
        shard: Callable[[R], int],
    ) -> list[R]:
        """Merge scans of all stores until `limit` rows are found. Rows of data sources that a store no longer owns are dropped."""
        merged: list[R] = []
        while len(merged) < limit:
            await self._confirm_map()
            stores, version = self._stores, self._version
            # Rows that sort after `min(ends)` are dropped, and read again by the next pass of the loop. Small pages limit their
            # number.
            each = max(limit // len(stores), min(limit, _LEAST_PAGE))
            pages = await side_by_side(scan(store, after, each) for store in stores)
            # If the process was suspended during the reads, rows may have moved without its knowledge.
            await self._confirm_map()
            if version != self._version:
                continue
            ends: list[Any] = [order(page[-1]) for page in pages if len(page) == each]
            own: list[tuple[Any, R]] = [
                (order(row), row) for at, page in enumerate(pages) for row in page if self._at(shard(row)) == at
            ]
            # After `min(ends)`, the store whose full page ends there may have further rows, which were not read yet.
            merged += [row for at, row in sorted(own, key=itemgetter(0)) if not ends or at <= min(ends)]
            if not ends:
                break
            after = min(ends)
        return merged[:limit]

    async def put_rows(self, rows: Rows) -> None:
        """Store rows, atomically within each store."""
        await side_by_side(store.put_rows(part) for store, part in self._by_store(rows))

    async def remove_rows(self, rows: Rows) -> None:
        """Delete rows, atomically within each store."""
        await side_by_side(store.remove_rows(part) for store, part in self._by_store(rows))

    @property
    def loads(self) -> bool:
        return all(isinstance(store, Loading) and store.loads for store in self._stores)

    def store_of(self, shard: int) -> int:
        return self._at(shard)

    async def load(self, part: LoadPart) -> None:
        """Store a chunk of an import. Each store stores either all rows of the chunk that belong to it, or none (see `Loading`)."""
        parts = part.by_store(np.array(self._owners))
        loads = [cast("Loading", self._stores[at]).load(share) for at, share in parts.items()]
        for error in filter(None, await asyncio.gather(*loads, return_exceptions=True)):
            raise error

    def _by_store(self, rows: Rows) -> list[tuple[Movable, Rows]]:
        return [(_movable(self._stores[at]), part) for at, part in rows.by_store(self._at).items()]

    async def spread(self) -> dict[int, Spread]:
        """Return the size of each shard in the store that keeps it. Raises `InvalidInput` if a store cannot report sizes."""
        if not all(isinstance(store, Spreading) for store in self._stores):
            raise InvalidInput("this kind of store does not report its sizes")
        answers = await side_by_side(store.spread() for store in self._stores if isinstance(store, Spreading))
        return {
            shard: spread
            for at, answer in enumerate(answers)
            for shard, spread in answer.items()
            if self._owners[shard] == at
        }

    async def count_set(self, id1: int, atype: int, n: int) -> None:
        await self._patiently(lambda: self._count_set(id1, atype, n))

    async def _count_set(self, id1: int, atype: int, n: int) -> None:
        await (await self._store(shard_of(id1))).count_set(id1, atype, n)

    async def block_drop(self, id1: int, atype: int) -> None:
        await (await self._store(shard_of(id1))).block_drop(id1, atype)

    async def sweep(self, before: int, now: int) -> int:
        return sum(await side_by_side(store.sweep(before, now) for store in self._stores))

    async def sweep_history(self, before: int) -> int:
        return sum(await side_by_side(store.sweep_history(before) for store in self._stores))

    @property
    def log_sources(self) -> Sequence[LogSource]:
        return [source for store in self._stores for source in store.log_sources]

    async def close(self) -> None:
        await side_by_side(store.close() for store in self._stores)


def _movable(store: Store) -> Movable:
    if not isinstance(store, Movable):
        raise InvalidInput("this kind of store does not support moving a network")
    return store

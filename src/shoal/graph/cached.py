"""A graph with a memory, as long as every write comes this way.

Reads that are answered from memory cost no round trip. Objects stay decoded; counts are kept, and short lists whole. A commit
forgets what it may change, before and after it is durable, and a read that a commit overtook is not remembered. Another
process that writes to the same store would not be noticed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from shoal.core.events import InverseOp
from shoal.core.model import Post
from shoal.graph.contract import MAX_TIME, Assoc, Batch, Job, Store
from shoal.graph.schema import ASSOC_TYPES, AnyNode, AssocType

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


_SHORT = 256
"""A list of at most so many associations is remembered whole."""


class Recent(Generic[K, V]):
    """A bounded memory of what was used last, in two generations: about `size` entries, never more than twice as many."""

    __slots__ = ("_filled", "_old", "_size", "_weights", "_young")

    def __init__(self, size: int) -> None:
        self._size = max(1, size // 2)
        self._filled = 0
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        # Of what weighs more than 1.
        self._weights: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: K) -> V | None:
        """What is remembered, or None."""
        found = self._young.get(key)
        if found is None and (found := self._old.pop(key, None)) is not None:
            self.put(key, found, self._weights.get(key, 1))
        return found

    def put(self, key: K, value: V, weight: int = 1) -> None:
        """Remember; what has not been used for a generation is forgotten. `weight`: how many entries this one counts for."""
        if self._filled >= self._size:
            self._old, self._young, self._filled = self._young, {}, 0
            self._weights = {kept: weight_ for kept, weight_ in self._weights.items() if kept in self._old}
        if weight > 1:
            self._weights[key] = weight
        self._young[key] = value
        self._filled += weight

    def forget(self, key: K) -> None:
        """Forget one."""
        self._young.pop(key, None)
        self._old.pop(key, None)


class CachedGraph:
    """A store behind memories of about `objects` kilobytes of objects, four times as many associations in short
    lists (250 bytes each), and the counts of twice as many objects (300 bytes each)."""

    def __init__(self, store: Store, objects: int = 200_000) -> None:
        self._store = store
        self._objects: Recent[int, AnyNode] = Recent(objects)
        self._counts: Recent[int, dict[int, int]] = Recent(2 * objects)
        self._lists: Recent[tuple[int, int], dict[int, Assoc]] = Recent(4 * objects)
        self._commits = 0
        # Objects that commits under way change: what is read of them may be older than an event that is out already.
        self._changing: Counter[int] = Counter()
        self.key_get = store.key_get
        self.assoc_ranges = store.assoc_ranges
        self.claim = store.claim
        self.ack = store.ack
        self.put_back = store.put_back
        self.bury = store.bury
        self.backlog = store.backlog
        self.buried = store.buried
        self.on_event = store.on_event
        self.obj_scan = store.obj_scan
        self.assoc_scan = store.assoc_scan
        self.count_scan = store.count_scan
        self.sweep = store.sweep
        self._under_way: set[asyncio.Future[Any]] = set()

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        recall = self._objects.get
        known = {id_: node for id_ in ids if (node := recall(id_)) is not None}
        missing = [id_ for id_ in ids if id_ not in known]
        if missing:
            commits = self._commits
            found = await self._store.obj_get(missing)
            known.update(found)
            if commits == self._commits:
                for id_, node in found.items():
                    if id_ not in self._changing:
                        self._objects.put(id_, node, _kilobytes(node))
        return known

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        answer: dict[AssocType, dict[int, int]] = {atype: {} for atype in atypes}
        numbered = [(atype.number, answer[atype]) for atype in atypes]
        missing: list[int] = []
        recall = self._counts.get
        for id1 in id1s:
            held = recall(id1)
            if held is None:
                missing.append(id1)
                continue
            for number, counts in numbered:
                n = held.get(number)
                if n:
                    counts[id1] = n
                elif n is None:
                    missing.append(id1)
                    break
        if missing:
            await self._count(missing, atypes, answer)
        return answer

    async def _count(
        self, id1s: Sequence[int], atypes: Sequence[AssocType], answer: dict[AssocType, dict[int, int]]
    ) -> None:
        commits = self._commits
        found = await self._store.assoc_count(id1s, atypes)
        for atype, counts in found.items():
            answer[atype].update(counts)
        if commits != self._commits:
            return
        for id1 in id1s:
            if id1 in self._changing:
                continue
            held = self._counts.get(id1) or {}
            held.update((atype.number, counts.get(id1, 0)) for atype, counts in found.items())
            self._counts.put(id1, held)

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        if not id2s:
            return {atype: {} for atype in atypes}
        answer: dict[AssocType, dict[int, Assoc]] = {}
        long: list[AssocType] = []
        # Counts first: lists that are empty (blocks and mutes, for most members) are not looked into.
        for atype, counts in (await self.assoc_count((id1,), atypes)).items():
            n = counts.get(id1, 0)
            if n > _SHORT:
                long.append(atype)
            links = await self._short_list(id1, atype) if 0 < n <= _SHORT else {}
            answer[atype] = {id2: links[id2] for id2 in id2s if id2 in links} if links else {}
        if long:
            answer.update(await self._store.assoc_get(id1, long, id2s))
        return answer

    async def _short_list(self, id1: int, atype: AssocType) -> Mapping[int, Assoc]:
        """A whole list, which costs hardly more to read than the few of it that are asked for."""
        key = (id1, atype.number)
        links = self._lists.get(key)
        if links is None:
            commits = self._commits
            page = await self._store.assoc_range(id1, atype, limit=_SHORT + 1)
            links = {assoc.id2: assoc for assoc in page}
            if commits == self._commits and id1 not in self._changing:
                self._lists.put(key, links, len(links))
        return links

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
        counts = await self.assoc_count((id1,), (atype,))
        if not counts[atype]:
            return []
        return await self._store.assoc_range(
            id1, atype, before=before, after=after, limit=limit, oldest_first=oldest_first
        )

    async def commit(self, batch: Batch) -> None:
        await self.commit_owing(batch)

    async def commit_owing(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        return await self._whatever_happens(self._commit(batch))

    async def _whatever_happens(self, work: Coroutine[Any, Any, T]) -> T:
        """In a task of its own: the store goes on when the caller is cancelled, and we must forget when it is done."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _commit(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        touched = _touched(batch)
        changing = touched.union([op.id for op in batch.objects])
        self._changing.update(changing)
        self._forget(batch, touched)
        try:
            return await self._store.commit_owing(batch)
        finally:
            self._commits += 1
            self._forget(batch, touched)
            for id_ in changing:
                self._changing[id_] -= 1
                if not self._changing[id_]:
                    del self._changing[id_]

    def _forget(self, batch: Batch, counted: Iterable[int]) -> None:
        for op in batch.objects:
            self._objects.forget(op.id)
        for id1 in counted:
            self._counts.forget(id1)
        for link in batch.assocs:
            self._lists.forget((link.id1, link.atype))
            self._lists.forget((link.id2, ASSOC_TYPES[link.atype].inverse))

    async def count_set(self, id1: int, atype: int, n: int) -> None:
        await self._whatever_happens(self._count_set(id1, atype, n))

    async def close(self) -> None:
        """What was begun is finished first."""
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._store.close()

    async def _count_set(self, id1: int, atype: int, n: int) -> None:
        try:
            await self._store.count_set(id1, atype, n)
        finally:
            self._commits += 1
            self._counts.forget(id1)


def _kilobytes(node: AnyNode) -> int:
    """About how large an object is: only posts may be much larger than others."""
    return 1 + (len(node.text) + len(node.data)) // 1024 if isinstance(node, Post) else 1


def _touched(batch: Batch) -> set[int]:
    """The objects whose counts a batch may move."""
    return {id_ for op in batch.assocs for id_ in (op.id1, op.id2, op.tally)}

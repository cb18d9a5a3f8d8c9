"""A graph with a memory: objects stay decoded and counts are kept, as long as every write comes this way.

Reads that are answered from memory cost no round trip; a list whose count is known to be 0 is not looked into. A commit
forgets what it may change, before and after it is durable, and a read that a commit overtook is not remembered. Another
process that writes to the same store would not be noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from shoal.core.events import InverseOp
from shoal.graph.contract import Assoc, Batch, Job, Store
from shoal.graph.schema import AnyNode, AssocType

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A bounded memory of what was used last, in two generations: about `size` entries, never more than twice as many."""

    __slots__ = ("_old", "_size", "_young")

    def __init__(self, size: int) -> None:
        self._size = max(1, size // 2)
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: K) -> V | None:
        """What is remembered, or None."""
        found = self._young.get(key)
        if found is None and (found := self._old.pop(key, None)) is not None:
            self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        """Remember; what has not been used for a generation is forgotten."""
        if len(self._young) >= self._size:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def forget(self, key: K) -> None:
        """Forget one."""
        self._young.pop(key, None)
        self._old.pop(key, None)


class CachedGraph:
    """A store behind memories of about `objects` objects (1 KB each) and the counts of twice as many (300 bytes each)."""

    def __init__(self, store: Store, objects: int = 200_000) -> None:
        self._store = store
        self._objects: Recent[int, AnyNode] = Recent(objects)
        self._counts: Recent[int, dict[int, int]] = Recent(2 * objects)
        self._commits = 0
        self.key_get = store.key_get
        self.assoc_range = store.assoc_range
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
        self.close = store.close

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
                    self._objects.put(id_, node)
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
            held = self._counts.get(id1) or {}
            held.update((atype.number, counts.get(id1, 0)) for atype, counts in found.items())
            self._counts.put(id1, held)

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        if not id2s:
            return {atype: {} for atype in atypes}
        # One read of counts, once, spares every later look into lists that are empty: blocks and mutes, for most members.
        counts = await self.assoc_count((id1,), atypes)
        filled = [atype for atype in atypes if counts[atype]]
        found = await self._store.assoc_get(id1, filled, id2s) if filled else {}
        return {atype: found.get(atype, {}) for atype in atypes}

    async def commit(self, batch: Batch) -> None:
        await self.commit_owing(batch)

    async def commit_owing(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        touched = _touched(batch)
        self._forget(batch, touched)
        try:
            return await self._store.commit_owing(batch)
        finally:
            self._commits += 1
            self._forget(batch, touched)

    def _forget(self, batch: Batch, counted: Iterable[int]) -> None:
        for op in batch.objects:
            self._objects.forget(op.id)
        for id1 in counted:
            self._counts.forget(id1)

    async def count_set(self, id1: int, atype: int, n: int) -> None:
        await self._store.count_set(id1, atype, n)
        self._commits += 1
        self._counts.forget(id1)


def _touched(batch: Batch) -> set[int]:
    """The objects whose counts a batch may move."""
    return {id_ for op in batch.assocs for id_ in (op.id1, op.id2, op.tally)}

"""Everything that is remembered of a graph, and what of it a commit leaves true."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from shoal.core.model import Post
from shoal.graph.cache.counts import KnownCounts
from shoal.graph.cache.heads import ListHead
from shoal.graph.cache.recent import ByType, Recent
from shoal.graph.cache.sets import ListSet, NewestSets
from shoal.graph.contract import Assoc, Batch
from shoal.graph.schema import AnyNode


class KnownList(NamedTuple):
    """Memories of one list, as far as there are any."""

    length: int | None
    entries: dict[int, Assoc] | None
    """All of them, by the object that they lead to."""
    head: ListHead | None


UNKNOWN_LIST = KnownList(None, None, None)
NEW_LIST = KnownList(0, None, None)


class Memories:
    """Memories of about `objects` kilobytes of objects, and as many of the rest as `CachedGraph` says.

    Where the store is `afar`, a list is remembered from its first entry on, whether anybody has asked for it or not.
    """

    def __init__(self, objects: int, *, afar: bool = False) -> None:
        self._afar = afar
        self.objects: Recent[int, AnyNode] = Recent(objects)
        self.counts = KnownCounts(2 * objects)
        self.lists: Recent[int, dict[int, dict[int, Assoc]]] = Recent(4 * objects)
        """By object, then by type, as those below."""
        self.heads: ByType[ListHead] = ByType(4 * objects)
        self.sets: ByType[ListSet] = ByType(4 * objects)
        self.common: ByType[ListSet] = ByType(2 * objects)
        self.newest_sets = NewestSets()
        self.by_name: Mapping[str, Recent[Any, Any]] = {
            "objects": self.objects,
            "counts": self.counts,
            "lists": self.lists,
            "heads": self.heads,
            "common": self.common,
        }
        self._all = (self.objects, self.counts, self.lists, self.heads, self.sets, self.common)

    def forget_changed(self, batch: Batch, lists: Iterable[tuple[int, int]]) -> None:
        """No more than what the batch changes: a post that is liked stays decoded, and whom its author follows stays counted."""
        for op in batch.objects:
            self.objects.forget(op.id)
        memories: list[Recent[int, dict[int, Any]]] = [self.lists, self.heads]
        if len(self.sets) or len(self.common):
            memories += [self.sets, self.common]
        for id1, atype in lists:
            self.counts.forget_one(id1, atype)
            for memory in memories:
                if remembered := memory.get(id1):
                    remembered.pop(atype, None)

    def known_of(self, lists: Iterable[tuple[int, int]]) -> dict[tuple[int, int], KnownList]:
        """Return what is remembered of each of these lists, by its object and type."""
        return {
            (id1, atype): KnownList(
                self.counts.of(id1, atype), (self.lists.get(id1) or {}).get(atype), self.heads.of(id1, atype)
            )
            for id1, atype in lists
        }

    def remember(self, batch: Batch, alone: Collection[int], known: Mapping[tuple[int, int], KnownList]) -> None:
        """Keep what a batch has stored, where nobody else changed it: it is mostly shown at once.

        `known` are the lists as they were before.
        """
        for op in batch.objects:
            if op.node is not None and op.id in alone:
                self.objects.put(op.id, op.node, kilobytes(op.node))  # type: ignore[arg-type]  # a Node is one of AnyNode
        if batch.judged is None:
            return
        if batch.new_id in alone:
            lengths = {atype: by for (id1, atype), by in batch.judged.counts.items() if id1 == batch.new_id}
            # What the batch may have changed of it, and does not tell, is not known.
            unknown = {atype for id1, atype in known if id1 == batch.new_id} - lengths.keys()
            self.counts.begin(batch.new_id, lengths, unknown)
        for (id1, atype), by in batch.judged.counts.items():
            if id1 in alone:
                before = NEW_LIST if id1 == batch.new_id else known.get((id1, atype), UNKNOWN_LIST)
                self._remember_list(id1, atype, before, by, batch.judged.entries.get((id1, atype), {}))

    def _remember_list(
        self, id1: int, atype: int, before: KnownList, by: int, changed: Mapping[int, tuple[int, bytes] | None]
    ) -> None:
        if self._afar and before.length == 0 and changed:
            before = KnownList(0, before.entries or {}, before.head or ListHead([], whole=True))
        if before.length is not None:
            self.counts.change(id1, atype, before.length + by)
        if before.entries is not None:
            # In place: nobody else has it, for whoever reads it makes a copy.
            for id2, entry in changed.items():
                if entry is None:
                    before.entries.pop(id2, None)
                else:
                    before.entries[id2] = Assoc(id2, *entry)
            kept = {**(self.lists.get(id1) or {}), atype: before.entries}
            self.lists.put(id1, kept, sum(map(len, kept.values())))
        if before.head is not None and (head := before.head.changed(changed)) is not None:
            self.heads.keep(id1, atype, head)

    def forget(self, id_: int) -> None:
        """Forget all that is known of an object."""
        for memory in self._all:
            memory.forget(id_)

    def clear(self) -> None:
        """Forget everything."""
        for memory in (*self._all, self.newest_sets):
            memory.clear()


def kilobytes(node: AnyNode) -> int:
    """Return about how large an object is: only posts may be much larger than others."""
    return 1 + (len(node.text) + len(node.json)) // 1024 if isinstance(node, Post) else 1

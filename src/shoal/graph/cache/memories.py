"""Everything that is remembered of a graph, and what of it a commit leaves true."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from shoal.core.model import Post
from shoal.graph.cache.heads import ListHead
from shoal.graph.cache.recent import ByType, Recent
from shoal.graph.cache.sets import ListSet, NewestSets
from shoal.graph.contract import Assoc, Batch
from shoal.graph.schema import AnyNode


class Memories:
    """Memories of about `objects` kilobytes of objects, and as many of the rest as `CachedGraph` says."""

    def __init__(self, objects: int) -> None:
        self.objects: Recent[int, AnyNode] = Recent(objects)
        self.counts: Recent[int, dict[int, int]] = Recent(2 * objects)
        """By object, then by type, as those below."""
        self.lists: Recent[int, dict[int, dict[int, Assoc]]] = Recent(4 * objects)
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
        memories: list[Recent[int, dict[int, Any]]] = [self.counts, self.lists, self.heads]
        if len(self.sets) or len(self.common):
            memories += [self.sets, self.common]
        for id1, atype in lists:
            for memory in memories:
                if remembered := memory.get(id1):
                    remembered.pop(atype, None)

    def remember(self, batch: Batch, alone: Collection[int]) -> None:
        """Keep the objects that a batch has stored, where nobody else changed them: they are mostly shown at once."""
        for op in batch.objects:
            if op.node is not None and op.id in alone:
                self.objects.put(op.id, op.node, kilobytes(op.node))  # type: ignore[arg-type]  # a Node is one of AnyNode

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

"""In-memory entries of the cached graph: objects, counts, list heads, whole lists and sets, and their invalidation by a commit.

Use `Memories`. Prefetch hints (`companions`) name objects that a request usually reads next. A `ListSet` has a version, so
derived values detect that it has changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from shoal.core.model import Post, Share, Token
from shoal.graph.cache.lru import ByType, Recent
from shoal.graph.contract import Assoc, Batch
from shoal.graph.schema import EVERYBODY, AnyNode

_REST = 0
"""A key among the counts of an object that was new: all that are not in there are 0, but for those of the types `~type`. No type
has the number 0.

A class of its own would say it better, but its objects are looked at when all garbage is collected, a dictionary of numbers is
not: the counts of 45,000 posts would make that 20 ms longer.
"""


class _Shared(dict[int, int]):
    """The counts of many new objects, which are alike. Nothing in them changes, but that a 0 among the rest is written down."""


class KnownCounts(Recent[int, dict[int, int]]):
    """Lengths of lists, by object, then by the number of their type.

    Most new posts have the same counts, and most keep them: 33,000 took 9 MB when each had a dictionary of its own. So they share
    it until theirs change.
    """

    __slots__ = ()

    def of(self, id1: int, atype: int) -> int | None:
        """Return a length; None when it is not remembered."""
        return count_in(held, atype) if (held := self.get(id1)) else None

    def begin(self, id1: int, lengths: Mapping[int, int], unknown: Iterable[int]) -> None:
        """Remember a new object: these are its lengths, those of some types are not known, all others are 0."""
        self.put(id1, _new_counts(tuple(sorted(lengths.items())), tuple(sorted(unknown))))

    def keep(self, id1: int, lengths: Iterable[tuple[int, int]]) -> None:
        """Remember these lengths, besides those that are known, and find the object used again."""
        held = self._own(id1, self.get(id1) or {})
        held.update(lengths)
        self.put(id1, held)

    def change(self, id1: int, atype: int, length: int) -> None:
        """Remember one length."""
        held = self.get(id1)
        if held is None:
            self.put(id1, {atype: length})
        elif count_in(held, atype) != length:
            self._own(id1, held)[atype] = length

    def forget_one(self, id1: int, atype: int) -> None:
        """Forget one length."""
        if held := self.get(id1):
            held = self._own(id1, held)
            held.pop(atype, None)
            if _REST in held:
                held[~atype] = 0

    def _own(self, id1: int, held: dict[int, int]) -> dict[int, int]:
        """Return the counts that are remembered of an object as its own, which may be changed."""
        if isinstance(held, _Shared):
            # No more zeros than say something: what its like were asked for need not be what this one is.
            held = {atype: n for atype, n in held.items() if n or atype <= _REST}
            self.put(id1, held)
        return held


def count_in(counts: dict[int, int], atype: int) -> int | None:
    """Return one of the counts that are remembered of an object; None where it is not known."""
    n = counts.get(atype)
    if n is None and _REST in counts and ~atype not in counts:
        n = counts[atype] = 0
    return n


@lru_cache(maxsize=1_024)
def _new_counts(lengths: tuple[tuple[int, int], ...], unknown: tuple[int, ...]) -> _Shared:
    return _Shared([(_REST, 0), *((~atype, 0) for atype in unknown), *lengths])


HEAD = 64
"""At most so many of the newest associations of a list are remembered in order; of a list in a store afar so many are read."""


class ListHead(NamedTuple):
    """The newest of a list, in order; `whole` when there are no others."""

    assocs: list[Assoc]
    whole: bool

    def reaches(self, least: int) -> bool:
        """Return whether it has so many of the newest, or all that there are."""
        return self.whole or len(self.assocs) >= least

    @property
    def size(self) -> int:
        """Return how many entries it has."""
        return len(self.assocs)

    def changed(self, by_id2: Mapping[int, tuple[int, bytes] | None]) -> ListHead | None:
        """Return the head after a change of some entries; None where it cannot be told. Its list is the same, and changed.

        A new list for each change would be one that the collection of garbage goes through soon, with all its entries.
        """
        assocs, whole = self
        most = max(len(assocs), HEAD)
        # What stands below the head is not known, so nothing can be put there.
        floor = (0, 0) if whole else _place(assocs[-1])
        for at in [at for at, assoc in enumerate(assocs) if assoc.id2 in by_id2][::-1]:
            del assocs[at]
        for id2, entry in by_id2.items():
            if entry is not None and (entry[0], id2) > floor:
                # Mostly it is the newest, and stands first.
                place = next((at for at, assoc in enumerate(assocs) if _place(assoc) < (entry[0], id2)), len(assocs))
                assocs.insert(place, Assoc(id2, *entry))
        if not assocs and not whole:
            return None
        whole = whole and len(assocs) <= most
        del assocs[most:]
        return self if whole == self.whole else ListHead(assocs, whole)


def _place(assoc: Assoc) -> tuple[int, int]:
    return assoc.time, assoc.id2


class ListSet(NamedTuple):
    """Where a list leads to, or what another has in common with it. Sets of one list and version are equal."""

    version: int
    ids: frozenset[int]

    @property
    def size(self) -> int:
        """Return how many ids it has."""
        return len(self.ids)


class NewestSets:
    """The newest version of a few lists, which outlives that a list is read again and is the same."""

    def __init__(self) -> None:
        self._newest: Recent[tuple[int, int], ListSet] = Recent(16)
        self._versions = itertools.count(1)

    def of(self, id1: int, number: int, ids: frozenset[int]) -> ListSet:
        """Return the set of a list that has just been read."""
        held = self._newest.get((id1, number))
        if held is None or held.ids != ids:
            held = ListSet(next(self._versions), ids)
            self._newest.put((id1, number), held)
        return held

    def clear(self) -> None:
        """Forget every version: a set that is read anew has another one."""
        self._newest.clear()


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


def companions(objects: Recent[int, AnyNode], ids: Sequence[int]) -> set[int]:
    """Return what is asked for after these, as far as these are remembered: to see whether they may be shown, and to show them."""
    found: set[int] = set()
    for id_ in ids:
        node = objects.get(id_)
        if isinstance(node, Post):
            found.add(node.author_id)
        elif isinstance(node, Share):
            found.update((node.author_id, node.post_id, node.post_author_id))
        elif isinstance(node, Token):
            found.update((node.member_id, EVERYBODY))
    return found

"""Bounded LRU caches: the general one, and those of the cached graph with their invalidation by a commit.

`Recent` is the general cache. `Memories` holds objects, counts, list heads, whole lists and sets of the graph. Prefetch hints
(`companions`) name objects that a request usually reads next. A `ListSet` has a version, so that derived values detect a change.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from shoal.core.model import Post, Share, Token
from shoal.graph.contract import Assoc, Batch
from shoal.graph.schema import EVERYBODY, AnyNode

K = TypeVar("K")
V = TypeVar("V")

_PARTS = 8
"""The older generation of a memory is forgotten in so many parts."""


class Weighed(Protocol):
    """A value that counts for as many entries as its `size`."""

    @property
    def size(self) -> int: ...


W = TypeVar("W", bound=Weighed)


class Recent(Generic[K, V]):
    """A bounded memory of what was used last: at most `size` entries, or one value that counts for more.

    It has two generations, so that a value that is found in the younger one costs a look alone, and no order has to be kept. The
    younger one becomes the older when it fills seven eighths. While the last eighth fills, what is used again moves to the younger
    one. Then the rest of the older one is forgotten in parts, oldest first.

    `asked` and `missed` count the keys that bulk reads asked for, and those that were not remembered: `get` counts nothing.
    """

    __slots__ = ("_filled", "_fresh", "_most_fresh", "_old", "_part", "_size", "_weights", "_young", "asked", "missed")

    def __init__(self, size: int) -> None:
        self._size = max(1, size)
        self._most_fresh = self._size - self._size // _PARTS
        self._filled = self._fresh = self.asked = self.missed = 0
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._part = 1
        """So many are forgotten at once: the first entries of a dictionary are found in time that grows with those before them."""
        # Of what weighs more than 1.
        self._weights: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: K) -> V | None:
        """Return the remembered value, or None. A value found among the old ones counts as used again."""
        found = self._young.get(key)
        if found is None and self._old and (found := self._old.pop(key, None)) is not None:
            self._young[key] = found
            self._fresh += self._weights.get(key, 1)
        return found

    def many(self, keys: Collection[K]) -> dict[K, V]:
        """Return the remembered values by key, as `get` of each would, without a call for each."""
        young = self._young
        found = {key: value for key in keys if (value := young.get(key)) is not None}
        if self._old and len(found) < len(keys):
            found.update((key, value) for key in keys if key not in found and (value := self.get(key)) is not None)
        self.asked += len(keys)
        self.missed += len(keys) - len(found)
        return found

    def count(self, asked: int, missed: int) -> None:
        """Count a bulk read that was made by `get`."""
        self.asked += asked
        self.missed += missed

    def put(self, key: K, value: V, weight: int = 1) -> None:
        """Remember, in place of what was remembered by this key. `weight`: how many entries this one counts for."""
        if key in self._young or key in self._old:
            self.forget(key)
        if weight > 1:
            self._weights[key] = weight
        self._young[key] = value
        self._filled += weight
        self._fresh += weight
        if self._fresh > self._most_fresh:
            self._turn()
        if self._filled > self._size:
            self._make_room()

    def _turn(self) -> None:
        for key in list(self._old):
            self.forget(key)
        self._old, self._young, self._fresh = self._young, {}, 0
        self._part = 1 + len(self._old) // _PARTS

    def _make_room(self) -> None:
        while self._filled > self._size and len(self) > 1:
            if not self._old:
                self._turn()
            for key in list(islice(self._old, min(self._part, len(self) - 1))):
                self.forget(key)

    def clear(self) -> None:
        """Forget everything."""
        self._filled = self._fresh = 0
        self._young, self._old, self._weights = {}, {}, {}

    def forget(self, key: K) -> None:
        """Forget one."""
        if self._young.pop(key, None) is not None:
            weight = self._weights.pop(key, 1)
            self._fresh -= weight
            self._filled -= weight
        elif self._old and self._old.pop(key, None) is not None:
            self._filled -= self._weights.pop(key, 1)


class ByType(Recent[int, dict[int, W]]):
    """Values of lists, by object, then by the number of their type. An object counts as one entry, besides its values."""

    __slots__ = ()

    def of(self, id1: int, number: int) -> W | None:
        """Return the value of a list; None when it is not remembered."""
        held = self.get(id1)
        return held.get(number) if held else None

    def keep(self, id1: int, number: int, value: W) -> None:
        """Remember the value of a list."""
        held = self.get(id1) or {}
        held[number] = value
        self.put(id1, held, 1 + sum(kept.size for kept in held.values()))


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

"""The contents of the graph cache (`CacheEntries`): objects, counts, lists, and how a commit changes them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from shoal.core.model import Post, Share, Token
from shoal.graph.cache.lru import ByType, Recent
from shoal.graph.contract import Assoc, Batch
from shoal.graph.schema import EVERYBODY, AnyNode

_ABSENT_IS_ZERO = 0
"""A key in the counts of an object that was new when it was cached. If it is present, missing counts are 0.

Exceptions are the types for which the key `~type` is present: their counts are unknown. No type has the number 0.

The counts are a dictionary of numbers, which the garbage collector does not examine. It would examine instances of a class: for the
counts of 45,000 posts, that adds 20 ms to a full collection.
"""


class _Shared(dict[int, int]):
    """The counts that many new objects have in common. Missing types may be added with count 0; nothing else is modified."""


class KnownCounts(Recent[int, dict[int, int]]):
    """List lengths, by object and then by list type.

    Most new posts have equal counts, which rarely change. Such posts share one dictionary until their counts change: separate
    dictionaries for 33,000 posts took 9 MB.
    """

    __slots__ = ()

    def of(self, id1: int, atype: int) -> int | None:
        return count_in(counts, atype) if (counts := self.get(id1)) else None

    def begin(self, id1: int, lengths: Mapping[int, int], unknown: Iterable[int]) -> None:
        """Cache the list lengths of a new object. Missing lengths are 0, or unknown for the types in `unknown`."""
        self.put(id1, _new_counts(tuple(sorted(lengths.items())), tuple(sorted(unknown))))

    def keep(self, id1: int, lengths: Iterable[tuple[int, int]]) -> None:
        """Add list lengths of an object to the cache, and mark the object as recently used."""
        counts = self._own(id1, self.get(id1) or {})
        counts.update(lengths)
        self.put(id1, counts)

    def change(self, id1: int, atype: int, length: int) -> None:
        counts = self.get(id1)
        if counts is None:
            self.put(id1, {atype: length})
        elif count_in(counts, atype) != length:
            self._own(id1, counts)[atype] = length

    def forget_one(self, id1: int, atype: int) -> None:
        if counts := self.get(id1):
            counts = self._own(id1, counts)
            counts.pop(atype, None)
            if _ABSENT_IS_ZERO in counts:
                counts[~atype] = 0

    def _own(self, id1: int, counts: dict[int, int]) -> dict[int, int]:
        """Return counts of an object that may be modified: a copy, if `counts` is shared with other objects."""
        if isinstance(counts, _Shared):
            # Leave out the zeros that `count_in` added for other objects with the same counts.
            counts = {atype: n for atype, n in counts.items() if n or atype <= _ABSENT_IS_ZERO}
            self.put(id1, counts)
        return counts


def count_in(counts: dict[int, int], atype: int) -> int | None:
    """Return one of the cached counts of an object; None if it is unknown."""
    n = counts.get(atype)
    if n is None and _ABSENT_IS_ZERO in counts and ~atype not in counts:
        n = counts[atype] = 0
    return n


@lru_cache(maxsize=1_024)
def _new_counts(lengths: tuple[tuple[int, int], ...], unknown: tuple[int, ...]) -> _Shared:
    return _Shared([(_ABSENT_IS_ZERO, 0), *((~atype, 0) for atype in unknown), *lengths])


MOST_LINKS = 256
"""Number of entries of one list, looked up by `id2`, from which a further look-up replaces the cached ones."""
HEAD = 64
"""Maximum number of the newest entries of a list that are cached in order. From a remote store, this many are read."""


class ListPrefix(NamedTuple):
    """The newest entries of a list, newest first. `whole` means that the list has no other entries."""

    assocs: list[Assoc]
    whole: bool

    def reaches(self, least: int) -> bool:
        return self.whole or len(self.assocs) >= least

    @property
    def size(self) -> int:
        return len(self.assocs)

    def changed(self, by_id2: Mapping[int, tuple[int, bytes] | None]) -> ListPrefix | None:
        """Return this prefix with some entries changed; None if the newest entries of the list are no longer known.

        `by_id2` has the new time and data of each changed entry; None for a deleted entry. The existing list of entries is
        modified, because a new list for each change would cost time in the garbage collector.
        """
        assocs, whole = self
        most = max(len(assocs), HEAD)
        # Insert no entry older than the cached prefix, because the entries between it and the prefix are unknown.
        floor = (0, 0) if whole else _position(assocs[-1])
        for at in [at for at, assoc in enumerate(assocs) if assoc.id2 in by_id2][::-1]:
            del assocs[at]
        for id2, entry in by_id2.items():
            if entry is not None and (entry[0], id2) > floor:
                # The entry is usually the newest, so the search ends at once.
                position = next(
                    (at for at, assoc in enumerate(assocs) if _position(assoc) < (entry[0], id2)), len(assocs)
                )
                assocs.insert(position, Assoc(id2, *entry))
        if not assocs and not whole:
            return None
        whole = whole and len(assocs) <= most
        del assocs[most:]
        return self if whole == self.whole else ListPrefix(assocs, whole)


def _position(assoc: Assoc) -> tuple[int, int]:
    return assoc.time, assoc.id2


class KnownLinks(NamedTuple):
    """Entries of a list that were looked up by `id2`; None for ids that the list does not have."""

    entries: dict[int, Assoc | None]

    @property
    def size(self) -> int:
        return len(self.entries)

    def with_found(self, asked: Iterable[int], found: Mapping[int, Assoc]) -> KnownLinks:
        """Return a copy with the entries `found` added, and with None for each other id in `asked`.

        If there are `MOST_LINKS` entries already, the copy has only the added ones.
        """
        known = self.entries if len(self.entries) < MOST_LINKS else {}
        return KnownLinks({**known, **{id2: found.get(id2) for id2 in asked}})


class ListSet(NamedTuple):
    """The ids in a list, or in its intersection with another list. Two sets of a list with equal versions have equal ids."""

    version: int
    ids: frozenset[int]

    @property
    def size(self) -> int:
        return len(self.ids)


class NewestSets:
    """The newest version of the id sets of up to 16 lists. If a list is read again unchanged, its version stays."""

    def __init__(self) -> None:
        self._newest: Recent[tuple[int, int], ListSet] = Recent(16)
        self._versions = itertools.count(1)

    def of(self, id1: int, number: int, ids: frozenset[int]) -> ListSet:
        """Return the ids, just read from the list, with a version. The version is new if the ids have changed."""
        cached = self._newest.get((id1, number))
        if cached is None or cached.ids != ids:
            cached = ListSet(next(self._versions), ids)
            self._newest.put((id1, number), cached)
        return cached

    def clear(self) -> None:
        self._newest.clear()


class CachedList(NamedTuple):
    """The cached parts of a list; None for parts that are not cached."""

    length: int | None
    entries: dict[int, Assoc] | None
    """All entries by `id2`."""
    head: ListPrefix | None


_UNKNOWN_LIST = CachedList(None, None, None)
_NEW_LIST = CachedList(0, None, None)


class CacheEntries:
    """The entries of a `CachedGraph`, which describes their limits. `objects` is the capacity for objects, in kilobytes.

    With a `remote` store, a list is cached as soon as its first entry is added, even if no read has requested it.
    """

    def __init__(self, objects: int, *, remote: bool = False) -> None:
        self._remote = remote
        self.objects: Recent[int, AnyNode] = Recent(objects)
        self.counts = KnownCounts(2 * objects)
        self.lists: Recent[int, dict[int, dict[int, Assoc]]] = Recent(4 * objects)
        """Whole lists, by object and then by type. The caches below have the same keys."""
        self.prefixes: ByType[ListPrefix] = ByType(4 * objects)
        self.links: ByType[KnownLinks] = ByType(4 * objects)
        self.sets: ByType[ListSet] = ByType(4 * objects)
        self.common: ByType[ListSet] = ByType(2 * objects)
        self.newest_sets = NewestSets()
        self.by_name: Mapping[str, Recent[Any, Any]] = {
            "objects": self.objects,
            "counts": self.counts,
            "lists": self.lists,
            "prefixes": self.prefixes,
            "common": self.common,
        }
        self._all = (self.objects, self.counts, self.lists, self.prefixes, self.links, self.sets, self.common)

    def forget_changed(self, batch: Batch, lists: Iterable[tuple[int, int]]) -> None:
        """Invalidate only what the batch changes.

        For example, a liked post stays cached, and so do the other counts of its author.
        """
        for op in batch.objects:
            self.objects.forget(op.id)
        caches: list[Recent[int, dict[int, Any]]] = [self.lists, self.prefixes]
        if len(self.sets) or len(self.common):
            caches += [self.sets, self.common]
        if len(self.links):
            caches.append(self.links)
        for id1, atype in lists:
            self.counts.forget_one(id1, atype)
            for cache in caches:
                if cached := cache.get(id1):
                    cached.pop(atype, None)

    def snapshot(self, lists: Iterable[tuple[int, int]]) -> dict[tuple[int, int], CachedList]:
        return {
            (id1, atype): CachedList(
                self.counts.of(id1, atype), (self.lists.get(id1) or {}).get(atype), self.prefixes.of(id1, atype)
            )
            for id1, atype in lists
        }

    def update(self, batch: Batch, exclusive: Collection[int], before: Mapping[tuple[int, int], CachedList]) -> None:
        """Cache the stored objects and lists of a commit, except those of objects that another commit changed concurrently.

        Requests usually read them next. `before` is the cached state of the changed lists before the commit (see `snapshot`).
        """
        for op in batch.objects:
            if op.node is not None and op.id in exclusive:
                self.objects.put(op.id, op.node, kilobytes(op.node))  # type: ignore[arg-type]  # a Node is one of AnyNode
        if batch.list_changes is None:
            return
        if batch.new_id in exclusive:
            lengths = {atype: by for (id1, atype), by in batch.list_changes.counts.items() if id1 == batch.new_id}
            # Lists of the new object that the batch may have changed, although the store reported no new length.
            unknown = {atype for id1, atype in before if id1 == batch.new_id} - lengths.keys()
            self.counts.begin(batch.new_id, lengths, unknown)
        for (id1, atype), by in batch.list_changes.counts.items():
            if id1 in exclusive:
                length = _NEW_LIST if id1 == batch.new_id else before.get((id1, atype), _UNKNOWN_LIST)
                self._update_list(id1, atype, length, by, batch.list_changes.entries.get((id1, atype), {}))

    def _update_list(
        self, id1: int, atype: int, before: CachedList, by: int, changed: Mapping[int, tuple[int, bytes] | None]
    ) -> None:
        if self._remote and before.length == 0 and changed:
            before = CachedList(0, before.entries or {}, before.head or ListPrefix([], whole=True))
        if before.length is not None:
            self.counts.change(id1, atype, before.length + by)
        if before.entries is not None:
            # Modify the cached entries in place. Readers are not affected, because they have copies.
            for id2, entry in changed.items():
                if entry is None:
                    before.entries.pop(id2, None)
                else:
                    before.entries[id2] = Assoc(id2, *entry)
            self.keep_lists(id1, {atype: before.entries})
        if before.head is not None and (head := before.head.changed(changed)) is not None:
            self.prefixes.keep(id1, atype, head)

    def keep_lists(self, id1: int, lists: Mapping[int, dict[int, Assoc]]) -> None:
        merged = {**(self.lists.get(id1) or {}), **lists}
        self.lists.put(id1, merged, sum(map(len, merged.values())))

    def forget(self, id_: int) -> None:
        for cache in self._all:
            cache.forget(id_)

    def forget_many(self, ids: Collection[int]) -> None:
        """Invalidate everything about many objects. Empty caches are skipped, for speed in an import into an empty network."""
        for cache in self._all:
            if len(cache):
                for id_ in ids:
                    cache.forget(id_)

    def clear(self) -> None:
        for cache in (*self._all, self.newest_sets):
            cache.clear()


def kilobytes(node: AnyNode) -> int:
    return 1 + (len(node.text) + len(node.json)) // 1024 if isinstance(node, Post) else 1


def prefetch_hints(objects: Recent[int, AnyNode], ids: Sequence[int]) -> set[int]:
    """Return the objects that a request usually reads after these objects, to check their visibility and to show them."""
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

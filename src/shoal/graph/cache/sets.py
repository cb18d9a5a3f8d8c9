"""Lists as sets of what they lead to, remembered with a version, so that what is made of one is known to be out of date."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from shoal.graph.cache.recent import Recent


class ListSet(NamedTuple):
    """Where a list leads to, or what another has in common with it. Sets of one list and version are equal."""

    version: int
    ids: frozenset[int]


class ListSets(Recent[int, dict[int, ListSet]]):
    """Sets by object, then by the number of their type. An id counts as one, and so does an object."""

    __slots__ = ()

    def of(self, id1: int, number: int) -> ListSet | None:
        """Return the set of a list; None when it is not remembered."""
        sets = self.get(id1)
        return sets.get(number) if sets else None

    def keep(self, id1: int, number: int, held: ListSet) -> None:
        """Remember the set of a list."""
        sets = {**(self.get(id1) or {}), number: held}
        self.put(id1, sets, 1 + sum(len(kept.ids) for kept in sets.values()))


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

"""Lists as sets of what they lead to, remembered with a version, so that what is made of one is known to be out of date."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from shoal.graph.cache.recent import Recent


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

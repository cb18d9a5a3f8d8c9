"""The newest entries of lists, in order, as far as they are remembered."""

from __future__ import annotations

from typing import NamedTuple

from shoal.graph.cache.recent import Recent
from shoal.graph.contract import Assoc


class ListHead(NamedTuple):
    """The newest of a list, in order; `whole` when there are no others."""

    assocs: list[Assoc]
    whole: bool

    def reaches(self, least: int) -> bool:
        """Return whether it has so many of the newest, or all that there are."""
        return self.whole or len(self.assocs) >= least


class ListHeads(Recent[int, dict[int, ListHead]]):
    """ListHeads by object, then by the number of their type. An entry counts as one, and so does an object."""

    __slots__ = ()

    def of(self, id1: int, number: int) -> ListHead | None:
        """Return the head of a list; None when it is not remembered."""
        heads = self.get(id1)
        return heads.get(number) if heads else None

    def keep(self, id1: int, number: int, head: ListHead) -> None:
        """Remember the head of a list."""
        heads = {**(self.get(id1) or {}), number: head}
        self.put(id1, heads, 1 + sum(len(kept.assocs) for kept in heads.values()))

"""The newest entries of lists, in order, as far as they are remembered."""

from __future__ import annotations

from typing import NamedTuple

from shoal.graph.contract import Assoc


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

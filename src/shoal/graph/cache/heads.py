"""The newest entries of lists, in order, as far as they are remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from shoal.graph.contract import Assoc

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
        """Return the head after a change of some entries; None where it cannot be told."""
        if not by_id2:
            return self
        most = max(len(self.assocs), HEAD)
        # What stands below the head is not known, so nothing can be put there.
        floor = (0, 0) if self.whole else _place(self.assocs[-1])
        both = [assoc for assoc in self.assocs if assoc.id2 not in by_id2]
        for id2, entry in by_id2.items():
            if entry is not None and (entry[0], id2) > floor:
                # Mostly it is the newest, and stands first.
                at = next((at for at, assoc in enumerate(both) if _place(assoc) < (entry[0], id2)), len(both))
                both.insert(at, Assoc(id2, *entry))
        if not both and not self.whole:
            return None
        return ListHead(both[:most], self.whole and len(both) <= most)


def _place(assoc: Assoc) -> tuple[int, int]:
    return assoc.time, assoc.id2

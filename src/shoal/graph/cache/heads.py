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

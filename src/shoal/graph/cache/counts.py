"""How long the lists of an object are, as far as that is remembered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from shoal.graph.cache.recent import Recent

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

"""Ids for what an archive becomes: for each post as many as it has parts and photos, the same in every run."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from shoal.archives.plan import ArchivePlan
from shoal.core.ids import SEQUENCE_BITS
from shoal.ops.transfer.backdated import OrderedIds

_SEQUENCES = 1 << SEQUENCE_BITS


class Slots:
    """The ids of one archive's posts on a shard. A post may have `most` photos; the others are in further parts."""

    def __init__(self, plan: ArchivePlan, shard: int, most: int) -> None:
        self._ids = array("q")
        self._first = array("q", [0]) * len(plan)
        self._most = most
        ids = OrderedIds(shard)
        for position in plan.order:
            self._first[position] = len(self._ids)
            self._ids.append(ids.take(plan.written(position)))
            for _ in range(self.parts(plan.photos[position]) - 1 + plan.photos[position]):
                self._ids.append(ids.after())

    def parts(self, photos: int) -> int:
        """Return how many posts one with so many photos becomes."""
        return max(1, -(-photos // self._most))

    def part(self, position: int, number: int) -> int:
        """Return the id of a part of a post."""
        return self._ids[self._first[position] + number]

    def photo(self, position: int, parts: int, number: int) -> int:
        """Return the id of a photo of a post that has so many parts."""
        return self._ids[self._first[position] + parts + number]


def near(id_: int) -> Iterator[int]:
    """Yield an id, and others of the same millisecond, should that of another archive's post be the same."""
    yield id_
    step = 1
    while step < _SEQUENCES:
        yield id_ & ~(_SEQUENCES - 1) | (id_ + step) % _SEQUENCES
        step *= 2

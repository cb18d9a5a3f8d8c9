"""Ids for posts that were written elsewhere, made of what their record says alone, so that a second run makes the same.

Ids begin in 2024, so a post that is older cannot carry its time. Times before 2024 are mapped, in their order, into the
ten days after the epoch: all that is before 2004 into the first of them, and the twenty years since into the other nine,
where a second becomes 1.2 milliseconds. Times a second apart thus keep their order whoever wrote at them. A post of 2024
or later has the id of its millisecond. The moment itself is kept in the post (`created_at`).
"""

from __future__ import annotations

from array import array

from shoal.core.ids import BACKDATED_UNTIL_MS, EPOCH_MS, SEQUENCE_BITS, compose

DAY_MS = 86_400_000
DAYS = (BACKDATED_UNTIL_MS - EPOCH_MS) // DAY_MS

TICKS = 1 << SEQUENCE_BITS
"""Ticks of a millisecond: as many as an id tells apart."""
_FIRST_MS = 0
_MIDDLE_MS = 1_072_915_200_000
"""2004-01-01T00:00:00Z."""


def ticks_of(moment: int) -> int:
    """A moment (Unix milliseconds) as milliseconds since the epoch times 1,024; it grows with the moment."""
    if moment >= EPOCH_MS:
        # The ten days are also the first days of 2024, and may be shared: ids are told apart below.
        return (moment - EPOCH_MS) * TICKS
    if moment < _MIDDLE_MS:
        share = max(moment, _FIRST_MS) - _FIRST_MS
        return share * DAY_MS * TICKS // (_MIDDLE_MS - _FIRST_MS)
    return DAY_MS * TICKS + (moment - _MIDDLE_MS) * (DAYS - 1) * DAY_MS * TICKS // (EPOCH_MS - _MIDDLE_MS)


class OrderedIds:
    """Gives out the ids of `BackdatedIds` to moments that come in order, on one shard, in a step for each."""

    def __init__(self, shard: int) -> None:
        self._shard = shard
        self._last = -1
        self._newer = False
        # Ticks given to moments before the epoch, which those of the first days after it may meet, and how many are behind.
        self._older = array("q")
        self._behind = 0

    def take(self, moment: int) -> int:
        """Return an id for a moment that is not before those given already."""
        if moment >= EPOCH_MS and not self._newer:
            self._newer, self._last = True, -1
        return self._next(max(ticks_of(moment), self._last + 1))

    def after(self) -> int:
        """Return the next id: of a photo, or of a further part."""
        return self._next(self._last + 1)

    def _next(self, ticks: int) -> int:
        if not self._newer:
            self._older.append(ticks)
        else:
            while self._behind < len(self._older) and self._older[self._behind] <= ticks:
                ticks += self._older[self._behind] == ticks
                self._behind += 1
        self._last = ticks
        return compose(EPOCH_MS + ticks // TICKS, self._shard, ticks % TICKS)


class BackdatedIds:
    """Gives out ids, each once; of two records at the same moment on the same shard the second takes the next."""

    def __init__(self) -> None:
        self._given: set[int] = set()

    def take(self, moment: int, shard: int) -> int:
        """An id for a moment on a shard."""
        return self._next(ticks_of(moment), shard)

    def after(self, id_: int, shard: int) -> int:
        """The next free id on the shard: of a picture, or when an id turns out to be taken."""
        ticks = ((id_ >> (SEQUENCE_BITS + 13)) << SEQUENCE_BITS) + id_ % TICKS
        return self._next(ticks + 1, shard)

    def _next(self, ticks: int, shard: int) -> int:
        while (id_ := compose(EPOCH_MS + ticks // TICKS, shard, ticks % TICKS)) in self._given:
            ticks += 1
        self._given.add(id_)
        return id_

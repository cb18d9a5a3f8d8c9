"""Follower sets, cached between posts: the packed slots of a source's warm followers, to whom a new entry is pushed.

A cache of the graph: it may be dropped at any time. It applies the changes that are made through it (`add`, `discard`), including
those made while a set is being read from the graph, page by page.
"""

from __future__ import annotations

import itertools
import secrets
from collections import OrderedDict

import numpy as np

from shoal.timelines.contract import Slots

_SERIAL_BITS = 20


class FollowerSet:
    """The slots of a source's warm followers: a growing, unordered array."""

    __slots__ = ("_count", "_slots", "complete", "serial", "touched")

    def __init__(self, serial: int) -> None:
        self.serial = serial
        """Identifies this reading of the set from the graph (20 bits, with a random start)."""
        self._slots = np.empty(4, np.int32)
        self._count = 0
        self.complete = False
        self.touched: set[int] = set()
        """Members whose follow changed while the set was being read."""

    def __len__(self) -> int:
        return self._count

    def slots(self, first: int, last: int) -> Slots:
        """Return a range of the slots, as a view that is valid until the next change.

        Process a set in pages from its end to its start. Then a slot that replaces a removed one (`discard`) has been processed
        already. New followers get the entry when their follow merges the source's entries into their timeline.

        For example, the slots are 10, 11, 12, 13, 14, and a page has two. The first page is 13 and 14. Then 11 leaves, so that
        14, the last, takes its place; and 15 joins at the end: 10, 14, 12, 13, 15. The next page ends where the first began: it
        is 14 and 12, and the last page is 10. All slots that stayed are processed. 14 is processed twice, which does no harm.
        """
        return self._slots[first:last]

    def extend(self, slots: Slots) -> None:
        """Add slots, none of which is in the set yet."""
        needed = self._count + len(slots)
        if needed > len(self._slots):
            grown = np.empty(max(needed, 2 * len(self._slots)), np.int32)
            grown[: self._count] = self._slots[: self._count]
            self._slots = grown
        self._slots[self._count : needed] = slots
        self._count = needed

    def add(self, slot: int) -> None:
        if not (self._slots[: self._count] == slot).any():
            self.extend(np.array([slot], np.int32))

    def discard(self, slot: int) -> None:
        """Remove a slot, and move the last slot of the array to its position."""
        for at in np.nonzero(self._slots[: self._count] == slot)[0]:
            self._count -= 1
            self._slots[at] = self._slots[self._count]


class FollowerSetCache:
    """A cache of follower sets: up to `budget` slots (4 bytes each) of up to `sources` sources (400 bytes each)."""

    def __init__(self, budget: int = 64_000_000, sources: int = 500_000) -> None:
        self._budget = budget
        self._sources = sources
        self._held = 0
        self._serials = itertools.count(secrets.randbits(_SERIAL_BITS))
        self._by_source: OrderedDict[int, FollowerSet] = OrderedDict()

    def get(self, source: int) -> FollowerSet | None:
        """Return the follower set of a source, if it is complete."""
        follower_set = self._by_source.get(source)
        if follower_set is None or not follower_set.complete:
            return None
        self._by_source.move_to_end(source)
        return follower_set

    def begin(self, source: int) -> FollowerSet:
        follower_set = self._by_source[source] = FollowerSet(next(self._serials) % (1 << _SERIAL_BITS))
        return follower_set

    def finish(self, source: int, follower_set: FollowerSet) -> None:
        """Mark a follower set as complete, unless it was dropped. A full cache evicts the least recently used sets."""
        if self._by_source.get(source) is not follower_set:
            return
        follower_set.complete = True
        self._held += len(follower_set)
        while (self._held > self._budget or len(self._by_source) > self._sources) and len(self._by_source) > 1:
            _, oldest = self._by_source.popitem(last=False)
            self._held -= len(oldest) if oldest.complete else 0

    def add(self, source: int, member: int, slots: Slots) -> None:
        """Record that a member follows the source. `slots` is the member's slot, or empty for a cold timeline."""
        self._change(source, member, slots, following=True)

    def discard(self, source: int, member: int, slots: Slots) -> None:
        self._change(source, member, slots, following=False)

    def _change(self, source: int, member: int, slots: Slots, *, following: bool) -> None:
        follower_set = self._by_source.get(source)
        if follower_set is None:
            return
        if not follower_set.complete:
            follower_set.touched.add(member)
            return
        before = len(follower_set)
        for slot in slots.tolist():
            follower_set.add(slot) if following else follower_set.discard(slot)
        self._held += len(follower_set) - before

    def forget(self, source: int) -> None:
        """Drop the follower set of a source whose entries are not pushed any more."""
        follower_set = self._by_source.pop(source, None)
        if follower_set is not None and follower_set.complete:
            self._held -= len(follower_set)

    def clear(self) -> None:
        self._by_source.clear()
        self._held = 0

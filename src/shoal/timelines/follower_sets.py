"""Audiences, kept between posts: the packed seats of a source's warm followers, to whom a new entry is pushed.

A cache of the graph: it may be dropped at any time. It follows the changes that go through it (`add`, `discard`), also
those that come while an audience is being read from the graph, page by page.

Glossary (`docs/glossary.md`): audience, seat.
"""

from __future__ import annotations

import itertools
import secrets
from collections import OrderedDict

import numpy as np

from shoal.timelines.contract import Seats

_SERIAL_BITS = 20


class Audience:
    """The seats of one source: a growing array without order."""

    __slots__ = ("_count", "_seats", "complete", "serial", "touched")

    def __init__(self, serial: int) -> None:
        self.serial = serial
        """Tells this reading of the audience from every other (20 bits, starting anywhere)."""
        self._seats = np.empty(4, np.int32)
        self._count = 0
        self.complete = False
        self.touched: set[int] = set()
        """Members whose relation changed while the audience was being read."""

    def __len__(self) -> int:
        return self._count

    def seats(self, first: int, last: int) -> Seats:
        """A part of the seats; a view, to be used before anything else happens.

        Who works through an audience in pages goes from its end to its start: then a seat that takes the place of one
        that left (`discard`) has been dealt with already, and those who join have the entry by their merge.

        For example, the seats are 10, 11, 12, 13, 14, and a page has two. The first page is 13 and 14. Then 11 leaves,
        so that 14, the last, takes its place; and 15 joins at the end: 10, 14, 12, 13, 15. The next page ends where the
        first began: it is 14 and 12, and the last page is 10. All who stayed are reached; 14 twice, which does no harm.
        """
        return self._seats[first:last]

    def extend(self, seats: Seats) -> None:
        """Add seats that are not there yet."""
        needed = self._count + len(seats)
        if needed > len(self._seats):
            grown = np.empty(max(needed, 2 * len(self._seats)), np.int32)
            grown[: self._count] = self._seats[: self._count]
            self._seats = grown
        self._seats[self._count : needed] = seats
        self._count = needed

    def add(self, seat: int) -> None:
        """Add one seat, once."""
        if not (self._seats[: self._count] == seat).any():
            self.extend(np.array([seat], np.int32))

    def discard(self, seat: int) -> None:
        """Take one seat away; the last takes its place."""
        for at in np.nonzero(self._seats[: self._count] == seat)[0]:
            self._count -= 1
            self._seats[at] = self._seats[self._count]


class Audiences:
    """Audiences of the sources that posted last: up to `budget` seats (4 bytes each) and `sources` (400 bytes each)."""

    def __init__(self, budget: int = 64_000_000, sources: int = 500_000) -> None:
        self._budget = budget
        self._sources = sources
        self._held = 0
        self._serials = itertools.count(secrets.randbits(_SERIAL_BITS))
        self._by_source: OrderedDict[int, Audience] = OrderedDict()

    def get(self, source: int) -> Audience | None:
        """The audience of a source, if it is known whole."""
        audience = self._by_source.get(source)
        if audience is None or not audience.complete:
            return None
        self._by_source.move_to_end(source)
        return audience

    def begin(self, source: int) -> Audience:
        """An empty audience that is about to be filled; changes reach it from now on."""
        audience = self._by_source[source] = Audience(next(self._serials) % (1 << _SERIAL_BITS))
        return audience

    def finish(self, source: int, audience: Audience) -> None:
        """It is whole now, unless it was dropped meanwhile. The longest unused make room for it."""
        if self._by_source.get(source) is not audience:
            return
        audience.complete = True
        self._held += len(audience)
        while (self._held > self._budget or len(self._by_source) > self._sources) and len(self._by_source) > 1:
            _, oldest = self._by_source.popitem(last=False)
            self._held -= len(oldest) if oldest.complete else 0

    def add(self, source: int, member: int, seats: Seats) -> None:
        """A member with this seat (or none, when cold) now follows the source."""
        self._change(source, member, seats, following=True)

    def discard(self, source: int, member: int, seats: Seats) -> None:
        """The member no longer follows the source."""
        self._change(source, member, seats, following=False)

    def _change(self, source: int, member: int, seats: Seats, *, following: bool) -> None:
        audience = self._by_source.get(source)
        if audience is None:
            return
        if not audience.complete:
            audience.touched.add(member)
            return
        before = len(audience)
        for seat in seats.tolist():
            audience.add(seat) if following else audience.discard(seat)
        self._held += len(audience) - before

    def forget(self, source: int) -> None:
        """Forget the audience of one source: it is not to be pushed to."""
        audience = self._by_source.pop(source, None)
        if audience is not None and audience.complete:
            self._held -= len(audience)

    def clear(self) -> None:
        """Forget all: seats have changed hands."""
        self._by_source.clear()
        self._held = 0

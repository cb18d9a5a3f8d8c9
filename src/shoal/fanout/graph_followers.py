"""Followers as the graph lists them, cold and warm alike: for timelines that several processes write to.

A fan-out goes down the list by time, so any process can go on where another one stopped. The followers of a source that
has no more than a page of them are remembered, under a stamp that a follow or an unfollow takes away before it merges or
subtracts: an entry that is in no merge meets the new followers when it is pushed.

Glossary (`docs/glossary.md`): stamp.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.fanout.effects import Act
from shoal.fanout.loudness import Loudness
from shoal.graph.cache.coherence import Stamps
from shoal.graph.cache.lru import Recent
from shoal.graph.contract import MAX_TIME, Assoc, Cursor, Reader
from shoal.graph.schema import EVERYBODY, followers
from shoal.timelines.contract import Seats, Timelines

_SEQUENCE_BITS = 10


class ListedFollowers:
    """`effects.Followers` from the graph.

    `left` is the time down to which the fan-out has come, without the sequence bits.

    `remembered` followers are kept in memory, 8 bytes each.
    """

    def __init__(
        self, graph: Reader, timelines: Timelines, stamps: Stamps, loudness: Loudness, remembered: int = 4_000_000
    ) -> None:
        self.loudness = loudness
        self._graph = graph
        self._timelines = timelines
        self._stamps = stamps
        self._known: Recent[int, tuple[bytes, Seats]] = Recent(remembered)

    async def page(self, source: int, act: Act, size: int, left: int) -> int:
        if await self.loudness.holds(source):
            return 0
        stamp = None
        if not left:
            stamp = await self._stamp(source)
            known = self._known.get(source)
            if known is not None and known[0] == stamp is not None:
                await act(known[1])
                return 0
        listed, more = await self._list(source, size, left)
        if more and not left and await self._is_loud(source):
            return 0
        seats = self._timelines.seats([follower.id2 for follower in listed])
        await act(seats)
        if more:
            # The last of a page may share its place with the first of the next: those few are acted on twice.
            return listed[-1].time >> _SEQUENCE_BITS
        if stamp is not None:
            self._known.put(source, (stamp, seats), len(seats) + 50)
        return 0

    async def _stamp(self, source: int) -> bytes | None:
        """Return this source's stamp joined with that of all lists; None while one of them is being changed."""
        names = (_stamped(source), _stamped(EVERYBODY))
        stamps = await self._stamps.read(names)
        return stamps[names[0]] + stamps[names[1]] if len(stamps) == 2 else None

    async def changed(self, source: int) -> None:
        begun = await self._stamps.begin((_stamped(source),))
        await self._stamps.end((_stamped(source),), begun)

    def joined(self, source: int, member: int) -> None:
        """Do nothing: the list is read again."""

    def left(self, source: int, member: int) -> None:
        """Do nothing: the list is read again."""

    async def _list(self, source: int, size: int, left: int) -> tuple[Sequence[Assoc], bool]:
        """Return a page from the place `left` downwards, ending past it in any case, and whether there may be more."""
        before = left + 1 << _SEQUENCE_BITS if left else MAX_TIME
        while True:
            listed = await self._graph.assoc_range(source, followers(source), Cursor(before=before, limit=size))
            more = len(listed) == size
            if not more or listed[-1].time >> _SEQUENCE_BITS != left:
                return listed, more
            size *= 2

    async def _is_loud(self, source: int) -> bool:
        atype = followers(source)
        counts = await self._graph.assoc_count((source,), (atype,))
        if counts[atype].get(source, 0) <= self.loudness.threshold:
            return False
        await self.loudness.add(source)
        return True


def _stamped(source: int) -> int:
    """Return the id that stamps the list: the source's own id is stamped anew with every post of it."""
    return ~source

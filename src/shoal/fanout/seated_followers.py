"""Followers in this process's memory: the warm ones only, as packed seats, kept between posts.

For timelines that one process keeps. A source with more than `loud_from` warm followers becomes loud.

For example, members 1, 2 and 3 follow source 8, all are warm, and the audience of 8 is not in memory. A push reads it,
two followers at a time:

1. The newest two are read: 3 and 2. Then 3 unfollows and 4, who is warm, follows. The audience is not whole, so both
   are only noted as touched.
2. The rest is read: 1. The seats are now those of 3, 2 and 1.
3. The graph is asked about the touched: 3 does not follow, so the seat goes; 4 does, so the seat is added.
4. The audience, 1, 2 and 4, is whole. The post is pushed to them, and the next push from 8 reads no followers.

Glossary (`docs/glossary.md`): audience, loud, seat.
"""

from __future__ import annotations

import asyncio

from shoal.fanout.effects import Act
from shoal.fanout.loudness import Loudness
from shoal.graph.contract import MAX_TIME, Cursor, Graph
from shoal.graph.schema import followers, following
from shoal.timelines.audience import Audience, Audiences
from shoal.timelines.contract import Timelines

_LEFT_BITS = 31
_READ_AT_ONCE = 20_000


class PackedFollowers:
    """See `effects.Followers`. What is left of a fan-out: which reading of the audience (20 bits), and how many seats (31)."""

    def __init__(
        self, graph: Graph, timelines: Timelines, audiences: Audiences, loudness: Loudness, *, read: int = _READ_AT_ONCE
    ) -> None:
        self.audiences = audiences
        self.loudness = loudness
        self._graph = graph
        self._timelines = timelines
        self._read = read

    async def page(self, source: int, act: Act, size: int, left: int) -> int:
        audience = await self._audience(source)
        if audience is None:
            return 0
        last, anew = len(audience), False
        if left:
            anew = left >> _LEFT_BITS != audience.serial
            last = last if anew else min(last, left & (1 << _LEFT_BITS) - 1)
        while last:
            first = max(0, last - size)
            await act(audience.seats(first, last))
            # Fan-outs that take turns may push each other's audience out of memory. One that had to be read anew is gone
            # through in this turn: by pages it would begin again for ever.
            if first and not anew:
                return audience.serial << _LEFT_BITS | first
            if first:
                await asyncio.sleep(0)
            last = min(first, len(audience))
        return 0

    async def changed(self, source: int) -> None:
        """Do nothing: cold members are in no audience."""

    def joined(self, source: int, member: int) -> None:
        self.audiences.add(source, member, self._timelines.seats((member,)))

    def left(self, source: int, member: int) -> None:
        self.audiences.discard(source, member, self._timelines.seats((member,)))

    async def _audience(self, source: int) -> Audience | None:
        """Return the warm followers of a source; None when there are too many to push to."""
        if await self.loudness.holds(source):
            return None
        # None, not falsy: an audience without a warm follower is known too, and must not be read again for each post.
        if (audience := self.audiences.get(source)) is None:
            audience = await self._read_audience(source)
        if audience is not None and len(audience) <= self.loudness.threshold:
            return audience
        # The mark first: a reader who does not find it must find what was pushed.
        await self.loudness.add(source)
        self.audiences.forget(source)
        return None

    async def _read_audience(self, source: int) -> Audience | None:
        """Read the audience; None when it is too large: it is not read to its end, and must never pass for whole."""
        audience = self.audiences.begin(source)
        before = MAX_TIME
        while len(audience) <= self.loudness.threshold:
            page = await self._graph.assoc_range(source, followers(source), Cursor(before=before, limit=self._read))
            audience.extend(self._timelines.seats([follower.id2 for follower in page]))
            if len(page) < self._read:
                break
            before = page[-1].time
            await asyncio.sleep(0)
        if len(audience) > self.loudness.threshold:
            return None
        await self._touch_up(source, audience)
        self.audiences.finish(source, audience)
        return audience

    async def _touch_up(self, source: int, audience: Audience) -> None:
        """Look again at members who came, went, or became warm while the audience was being read."""
        while audience.touched:
            member = audience.touched.pop()
            atype = following(source)
            follows = (await self._graph.assoc_get(member, (atype,), (source,)))[atype]
            for seat in self._timelines.seats((member,)).tolist():
                audience.add(seat) if follows else audience.discard(seat)

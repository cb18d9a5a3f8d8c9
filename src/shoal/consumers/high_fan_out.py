"""High-fan-out sources, which have too many followers to push to. Readers pull their entries instead.

A *mark* is an association in the graph that identifies such a source. Readers in other processes must see it before the first entry
is not pushed. A high-fan-out source that has few followers left is *demoted*: its entries are pushed again and still pulled, until
the entries that were not pushed are merged into the timelines of its followers. During this time the data of its mark is `fading`.
Then the mark is deleted.

An entry is not pushed only if its source has a mark that is not fading, read after the entry was committed. So such an entry was
committed before the demotion began, and the merge, which reads the source's list later, finds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shoal.core import events
from shoal.core.ids import IdMaker, shard_of
from shoal.graph.access import association, pages_of
from shoal.graph.contract import Assoc, AssocOp, Batch, Graph
from shoal.graph.schema import EVERYBODY, HIGH_FAN_OUT, followers, is_tag

_SHARD = shard_of(EVERYBODY)
_DEMOTED = b"fading"
_REVIEWED_AT_ONCE = 1_000


class HighFanOutSources:
    """Reads and sets the marks of high fan-out sources. The marks are associations in one list.

    The set of marked sources known to this process is only a hint. If a source is in this set, `holds` reads its mark again.
    The entries of a source that is missing from the set are pushed even if it has a mark, which costs time and does no harm.
    """

    def __init__(
        self,
        graph: Graph,
        new_id: IdMaker,
        threshold: int,
        quiet_below: int | None = None,
        *,
        marked_seconds: float = 0.0,
    ) -> None:
        self.threshold = threshold
        """Number of followers above which a source is high-fan-out."""
        self._graph = graph
        self._new_id = new_id
        # The default is half of the threshold: the gap prevents a source from alternating between push and pull.
        self._quiet_below = (threshold + 1) // 2 if quiet_below is None else quiet_below
        self._marked_seconds = marked_seconds
        """Seconds between the end of a merge and the deletion of the mark, if readers read a timeline before the marks."""
        self._known: set[int] = set()

    async def holds(self, source: int) -> bool:
        """Return whether the source has high fan-out.

        Then its entries need not be pushed, because readers pull committed entries.
        """
        if source not in self._known:
            return False
        mark = await self._mark(source)
        if mark is not None and not mark.data:
            return True
        self._known.discard(source)
        return False

    async def add(self, source: int) -> None:
        """Mark a source as having high fan-out.

        After this call every reader sees the mark, and entries of the source are no longer pushed.
        """
        if await self.holds(source):
            return
        batch = Batch(_SHARD)
        batch.assoc_add(EVERYBODY, HIGH_FAN_OUT, source, self._new_id(_SHARD))
        await self._graph.commit(batch)
        self._known.add(source)

    async def ease(self, source: int) -> None:
        """Start the demotion of a high fan-out source if it has few followers left."""
        mark = await self._mark(source)
        if mark is None or mark.data or source not in await self._with_few((source,)):
            return
        at = max(self._new_id(_SHARD), mark.time + 1)
        batch = Batch(_SHARD)
        # A concurrent call may set a mark with a later time, which replaces this one. Then the event emitted here matches no
        # mark, and its consumer does nothing.
        batch.put(AssocOp(EVERYBODY, HIGH_FAN_OUT.number, source, at, alive=True, data=_DEMOTED, plain=True))
        batch.emit(events.FollowersLost(source_id=source, at=at))
        await self._graph.commit(batch)

    async def fades(self, source: int, since: int) -> bool:
        mark = await self._mark(source)
        return mark is not None and mark.time == since and mark.data == _DEMOTED

    async def end(self, source: int, since: int) -> None:
        """Delete the high-fan-out mark of a source if it has the time `since`; a later mark is kept.

        Call it after the source's entries are merged into the timelines of its followers.
        """
        await asyncio.sleep(self._marked_seconds)
        batch = Batch(_SHARD)
        batch.put(AssocOp(EVERYBODY, HIGH_FAN_OUT.number, source, since + 1, alive=False, plain=True))
        await self._graph.commit(batch)

    async def review(self) -> None:
        """Start the demotion of every high-fan-out source with few followers.

        An unfollow can start a demotion as well. This review also finds sources that lost followers in other ways, such as
        deleted accounts.
        """
        async for page in pages_of(self._graph, EVERYBODY, HIGH_FAN_OUT, _REVIEWED_AT_ONCE):
            sources = [mark.id2 for mark in page if not mark.data]
            for source in await self._with_few(sources):
                await self.ease(source)

    async def _with_few(self, sources: Sequence[int]) -> list[int]:
        few: list[int] = []
        for kind in (True, False):
            alike = [source for source in sources if is_tag(source) is kind]
            if alike:
                atype = followers(alike[0])
                counts = (await self._graph.assoc_count(alike, (atype,)))[atype]
                few += [source for source in alike if counts.get(source, 0) < self._quiet_below]
        return few

    async def _mark(self, source: int) -> Assoc | None:
        return await association(self._graph, EVERYBODY, HIGH_FAN_OUT, source)

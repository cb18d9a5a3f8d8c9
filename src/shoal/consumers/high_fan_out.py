"""Loud sources: those with too many followers to push to. Readers pull their entries instead.

A *mark* in the graph says so: readers in other processes must know of it before the first entry is not pushed. A loud
source that has few followers left *fades*: it is pushed to again and still pulled from, until what was not pushed is in
the timelines of its followers (`consumers/home.py`). Then the mark goes, and the source is quiet.

Nothing is left out of a push unless the mark, read after the entry was committed, says "loud". So an entry that was
left out had been committed before the mark said "fading", and whoever reads the source's list after that finds it.

Glossary (`docs/glossary.md`): loud.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.events import LoudnessLost
from shoal.core.ids import IdMaker, shard_of
from shoal.graph.access import association
from shoal.graph.contract import MAX_TIME, Assoc, AssocOp, Batch, Cursor, Graph
from shoal.graph.schema import EVERYBODY, LOUD, followers, is_tag

_SHARD = shard_of(EVERYBODY)
_FADING = b"fading"
_REVIEWED_AT_ONCE = 1_000


class Loudness:
    """Reads and sets the marks.

    The loud sources that this process knows of are only a hint: a source that it does not know of yet is pushed once
    more, which does no harm; one that it knows of is looked up.
    """

    def __init__(self, graph: Graph, new_id: IdMaker, threshold: int, quiet_below: int | None = None) -> None:
        self.threshold = threshold
        """A source with more followers is loud."""
        self._graph = graph
        self._new_id = new_id
        # Half of it. What lies between keeps a source from being merged again and again.
        self._quiet_below = (threshold + 1) // 2 if quiet_below is None else quiet_below
        self._known: set[int] = set()

    async def holds(self, source: int) -> bool:
        """Return whether an entry of this source, already committed, may be left out of the push."""
        if source not in self._known:
            return False
        mark = await self._mark(source)
        if mark is not None and not mark.data:
            return True
        self._known.discard(source)
        return False

    async def add(self, source: int) -> None:
        """Mark a source as loud. When this returns, every reader sees the mark, and nothing of the source is pushed."""
        if await self.holds(source):
            return
        batch = Batch(_SHARD)
        batch.assoc_add(EVERYBODY, LOUD, source, self._new_id(_SHARD))
        await self._graph.commit(batch)
        self._known.add(source)

    async def ease(self, source: int) -> None:
        """Make a loud source fade if it has few followers left."""
        mark = await self._mark(source)
        if mark is None or mark.data or source not in await self._with_few((source,)):
            return
        at = max(self._new_id(_SHARD), mark.time + 1)
        batch = Batch(_SHARD)
        # It may lose to a later mark. Then the event is of a mark that nobody finds, and nothing follows from it.
        batch.put(AssocOp(EVERYBODY, LOUD.number, source, at, alive=True, data=_FADING, plain=True))
        batch.emit(LoudnessLost(source_id=source, at=at))
        await self._graph.commit(batch)

    async def fades(self, source: int, since: int) -> bool:
        """Return whether the source has been fading without a break since this mark was set."""
        mark = await self._mark(source)
        return mark is not None and mark.time == since and mark.data == _FADING

    async def end(self, source: int, since: int) -> None:
        """Remove the mark of that time; one that was set later stays."""
        batch = Batch(_SHARD)
        batch.put(AssocOp(EVERYBODY, LOUD.number, source, since + 1, alive=False, plain=True))
        await self._graph.commit(batch)

    async def review(self) -> None:
        """Make every loud source with few followers fade: a source that nobody unfollows gives no other occasion."""
        before = MAX_TIME
        while True:
            page = await self._graph.assoc_range(EVERYBODY, LOUD, Cursor(before=before, limit=_REVIEWED_AT_ONCE))
            sources = [mark.id2 for mark in page if not mark.data]
            for source in await self._with_few(sources):
                await self.ease(source)
            if len(page) < _REVIEWED_AT_ONCE:
                return
            before = page[-1].time

    async def _with_few(self, sources: Sequence[int]) -> list[int]:
        """Find the sources that have few followers."""
        few: list[int] = []
        for kind in (True, False):
            alike = [source for source in sources if is_tag(source) is kind]
            if alike:
                atype = followers(alike[0])
                counts = (await self._graph.assoc_count(alike, (atype,)))[atype]
                few += [source for source in alike if counts.get(source, 0) < self._quiet_below]
        return few

    async def _mark(self, source: int) -> Assoc | None:
        return await association(self._graph, EVERYBODY, LOUD, source)

"""Who is loud: sources with too many followers to push to. Readers pull from them instead.

It is written in the graph, because readers in other processes must know of it before the first entry is not pushed. Loud
sources stay loud: becoming quiet again would need a merge into every follower's timeline.
"""

from __future__ import annotations

from shoal.core.ids import IdMaker, shard_of
from shoal.graph.contract import Batch, Graph
from shoal.graph.schema import EVERYBODY, LOUD


class Loudness:
    """The sources that this process knows to be loud. One that it does not know of yet is pushed once more: no harm."""

    def __init__(self, graph: Graph, new_id: IdMaker, threshold: int) -> None:
        self.threshold = threshold
        """A source with more followers is loud."""
        self._graph = graph
        self._new_id = new_id
        self._known: set[int] = set()

    def __contains__(self, source: int) -> bool:
        return source in self._known

    async def add(self, source: int) -> None:
        """From now on nothing of this source is pushed; everybody who reads knows it when this returns."""
        if source not in self._known:
            batch = Batch(shard_of(EVERYBODY))
            batch.assoc_add(EVERYBODY, LOUD, source, self._new_id(shard_of(EVERYBODY)))
            await self._graph.commit(batch)
            self._known.add(source)

"""A check that the cached home pages of a process equal fresh ones."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.cache.coherence import one_request
from shoal.graph.contract import Cursor, Store
from shoal.queries import home
from shoal.queries.context import Reads
from shoal.queries.pipeline import Page
from shoal.response_cache import ResponseCache
from tests.flows.simulation.faults import Haltable


class RememberedHomes:
    """Home pages from the response cache of a process with this graph."""

    def __init__(self, reads: Reads, graph: CachedGraph, halting: Haltable) -> None:
        self._reads = reads
        self._halting = halting
        self.answers: ResponseCache[Page] = ResponseCache(graph.changes, 1_000, lambda page: (page, 1), skip=0)

    async def compare(self, viewer: int, limit: int) -> None:
        """Read a page twice while no commit runs. If its timeline does not change, both must equal a fresh page."""
        at = Cursor(limit=limit)
        async with self._halting.halted():
            await self._fresh(viewer, at)
            before = await self._reads.timelines.read(viewer, Cursor(limit=1_000))
            found = [await self._retained(viewer, at) for _ in range(2)]
            fresh = await self._fresh(viewer, at)
            if await self._reads.timelines.read(viewer, Cursor(limit=1_000)) == before:
                assert found == [fresh, fresh], "a cached page differs from a fresh one"

    async def _retained(self, viewer: int, at: Cursor) -> Page:
        async def make() -> Page:
            return await home.page(self._reads, viewer, at)

        with one_request():
            return await self.answers.get((viewer, at), make)

    async def _fresh(self, viewer: int, at: Cursor) -> Page:
        nothing = CachedGraph(cast("Store", self._halting))
        return await home.page(replace(self._reads, graph=nothing, lasting=nothing), viewer, at)

"""The sources that a viewer follows, and the members of a list, as the graph has them at this moment."""

from __future__ import annotations

from collections.abc import Collection

from shoal.core.ids import floor_at, milliseconds_of
from shoal.graph.contract import MAX_TIME, Assoc, Cursor, Reader
from shoal.graph.schema import FOLLOWS, FOLLOWS_TAG, LISTS, AssocType

_PAGE = 20_000
_CLOCKS_MS = 2_000
"""The most by which the clocks of two machines may differ."""


async def every_source(graph: Reader, viewer: int) -> dict[int, int]:
    """Return the sources that a viewer follows, and the viewer: posts with greater ids than that of a source are wanted from it."""
    found = {viewer: 0}
    for atype in (FOLLOWS, FOLLOWS_TAG):
        found |= await _followed(graph, viewer, atype)
    return found


async def which_of(graph: Reader, viewer: int, sources: Collection[int]) -> dict[int, int]:
    """Return those of these sources that the viewer follows, as `every_source` does; one read."""
    found = await graph.assoc_get(viewer, (FOLLOWS, FOLLOWS_TAG), list(sources))
    return {source: _since(assoc) for held in found.values() for source, assoc in held.items()}


async def every_listed(graph: Reader, list_id: int) -> dict[int, int]:
    """Return the members of a list, as `every_source` returns sources."""
    return await _followed(graph, list_id, LISTS)


async def _followed(graph: Reader, viewer: int, atype: AssocType) -> dict[int, int]:
    found: dict[int, int] = {}
    before = MAX_TIME
    while True:
        page = await graph.assoc_range(viewer, atype, Cursor(before=before, limit=_PAGE))
        found.update((assoc.id2, _since(assoc)) for assoc in page)
        if len(page) < _PAGE:
            return found
        before = page[-1].time


def _since(follow: Assoc) -> int:
    return floor_at(milliseconds_of(follow.time) - _CLOCKS_MS)

"""Questions that are put beside the one for stamps, whose answer will most likely be that nothing has changed.

In turn, the second would wait for the first, though it is put in any case. Its answer is never older than the request. But only
where the stamps say that nothing has changed since before it was put is it remembered, or taken for the later of the two.

Glossary (`docs/glossary.md`): stamp.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from shoal.core.model import Post
from shoal.graph.cache.cached import FEW, CachedGraph
from shoal.graph.cache.stamped import StampGuard
from shoal.graph.contract import Assoc, Reader
from shoal.graph.schema import AssocType

T = TypeVar("T")


class AheadGraph(CachedGraph):
    """A graph with a memory that asks its store beside the stamps, where it is known to have to."""

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        if not 0 < len(id2s) <= FEW or not self.asks_for_links(id1, atypes):
            return await super().assoc_get(id1, atypes, id2s)

        async def ask() -> tuple[dict[AssocType, dict[int, int]], dict[AssocType, dict[int, Assoc]]]:
            return await asyncio.gather(
                self._store.assoc_count((id1,), atypes), self._store.assoc_get(id1, atypes, id2s)
            )

        (counts, found), ticket = await self._stamped().enter_beside((id1,), ask())
        self._keep_counts((id1,), counts, ticket)
        return found

    def asks_for_links(self, id1: int, atypes: Sequence[AssocType]) -> bool:
        """Return whether the store is asked for a few links of these types and for their counts, whatever the stamp is.

        Where the request has asked for that stamp already, there is nothing to put a question beside.
        """
        guard = self._guard
        return (
            isinstance(guard, StampGuard)
            and len(atypes) > 1
            and guard.waits((id1,))
            and guard.has_seen(id1)
            and self._lacks_counts(id1, atypes)
        )

    def recalled_author(self, post_id: int) -> int:
        """Return whose post this is, as far as it is remembered; otherwise 0. That never changes, but the post may have gone."""
        node = self._objects.get(post_id)
        return node.author_id if isinstance(node, Post) else 0

    async def beside_list(
        self, id1: int, atype: AssocType, ids: Sequence[int], ask: Callable[[], Coroutine[Any, Any, T]]
    ) -> tuple[T] | None:
        """Put a question to something else while the stamps of these ids are asked for, of which `id1` is one.

        Returns its answer if the list, or that it is empty, is remembered, and was so before the question was put: until the
        caller waits for something else, `assoc_common` with the list is as it was then. None where that is not known, or where
        there is nothing to wait for: then the question is to be put afterwards.
        """
        guard = self._guard
        if (
            not isinstance(guard, StampGuard)
            or not guard.waits(ids)
            or not guard.has_seen(id1)
            or not self._has_set(id1, atype)
        ):
            return None
        answer, ticket = await guard.enter_beside(ids, ask())
        return (answer,) if guard.keeps(ticket, id1) and self._has_set(id1, atype) else None

    def _has_set(self, id1: int, atype: AssocType) -> bool:
        count = self._counts.of(id1, atype.number)
        return count == 0 or (count is not None and self._sets.of(id1, atype.number) is not None)

    def _stamped(self) -> StampGuard:
        if not isinstance(self._guard, StampGuard):
            raise TypeError("this memory knows of every change itself")
        return self._guard


def author_to_ask_about(graph: Reader, viewer: int, atypes: Sequence[AssocType], post_id: int) -> int:
    """Return whose post this is, if it is remembered, and the viewer's links of these types are not; otherwise 0."""
    if isinstance(graph, AheadGraph) and graph.asks_for_links(viewer, atypes):
        return graph.recalled_author(post_id)
    return 0

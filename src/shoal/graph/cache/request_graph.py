"""Graph readers of one request: dependency tracking, and speculative reads alongside the version token query.

A speculative result is never older than the request. It is cached, or preferred to the cached value, only if the tokens show
that nothing has changed since before the query.

Glossary (`docs/glossary.md`): stamp.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from shoal.core.model import Post
from shoal.graph.cache.cached_graph import FEW, CachedGraph
from shoal.graph.cache.coherence import StampGuard, Stamps
from shoal.graph.cache.dependencies import ChangeLog, ReadSet, being_made, depends_on, name_marks, not_noted, unnoted
from shoal.graph.contract import Assoc, Cursor, Reader, Store
from shoal.graph.schema import AnyNode, AssocType, Key

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


class NotedGraph(AheadGraph):
    """A graph with a memory, whose reads are noted in the read set of the answer that is being made, if one is.

    Without `stamps` it is for a process that knows of every change by its log: it makes them all itself, or follows the log of the
    one that does.
    """

    def __init__(
        self, store: Store, objects: int = 200_000, *, stamps: Stamps | None = None, log: ChangeLog | None = None
    ) -> None:
        super().__init__(store, objects, stamps=stamps, log=log)
        self.key_get = self._key_get
        self.assoc_ranks = unnoted(store.assoc_ranks)
        self.assoc_ended = unnoted(store.assoc_ended)
        self.assoc_ended_range = unnoted(store.assoc_ended_range)
        self.obj_scan = unnoted(store.obj_scan)
        self.assoc_scan = unnoted(store.assoc_scan)
        self.count_scan = unnoted(store.count_scan)

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        if (read := being_made()) is not None:
            await self._note(read, ids)
        return await super().obj_get(ids)

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        if (read := being_made()) is not None:
            await self._note(read, id1s, atypes)
        return await super().assoc_count(id1s, atypes)

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        if (read := being_made()) is not None:
            await self._note(read, (id1,), atypes)
        return await super().assoc_get(id1, atypes, id2s)

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        if (read := being_made()) is not None:
            await self._note(read, (id1,), (atype,))
        return await super().assoc_range(id1, atype, at)

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:
        if (read := being_made()) is not None:
            await self._note(read, id1s, (atype,))
        return await super().assoc_ranges(id1s, atype, at)

    async def assoc_common(
        self, id1: int, atypes: Sequence[AssocType], other: int, listed: AssocType
    ) -> dict[AssocType, frozenset[int]]:
        if (read := being_made()) is not None:
            await self._note(read, (id1,), atypes)
            await self._note(read, (other,), (listed,))
        return await super().assoc_common(id1, atypes, other, listed)

    async def _key_get(self, keys: Sequence[Key]) -> dict[Key, int]:
        if (read := being_made()) is not None:
            names = name_marks(keys)
            if len(names) < len(keys):
                not_noted()
            await self._note(read, names)
        return await self._store.key_get(keys)

    async def _note(self, read: ReadSet, ids: Sequence[int], atypes: Sequence[AssocType] = ()) -> None:
        """Note objects, or lists of these types; before they are read, for a stamp that is asked for later may be a newer one."""
        guard = self._guard
        if isinstance(guard, StampGuard):
            stamps = (await guard.enter(ids)).stamps
            if ids and not read.stamps:
                depends_on(lambda: guard.are_still(read.stamps), answer=True)
            read.note_stamps(ids, stamps)
        elif atypes:
            read.note_lists(ids, atypes)
        else:
            read.note_objects(ids)

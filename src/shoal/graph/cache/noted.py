"""A graph that notes what answers are made of.

Glossary (`docs/glossary.md`): stamp.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.graph.cache.ahead import AheadGraph
from shoal.graph.cache.read_sets import ChangeLog, ReadSet, being_made, depends_on, name_marks, not_noted, unnoted
from shoal.graph.cache.stamped import StampGuard
from shoal.graph.cache.stamps import Stamps
from shoal.graph.contract import Assoc, Cursor, Store
from shoal.graph.schema import AnyNode, AssocType, Key


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

"""A graph that notes what answers are made of."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar

from shoal.graph.cache.cached import CachedGraph
from shoal.graph.cache.read_sets import being_made, not_noted
from shoal.graph.contract import Assoc, Cursor, Store
from shoal.graph.schema import AnyNode, AssocType

T = TypeVar("T")
P = ParamSpec("P")


class NotedGraph(CachedGraph):
    """A graph with a memory, whose reads are noted in the read set of the answer that is being made, if one is.

    For a process that makes every change itself: its log of changes has those of nobody else.
    """

    def __init__(self, store: Store, objects: int = 200_000) -> None:
        super().__init__(store, objects)
        self.key_get = _unnoted(store.key_get)
        self.assoc_ranks = _unnoted(store.assoc_ranks)
        self.assoc_ended = _unnoted(store.assoc_ended)
        self.assoc_ended_range = _unnoted(store.assoc_ended_range)

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        if (read := being_made()) is not None:
            read.note_objects(ids)
        return await super().obj_get(ids)

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        if (read := being_made()) is not None:
            read.note_lists(id1s, atypes)
        return await super().assoc_count(id1s, atypes)

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        if (read := being_made()) is not None:
            read.note_lists((id1,), atypes)
        return await super().assoc_get(id1, atypes, id2s)

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        if (read := being_made()) is not None:
            read.note_lists((id1,), (atype,))
        return await super().assoc_range(id1, atype, at)

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:
        if (read := being_made()) is not None:
            read.note_lists(id1s, (atype,))
        return await super().assoc_ranges(id1s, atype, at)

    async def assoc_common(
        self, id1: int, atypes: Sequence[AssocType], other: int, listed: AssocType
    ) -> dict[AssocType, frozenset[int]]:
        if (read := being_made()) is not None:
            read.note_lists((id1,), atypes)
            read.note_lists((other,), (listed,))
        return await super().assoc_common(id1, atypes, other, listed)


def _unnoted(ask: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Whatever this asks for has no mark: an answer that is made of it is not remembered."""

    async def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        not_noted()
        return await ask(*args, **kwargs)

    return asked

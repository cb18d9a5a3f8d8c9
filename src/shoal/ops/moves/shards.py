"""How evenly a network lies on its stores and on its 64 data sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, pstdev
from typing import NamedTuple

from shoal.core.ids import shard_of
from shoal.core.placement import DATA_SOURCES, source_of
from shoal.graph.bulk import ASSOC_BYTES, Spread, Spreading, weigh
from shoal.graph.contract import Store
from shoal.graph.sharding.shard_map import ShardMap
from shoal.ops.checking.report import Progress
from shoal.ops.checking.scan import FIRST, OBJECTS_AT_ONCE, ROWS_AT_ONCE


class Evenness(NamedTuple):
    """The mean, standard deviation, least and greatest of some numbers."""

    mean: float
    deviation: float
    least: int
    most: int

    @classmethod
    def of(cls, numbers: Sequence[int]) -> Evenness:
        """There must be one at least."""
        return cls(fmean(numbers), pstdev(numbers), min(numbers), max(numbers))


async def spread_of(store: Store, tell: Progress) -> list[Spread]:
    """Return what each of the 64 data sources holds. A store that cannot tell is read through."""
    held = await store.spread() if isinstance(store, Spreading) else await _counted(store, tell)
    return [held.get(source, Spread()) for source in range(DATA_SOURCES)]


def by_store(known: ShardMap, held: Sequence[Spread]) -> list[Spread]:
    """Add up the data sources that each store of a map has."""
    return [_total(held[source] for source in known.of(place)) for place in range(len(known.stores))]


def evenness(held: Sequence[Spread]) -> Mapping[str, Evenness]:
    """Return how evenly members, posts and bytes lie."""
    parts: Mapping[str, Callable[[Spread], int]] = {
        "members": lambda each: each.members,
        "posts": lambda each: each.posts,
        "bytes": lambda each: each.bytes,
    }
    return {name: Evenness.of([part(each) for each in held]) for name, part in parts.items()}


def _total(held: Iterable[Spread]) -> Spread:
    total = Spread()
    for each in held:
        total = total.plus(each)
    return total


async def _counted(store: Store, tell: Progress) -> dict[int, Spread]:
    held: dict[int, Spread] = {}
    read = 0

    def add(id_: int, weight: Spread) -> None:
        source = source_of(shard_of(id_))
        held[source] = held.get(source, Spread()).plus(weight)

    after = FIRST
    while objects := await store.obj_scan(after, OBJECTS_AT_ONCE):
        for node in objects:
            add(node.id, weigh(node))
        after = objects[-1].id
        tell("objects", read := read + len(objects), 0)
    read = 0
    triple = (FIRST, FIRST, FIRST)
    while assocs := await store.assoc_scan(triple, ROWS_AT_ONCE):
        for row in assocs:
            add(row.id1, Spread(bytes=ASSOC_BYTES + len(row.data)))
        triple = assocs[-1][:3]
        tell("associations", read := read + len(assocs), 0)
    return held

"""Rows of an import, written straight into the tables of a store: the way into an empty network.

A commit reads what it touches, and judges it. Here nothing is read: every row must be new, and a part of which any row is
there already is refused whole. So a part leaves what the same commits would have left, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shoal.core.errors import Conflict
from shoal.core.ids import SEQUENCE_BITS, shard_of
from shoal.core.placement import DATA_SOURCES, SHARDS_PER_SOURCE, source_of
from shoal.graph.rows import KeyRow

Table = NDArray[np.int64]
ObjectRow = tuple[int, int, bytes]
"""Id, version, and the object as `encode_node` gives it."""

NO_LINKS: Table = np.empty((0, 4), np.int64)
NO_COUNTS: Table = np.empty((0, 3), np.int64)

_SOURCE_SHIFT = SEQUENCE_BITS + SHARDS_PER_SOURCE.bit_length() - 1


class Occupied(Conflict):
    """A row of the part is there already. Nothing was stored."""


class LoadPart(NamedTuple):
    """Rows that are stored together, each kind in the order of its keys."""

    objects: Sequence[ObjectRow] = ()
    keys: Sequence[KeyRow] = ()
    links: Table = NO_LINKS
    """Associations that are alive and say nothing: id1, type, id2, time. Their lists are not those ordered by id (`sql.BY_ID`)."""
    counts: Table = NO_COUNTS
    """Lengths of whole lists: id1, type, length."""

    def on(self, chosen: NDArray[np.bool_]) -> LoadPart:
        """Return the rows on the chosen data sources (64 truth values)."""
        return LoadPart(
            [row for row in self.objects if chosen[source_of(shard_of(row[0]))]],
            [row for row in self.keys if chosen[source_of(row.shard)]],
            self.links[chosen[sources_of(self.links[:, 0])]],
            self.counts[chosen[sources_of(self.counts[:, 0])]],
        )

    def __bool__(self) -> bool:
        return bool(self.objects or self.keys or len(self.links) or len(self.counts))

    def changed(self) -> list[int]:
        """Return the ids of what is remembered otherwise from now on."""
        return [*(row[0] for row in self.objects), *np.unique(self.counts[:, 0]).tolist()]


def sources_of(ids: Table) -> Table:
    """Return the data source of each id."""
    return ids >> _SOURCE_SHIFT & (DATA_SOURCES - 1)


@runtime_checkable
class Loading(Protocol):
    """A store that takes parts. `loads` says whether it does: one made of others does if they do."""

    @property
    def loads(self) -> bool:
        """Whether `load` may be called."""
        ...

    async def load(self, part: LoadPart) -> None:
        """Store a part, durably: all of it, or nothing in any store of which a row is there.

        Raises `Occupied` if a row was there already, and `Unavailable` as a commit does.
        """
        ...

"""The contract between a mover of data sources and the two stores that it moves them between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from shoal.graph.sharding.shard_map import ShardMap

LEASE_SECONDS = 2.0
"""For so long a process believes its map after it was told so; then it asks before it does anything."""
DEAD_SECONDS = 3.0
"""A process that was not seen for so long believes nothing any more: nobody waits for it."""


class RowKind(Enum):
    """The kinds of rows, in the order in which they are moved."""

    OBJECT = "object"
    ASSOCIATION = "association"
    COUNT = "count"
    KEY = "key"


class SourceState(NamedTuple):
    """A store's mark on a data source: its state, the other store, and how many changes are noted."""

    state: str
    peer: str | None
    noted: int


class RowNames:
    """Names of rows, by kind, each once."""

    def __init__(self, parts: Mapping[RowKind, Iterable[tuple[Any, ...]]] | None = None) -> None:
        self._parts = {kind: frozenset((parts or {}).get(kind, ())) for kind in RowKind}

    @classmethod
    def of(cls, entries: Iterable[Sequence[Any]]) -> RowNames:
        """From entries of a journal: kind, three numbers, space and name."""
        found: dict[RowKind, set[tuple[Any, ...]]] = {kind: set() for kind in RowKind}
        for kind, *parts in entries:
            # A name has as many parts as its kind asks for; the others are empty.
            found[RowKind(kind)].add(tuple(part for part in parts if part is not None))
        return cls(found)

    def plus(self, other: RowNames) -> RowNames:
        """Both."""
        return RowNames({kind: names | other._parts[kind] for kind, names in self._parts.items()})

    def minus(self, other: RowNames) -> RowNames:
        """Without those."""
        return RowNames({kind: names - other._parts[kind] for kind, names in self._parts.items()})

    def columns(self) -> Iterator[tuple[RowKind, list[list[Any]]]]:
        """By kind, in columns and in order; kinds of which there are none are left out."""
        for kind, names in self._parts.items():
            if names:
                yield kind, [list(column) for column in zip(*sorted(names), strict=True)]

    @property
    def size(self) -> int:
        """How many of all kinds."""
        return sum(map(len, self._parts.values()))


class Digest:
    """How many rows of each kind, and the sum of their hashes. Two stores with the same rows have equal ones."""

    def __init__(self, parts: Mapping[RowKind, tuple[int, int]]) -> None:
        self.parts = {kind: parts.get(kind, (0, 0)) for kind in RowKind}

    @property
    def rows(self) -> int:
        """How many rows of all kinds."""
        return sum(count for count, _ in self.parts.values())

    def __sub__(self, other: Digest) -> Digest:
        return Digest(
            {
                kind: (count - other.parts[kind][0], sum_ - other.parts[kind][1])
                for kind, (count, sum_) in self.parts.items()
            }
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(tuple(self.parts.values()))

    def differences(self, other: Digest) -> list[str]:
        """The kinds in which the two differ."""
        return [kind.value for kind in RowKind if self.parts[kind] != other.parts[kind]]


class Side(Protocol):
    """One of the two stores. Marks: see `postgres/moving_sql`; a store that keeps its own words for them says the same."""

    @property
    def url(self) -> str:
        """Where it is, as maps name it."""
        ...

    async def close(self) -> None:
        """Let others move."""
        ...

    async def mark(
        self, sources: Sequence[int], state: str, mover: int, peer: str, seconds: float | None = None
    ) -> None:
        """From now on these are `copying`, `frozen` or `away`; after `seconds`, unless that is None, `copying`."""
        ...

    async def end(self, sources: Sequence[int]) -> None:
        """They are not moving any more, and nothing is noted of them."""
        ...

    async def marks(self) -> dict[int, SourceState]:
        """By data source."""
        ...

    async def forget_noted(self, sources: Sequence[int]) -> None:
        """Empty the journal of these."""
        ...

    async def noted(self, sources: Sequence[int], limit: int) -> tuple[list[int], RowNames]:
        """The oldest entries of the journal, and what they name."""
        ...

    async def done(self, entries: Sequence[int]) -> None:
        """These entries of the journal are in the other store."""
        ...

    async def holds_others(self, sources: Sequence[int]) -> bool:
        """Whether there is anything that is not of these."""
        ...

    async def wipe(self, sources: Sequence[int]) -> int:
        """Delete every row of these; how many."""
        ...

    async def copy_to(self, other: Any, kind: RowKind, sources: Sequence[int], tell: Callable[[int], None]) -> int:
        """Write all rows of a kind to the other store, which has none; how many. `tell` hears of bytes."""
        ...

    async def rows_of(self, names: RowNames) -> dict[RowKind, list[Any]]:
        """The rows of these names as they are now; those that are not there are left out."""
        ...

    async def make_equal(self, names: RowNames, rows: dict[RowKind, list[Any]]) -> None:
        """Replace whatever is stored under these names by these rows; a name without a row ends up empty."""
        ...

    async def digest(self, sources: Sequence[int]) -> tuple[Digest, RowNames]:
        """Return the digest of these sources' rows that the journal does not name then, and the names that it has."""
        ...

    async def digest_but(self, sources: Sequence[int], names: RowNames) -> Digest:
        """Return the digest of these sources' rows, without the named ones."""
        ...

    async def digest_of(self, names: RowNames) -> Digest:
        """Return the digest of the named rows."""
        ...

    async def map(self) -> ShardMap | None:
        """The newest map that this store knows."""
        ...

    async def publish(self, new: ShardMap) -> None:
        """Let everybody who looks here know of a map."""
        ...

    async def switch(self, sources: Sequence[int], mover: int, peer: str, new: ShardMap) -> bool:
        """Give the data sources away and publish the map that says so, in one moment; False when they are not frozen any more."""
        ...

    async def admit(self, sources: Sequence[int], version: int, seconds: float) -> None:
        """These are here by the newest map: they may be written in `seconds` at the latest, whoever is left to say so."""
        ...

    async def laggards(self, version: int, seconds: float) -> int:
        """How many processes, seen within `seconds`, go by an older map."""
        ...

"""The shard map: which store has which of the 64 data sources, and the contract for moving them between stores.

The settings give a network its first map. Once data sources have been moved, the stores keep the map; the highest version is
valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from shoal.core.placement import DATA_SOURCES


class ShardMap(NamedTuple):
    """The stores of a network, and which of them keeps each data source: `owners[source]` is an index in `stores`.

    Indexes never change: a new store is appended. `moved` has the previous store of each data source that was moved and may be
    moved back. After a data source was moved back, `left` has the store whose rows of it are to be deleted.
    """

    stores: tuple[str, ...]
    owners: tuple[int, ...]
    version: int = 0
    moved: Mapping[int, int] = {}
    left: Mapping[int, int] = {}

    def of(self, store: int) -> list[int]:
        return [source for source, owner in enumerate(self.owners) if owner == store]

    def with_store(self, url: str) -> ShardMap:
        return self if url in self.stores else self._replace(stores=(*self.stores, url))

    def moving(self, sources: Iterable[int], a: int, b: int, *, returns: bool) -> ShardMap:
        """Return the next version of the map, in which these data sources have moved from store `a` to store `b`.

        If `returns`, store `b` had them before.
        """
        chosen = dict.fromkeys(sources, a)
        owners = tuple(b if source in chosen else owner for source, owner in enumerate(self.owners))
        moved = {source: store for source, store in self.moved.items() if source not in chosen}
        new = self._replace(owners=owners, version=self.version + 1)
        if returns:
            return new._replace(moved=moved, left={**self.left, **chosen})
        return new._replace(moved={**moved, **chosen})

    def plain(self) -> dict[str, Any]:
        """Return the map in its stored form, without the version."""
        return {
            "stores": list(self.stores),
            "owners": list(self.owners),
            "moved": {str(source): store for source, store in self.moved.items()},
            "left": {str(source): store for source, store in self.left.items()},
        }

    @classmethod
    def from_plain(cls, version: int, stored: Mapping[str, Any]) -> ShardMap:
        moved, left = ({int(source): store for source, store in stored[part].items()} for part in ("moved", "left"))
        return cls(tuple(stored["stores"]), tuple(stored["owners"]), version, moved, left)


def first_map(store: str | Mapping[str, str]) -> ShardMap:
    """Return the map from the settings: one store for everything, or ranges. Raises `ValueError`."""
    owners = parse_shard_map({f"0-{DATA_SOURCES - 1}": store} if isinstance(store, str) else store)
    stores = tuple(dict.fromkeys(owners[source] for source in range(DATA_SOURCES)))
    return ShardMap(stores, tuple(stores.index(owners[source]) for source in range(DATA_SOURCES)))


def parse_shard_map(ranges: Mapping[str, str]) -> dict[int, str]:
    """Parse `{"0-31": url, "32-63": url}` into the URL of each of the 64 data sources; each must be named exactly once."""
    owners: dict[int, str] = {}
    for text, url in ranges.items():
        sources = _range(text)
        if sources is None:
            raise ValueError(f"shard map: {text!r} is not a range of data sources such as 0-31")
        for source in sources:
            if source >= DATA_SOURCES or source in owners:
                raise ValueError(f"shard map: data source {source} is listed twice or above {DATA_SOURCES - 1}")
            owners[source] = url
    missing = sorted(set(range(DATA_SOURCES)) - set(owners))
    if missing:
        raise ValueError(f"shard map: no store for data source {missing[0]}")
    return owners


def parse_sources(text: str) -> list[int]:
    """Parse `12-15,20` into sorted data sources. Raises `ValueError`."""
    sources: set[int] = set()
    for part in text.split(","):
        found = _range(part.strip())
        if found is None or found.stop > DATA_SOURCES:
            raise ValueError(f"{text!r} is not a list of data sources (0 to {DATA_SOURCES - 1}), such as 12-15,20")
        sources.update(found)
    return sorted(sources)


def _range(text: str) -> range | None:
    """Parse `12-15` or `20`; None if the text is neither or the range is empty."""
    first, _, last = text.partition("-")
    if not (first.isdigit() and (last or first).isdigit()):
        return None
    return range(int(first), int(last or first) + 1) or None


def ranges_of(sources: Sequence[int]) -> str:
    """Format data sources as ranges: `12-15,20`."""
    parts: list[list[int]] = []
    for source in sorted(sources):
        if parts and parts[-1][1] == source - 1:
            parts[-1][1] = source
        else:
            parts.append([source, source])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def shown_url(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


LEASE_SECONDS = 2.0
"""How long a process uses its map after a store confirmed it; then it asks the store again before any read or write."""
DEAD_SECONDS = 3.0
"""A process not seen for this long no longer uses its map, so a move does not wait for it."""


class RowKind(Enum):
    """The kinds of rows, in the order in which they are moved."""

    OBJECT = "object"
    ASSOCIATION = "association"
    COUNT = "count"
    KEY = "key"


class SourceState(NamedTuple):
    """The state of a data source in a move, as recorded by a store, with the other store and the number of journal entries."""

    state: str
    peer: str | None
    noted: int


class RowNames:
    def __init__(self, parts: Mapping[RowKind, Iterable[tuple[Any, ...]]] | None = None) -> None:
        self._parts = {kind: frozenset((parts or {}).get(kind, ())) for kind in RowKind}

    @classmethod
    def of(cls, entries: Iterable[Sequence[Any]]) -> RowNames:
        """Return the row keys in journal entries. An entry is a kind, three numbers, a key space and a key name."""
        found: dict[RowKind, set[tuple[Any, ...]]] = {kind: set() for kind in RowKind}
        for kind, *parts in entries:
            # A key has as many parts as its kind needs; the others are empty.
            found[RowKind(kind)].add(tuple(part for part in parts if part is not None))
        return cls(found)

    def plus(self, other: RowNames) -> RowNames:
        return RowNames({kind: names | other._parts[kind] for kind, names in self._parts.items()})

    def minus(self, other: RowNames) -> RowNames:
        return RowNames({kind: names - other._parts[kind] for kind, names in self._parts.items()})

    def columns(self) -> Iterator[tuple[RowKind, list[list[Any]]]]:
        """Yield the sorted keys of each kind as columns; empty kinds are absent."""
        for kind, names in self._parts.items():
            if names:
                yield kind, [list(column) for column in zip(*sorted(names), strict=True)]

    @property
    def size(self) -> int:
        return sum(map(len, self._parts.values()))


@dataclass(frozen=True)
class Digest:
    """The number of rows of each kind and the sum of their hashes: equal for two stores with equal rows."""

    parts: Mapping[RowKind, tuple[int, int]]

    @property
    def rows(self) -> int:
        return sum(count for count, _ in self.parts.values())

    def __sub__(self, other: Digest) -> Digest:
        """Return this digest without the rows of another digest, which may lack kinds."""
        parts: dict[RowKind, tuple[int, int]] = {}
        for kind, (count, sum_) in self.parts.items():
            less, less_sum = other.parts.get(kind, (0, 0))
            parts[kind] = count - less, sum_ - less_sum
        return Digest(parts)

    def differences(self, other: Digest) -> list[str]:
        return [kind.value for kind in RowKind if self.parts.get(kind) != other.parts.get(kind)]


class Side(Protocol):
    """One of the two stores of a move: the source or the target."""

    @property
    def url(self) -> str:
        """The URL of the store, as in the shard map."""

    async def close(self) -> None:
        """Close the store and release its lock, so that other moves can start."""

    async def mark(
        self, sources: Sequence[int], state: str, mover: int, peer: str, seconds: float | None = None
    ) -> None:
        """Set the state of data sources: `copying`, `frozen` or `away`. It returns to `copying` after `seconds`, unless None."""

    async def end(self, sources: Sequence[int]) -> None:
        """Delete the states and the journal entries of these data sources."""

    async def marks(self) -> dict[int, SourceState]: ...

    async def forget_recorded(self, sources: Sequence[int]) -> None:
        """Empty the journal of changes to these data sources."""

    async def noted(self, sources: Sequence[int], limit: int) -> tuple[list[int], RowNames]:
        """Return the oldest entries of the journal of changes, and the row keys in them."""

    async def done(self, entries: Sequence[int]) -> None:
        """Delete these journal entries, because their rows were copied to the other store."""

    async def holds_others(self, sources: Sequence[int]) -> bool:
        """Return whether the store has rows of other data sources."""

    async def wipe(self, sources: Sequence[int]) -> int:
        """Delete every row of these data sources. Returns the number of rows deleted."""

    async def copy_to(self, other: Any, kind: RowKind, sources: Sequence[int], tell: Callable[[int], None]) -> int:
        """Copy all rows of a kind to the other store, which has none. Returns their number; `tell` is called with bytes copied."""

    async def rows_of(self, names: RowNames) -> dict[RowKind, list[Any]]:
        """Return the current rows with these keys; missing ones are absent."""

    async def make_equal(self, names: RowNames, rows: dict[RowKind, list[Any]]) -> None:
        """Replace all rows with these keys by `rows`; delete the keys without a row."""

    async def digest(self, sources: Sequence[int]) -> tuple[Digest, RowNames]:
        """Return a digest of the rows of these data sources without those in the journal, and the keys in the journal."""

    async def digest_but(self, sources: Sequence[int], names: RowNames) -> Digest:
        """Return a digest of the rows of these data sources without the rows in `names`."""

    async def digest_of(self, names: RowNames) -> Digest:
        """Return a digest of the rows with these keys."""

    async def map(self) -> ShardMap | None: ...

    async def publish(self, new: ShardMap) -> None:
        """Publish a map to the processes that use this store."""

    async def switch(self, sources: Sequence[int], mover: int, peer: str, new: ShardMap) -> bool:
        """Hand over data sources to the other store and publish the new map, atomically. Returns False if no longer frozen."""

    async def admit(self, sources: Sequence[int], version: int, seconds: float) -> None:
        """Allow writes to data sources that the newest map assigns to this store, after at most `seconds`."""

    async def laggards(self, version: int, seconds: float) -> int:
        """Return how many processes, seen within the last `seconds`, use an older version of the map."""

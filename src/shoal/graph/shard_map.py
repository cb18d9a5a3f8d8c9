"""The shard map: which store has which of the 8,192 logical shards, and the contract for moving them between stores.

In texts, `12-15` are data sources, and `17:0-63` is a part of data source 17: 64 of its 128 shards. The settings give a network
its first map. Once shards have been moved, the stores keep the map; the highest version is valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from shoal.core.placement import DATA_SOURCES, SHARDS, SHARDS_PER_SOURCE

T = TypeVar("T")


LogEnd = tuple[int, int, int]
"""The end of an event log when shards were frozen: its number, and the first two numbers of the position."""


class ShardMap(NamedTuple):
    """The stores of a network, and which of them keeps each logical shard: `owners[shard]` is an index in `stores`.

    Indexes never change: a new store is appended. `moved` has the previous store of each shard that was moved and may be moved
    back. `left` has, for each shard that was moved back, the store whose rows of that shard are to be deleted. `ends` has the end
    of the previous store's event log for each of these shards, if there is such a log.
    """

    stores: tuple[str, ...]
    owners: tuple[int, ...]
    version: int = 0
    moved: Mapping[int, int] = {}
    left: Mapping[int, int] = {}
    ends: Mapping[int, LogEnd] = {}

    def by_store(self) -> list[list[int]]:
        shards: list[list[int]] = [[] for _ in self.stores]
        for shard, owner in enumerate(self.owners):
            shards[owner].append(shard)
        return shards

    def with_store(self, url: str) -> ShardMap:
        return self if url in self.stores else self._replace(stores=(*self.stores, url))

    def moving(self, shards: Iterable[int], a: int, b: int, *, returns: bool, end: LogEnd | None = None) -> ShardMap:
        """Return the next version of the map, in which these shards have moved from store `a` to store `b`.

        `returns` means that the move undoes an earlier one from `b` to `a`. `end` is the end of the event log of store
        `a`, if it has one.
        """
        chosen = dict.fromkeys(shards, a)
        owners = tuple(b if shard in chosen else owner for shard, owner in enumerate(self.owners))
        moved = {shard: store for shard, store in self.moved.items() if shard not in chosen}
        ends = {shard: known for shard, known in self.ends.items() if shard not in chosen}
        ends |= dict.fromkeys(chosen, end) if end else {}
        new = self._replace(owners=owners, version=self.version + 1, ends=ends)
        if returns:
            return new._replace(moved=moved, left={**self.left, **chosen})
        return new._replace(moved={**moved, **chosen})

    def plain(self) -> dict[str, Any]:
        return {
            "stores": list(self.stores),
            "shards": _by_text(dict(enumerate(self.owners))),
            "moved": _by_text(self.moved),
            "left": _by_text(self.left),
            "ends": _by_text(
                {shard: self.ends[shard] for shard in sorted({*self.moved, *self.left} & self.ends.keys())}
            ),
        }

    @classmethod
    def from_plain(cls, version: int, stored: Mapping[str, Any]) -> ShardMap:
        # Version 0.2 stored data sources instead of shards: a list of their 64 owners, and their numbers in `moved` and `left`.
        parts = stored.get("shards") or {str(source): store for source, store in enumerate(stored["owners"])}
        owners, moved, left = (_by_shard(each) for each in (parts, stored["moved"], stored["left"]))
        ends = {shard: (log, history, xid) for shard, (log, history, xid) in _by_shard(stored.get("ends", {})).items()}
        return cls(tuple(stored["stores"]), tuple(owners[shard] for shard in range(SHARDS)), version, moved, left, ends)


def _by_text(owners: Mapping[int, T]) -> dict[str, T]:
    shards: dict[T, list[int]] = {}
    for shard, store in owners.items():
        shards.setdefault(store, []).append(shard)
    return {ranges_of(each): store for store, each in shards.items()}


def _by_shard(owners: Mapping[str, T]) -> dict[int, T]:
    return {shard: store for text, store in owners.items() for shard in parse_shards(text)}


class _Encoded:
    """A cache of the newest encoded map: a process sends it to all stores at once, and encoding it takes milliseconds."""

    def __init__(self) -> None:
        self._known: ShardMap | None = None
        self._text = ""

    def of(self, known: ShardMap) -> str:
        if known is not self._known:
            self._known, self._text = known, msgspec.json.encode(known.plain()).decode()
        return self._text


_encoded = _Encoded()


def to_json(known: ShardMap) -> str:
    return _encoded.of(known)


@lru_cache(4)
def from_json(version: int, stored: str) -> ShardMap:
    """Return a stored map. Cached, because a process receives a new map from all of its stores at once."""
    return ShardMap.from_plain(version, msgspec.json.decode(stored))


def first_map(store: str | Mapping[str, str]) -> ShardMap:
    """Return the map from the setting `store`: one URL for all shards, or a URL for each range. Raises `ValueError`."""
    if isinstance(store, str):
        return ShardMap((store,), (0,) * SHARDS)
    urls = parse_shard_map(store)
    places = {url: place for place, url in enumerate(dict.fromkeys(urls))}
    return ShardMap(tuple(places), tuple(places[url] for url in urls))


def parse_shard_map(ranges: Mapping[str, str]) -> list[str]:
    """Parse `{"0-16,17:0-63": url, "17:64-127,18-63": url}` into the URL of each shard.

    Raises `ValueError` unless each shard is named exactly once.
    """
    urls: dict[int, str] = {}
    for text, url in ranges.items():
        try:
            shards = parse_shards(text)
        except ValueError as error:
            raise ValueError(f"shard map: {error}") from error
        if twice := urls.keys() & shards:
            raise ValueError(f"shard map: {ranges_of(twice)} is listed twice")
        urls.update(dict.fromkeys(shards, url))
    if missing := set(range(SHARDS)) - urls.keys():
        raise ValueError(f"shard map: no store for {ranges_of(missing)}")
    return [urls[shard] for shard in range(SHARDS)]


_PART = re.compile(r"(?:(\d{1,4}):)?(\d{1,4})(?:-(\d{1,4}))?", re.ASCII)


def parse_shards(text: str) -> list[int]:
    """Parse data sources and parts of them, such as `12-15,17:0-63`, into sorted shards. Raises `ValueError`."""
    shards: set[int] = set()
    for part in text.split(","):
        found = _range(part.strip())
        if not found:
            raise ValueError(
                f"{text!r} is not a list of data sources (0 to {DATA_SOURCES - 1}) and parts of them"
                f" (shards 0 to {SHARDS_PER_SOURCE - 1}), such as 12-15,17:0-63"
            )
        shards.update(found)
    return sorted(shards)


def _range(text: str) -> range | None:
    """Parse `12-15`, `20`, `17:0-63` or `17:5`. Return None, or an empty range, if the text is not a valid range."""
    parsed = _PART.fullmatch(text)
    if parsed is None:
        return None
    first = int(parsed[2])
    last = int(parsed[3] or first)
    if parsed[1] is None:
        return range(first * SHARDS_PER_SOURCE, (last + 1) * SHARDS_PER_SOURCE) if last < DATA_SOURCES else None
    start = int(parsed[1]) * SHARDS_PER_SOURCE
    return range(start + first, start + last + 1) if start < SHARDS and last < SHARDS_PER_SOURCE else None


def ranges_of(shards: Iterable[int]) -> str:
    """Format shards as `parse_shards` reads them: `12-15,17:0-63,20`."""
    by_source: dict[int, list[int]] = {}
    for shard in sorted(shards):
        by_source.setdefault(shard // SHARDS_PER_SOURCE, []).append(shard % SHARDS_PER_SOURCE)
    whole = [source for source, parts in by_source.items() if len(parts) == SHARDS_PER_SOURCE]
    found = [(first, _range_text(first, last)) for first, last in _runs(whole)]
    found += [
        (source, f"{source}:{_range_text(first, last)}")
        for source, parts in by_source.items()
        if len(parts) < SHARDS_PER_SOURCE
        for first, last in _runs(parts)
    ]
    return ",".join(text for _, text in sorted(found, key=lambda part: part[0]))


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    """Return the first and last number of each run of consecutive numbers. The numbers must be sorted."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def _range_text(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def shown_url(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


_HEARTBEAT_SECONDS, _LONGEST_HEARTBEAT_SECONDS = 0.15, 0.75
_HEARTBEATS_PER_SECOND = 160


def heartbeat_seconds(stores: int) -> float:
    """Return the interval at which a process asks each of its stores for its map: longer with more stores, within limits."""
    return min(max(_HEARTBEAT_SECONDS, stores / _HEARTBEATS_PER_SECOND), _LONGEST_HEARTBEAT_SECONDS)


_CLAIMS_PER_SECOND, _LONGEST_ROUND_SECONDS = 200, 1.0


def round_seconds(stores: int) -> float:
    """Return the interval at which a process polls all stores for events, even if they have not reported any."""
    return min(stores / _CLAIMS_PER_SECOND, _LONGEST_ROUND_SECONDS)


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


class ShardState(NamedTuple):
    """A store's record of a shard in a move: its state, the other store, and the number of journal entries."""

    state: str
    peer: str | None
    changes: int


class RowNames:
    def __init__(self, parts: Mapping[RowKind, Iterable[tuple[Any, ...]]] | None = None) -> None:
        self._parts = {kind: frozenset((parts or {}).get(kind, ())) for kind in RowKind}

    @classmethod
    def of(cls, entries: Iterable[Sequence[Any]]) -> RowNames:
        """Return the row keys in journal entries. An entry is a row kind and the parts of a key, of which unused ones are None."""
        found: dict[RowKind, set[tuple[Any, ...]]] = {kind: set() for kind in RowKind}
        for kind, *parts in entries:
            found[RowKind(kind)].add(tuple(part for part in parts if part is not None))
        return cls(found)

    def plus(self, other: RowNames) -> RowNames:
        return RowNames({kind: names | other._parts[kind] for kind, names in self._parts.items()})

    def minus(self, other: RowNames) -> RowNames:
        return RowNames({kind: names - other._parts[kind] for kind, names in self._parts.items()})

    def columns(self) -> Iterator[tuple[RowKind, list[list[Any]]]]:
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
        """Return this digest without the rows of another digest, which may lack some kinds of rows."""
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
        self, shards: Sequence[int], state: str, mover: int, peer: str, seconds: float | None = None
    ) -> None:
        """Mark shards as `copying`, `frozen` or `away`. If `seconds` is given, their state returns to `copying` after that time."""

    async def end(self, shards: Sequence[int]) -> None:
        """Delete the states and the journal entries of these shards."""

    async def marks(self) -> dict[int, ShardState]: ...

    async def forget_recorded(self, shards: Sequence[int]) -> None:
        """Empty the journal of these shards."""

    async def recorded_changes(self, shards: Sequence[int], limit: int) -> tuple[list[int], RowNames]:
        """Return the oldest journal entries of these shards, and the keys of the changed rows that they record."""

    async def done(self, entries: Sequence[int]) -> None:
        """Delete these journal entries, because their rows were copied to the other store."""

    async def holds_others(self, shards: Sequence[int]) -> bool:
        """Return whether the store has rows of shards that are not in `shards`."""

    async def wipe(self, shards: Sequence[int]) -> int:
        """Delete every row of these shards. Returns their number."""

    async def copy_to(self, other: Any, kind: RowKind, shards: Sequence[int], tell: Callable[[int], None]) -> int:
        """Copy all rows of a kind to the other store, which has none; return their number. `tell` gets the size of each chunk."""

    async def rows_of(self, names: RowNames) -> dict[RowKind, list[Any]]:
        """Return the current rows with these keys. A key without a row is omitted."""

    async def make_equal(self, names: RowNames, rows: dict[RowKind, list[Any]]) -> None:
        """Replace all rows with these keys by `rows`; delete the keys without a row."""

    async def digest(self, shards: Sequence[int]) -> tuple[Digest, RowNames]:
        """Return a digest of the rows of these shards, and the keys of the rows in the journal of pending changes.

        The digest excludes the rows in the journal.
        """

    async def digest_but(self, shards: Sequence[int], names: RowNames) -> Digest:
        """Return the digest of the rows of these shards, except the rows with the keys in `names`."""

    async def digest_of(self, names: RowNames) -> Digest:
        """Return a digest of the rows with these keys."""

    async def map(self) -> ShardMap | None: ...

    async def publish(self, new: ShardMap) -> None:
        """Publish a map to the processes that use this store."""

    async def switch(self, shards: Sequence[int], mover: int, peer: str, new: ShardMap) -> bool:
        """Hand over the shards and publish the new map, atomically. Returns False if they are no longer frozen."""

    async def log_end(self) -> LogEnd | None:
        """Return the end of the event log; None if it is off."""

    async def turn_log_on(self) -> None:
        """Turn the event log on, as that of the other store."""

    async def admit(self, shards: Sequence[int], version: int, seconds: float, ends: Mapping[int, LogEnd]) -> None:
        """After `seconds`, accept writes to these shards again. Does nothing unless the map with this version is the newest.

        `ends` are those of the map: first, a marker of the move is written to the event log.
        """

    async def laggards(self, version: int, seconds: float) -> int:
        """Return how many processes that sent a heartbeat within the last `seconds` use an older version of the map."""

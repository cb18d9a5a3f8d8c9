"""A bounded LRU cache (`Recent`), and a variant whose values are stored by object and list type (`ByType`)."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Generic, Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_PARTS = 8


class Weighed(Protocol):
    """A value that counts as `size` entries of a cache."""

    @property
    def size(self) -> int: ...


W = TypeVar("W", bound=Weighed)


class Recent(Generic[K, V]):
    """A bounded LRU cache of at most `size` entries; a single larger value is accepted too.

    The entries are in two dictionaries (generations), so that a hit in the younger one costs a single lookup and no order has
    to be maintained. When the younger generation fills seven eighths of the cache, it becomes the older one. While the last
    eighth fills, entries that are used again move to the younger generation; then the rest of the older one is evicted in
    parts, oldest first.

    `asked` and `missed` count the keys of bulk reads; `get` counts nothing.
    """

    __slots__ = ("_filled", "_fresh", "_most_fresh", "_old", "_part", "_size", "_weights", "_young", "asked", "missed")

    def __init__(self, size: int) -> None:
        self._size = max(1, size)
        self._most_fresh = self._size - self._size // _PARTS
        self._filled = self._fresh = self.asked = self.missed = 0
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._part = 1
        """Number of entries that are evicted at once.

        Finding the first entry of a dictionary takes time proportional to the number of entries deleted before it, so many are
        deleted for one search.
        """
        # Weights of the entries with a weight above 1.
        self._weights: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: K) -> V | None:
        found = self._young.get(key)
        if found is None and self._old and (found := self._old.pop(key, None)) is not None:
            self._young[key] = found
            self._fresh += self._weights.get(key, 1)
        return found

    def many(self, keys: Collection[K]) -> dict[K, V]:
        """Return the cached values by key and mark them as recently used: a faster `get` for many keys."""
        young = self._young
        found = {key: value for key in keys if (value := young.get(key)) is not None}
        if self._old and len(found) < len(keys):
            found.update((key, value) for key in keys if key not in found and (value := self.get(key)) is not None)
        self.asked += len(keys)
        self.missed += len(keys) - len(found)
        return found

    def count(self, asked: int, missed: int) -> None:
        """Add a bulk read that was done with `get` to the statistics: of `asked` keys, `missed` were not cached."""
        self.asked += asked
        self.missed += missed

    def put(self, key: K, value: V, weight: int = 1) -> None:
        """Add or replace a value that counts as `weight` entries."""
        if key in self._young or key in self._old:
            self.forget(key)
        if weight > 1:
            self._weights[key] = weight
        self._young[key] = value
        self._filled += weight
        self._fresh += weight
        if self._fresh > self._most_fresh:
            self._rotate()
        if self._filled > self._size:
            self._evict()

    def _rotate(self) -> None:
        for key in list(self._old):
            self.forget(key)
        self._old, self._young, self._fresh = self._young, {}, 0
        self._part = 1 + len(self._old) // _PARTS

    def _evict(self) -> None:
        while self._filled > self._size and len(self) > 1:
            if not self._old:
                self._rotate()
            for key in list(islice(self._old, min(self._part, len(self) - 1))):
                self.forget(key)

    def clear(self) -> None:
        self._filled = self._fresh = 0
        self._young, self._old, self._weights = {}, {}, {}

    def forget(self, key: K) -> None:
        if self._young.pop(key, None) is not None:
            weight = self._weights.pop(key, 1)
            self._fresh -= weight
            self._filled -= weight
        elif self._old and self._old.pop(key, None) is not None:
            self._filled -= self._weights.pop(key, 1)


class ByType(Recent[int, dict[int, W]]):
    """Values of lists, by object and then by list type. An object counts as one entry plus the sizes of its values."""

    __slots__ = ()

    def of(self, id1: int, number: int) -> W | None:
        values = self.get(id1)
        return values.get(number) if values else None

    def keep(self, id1: int, number: int, value: W) -> None:
        values = self.get(id1) or {}
        values[number] = value
        self.put(id1, values, 1 + sum(entry.size for entry in values.values()))

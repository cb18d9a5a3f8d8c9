"""A bounded memory of what was used last."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Generic, Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_PARTS = 8
"""The older generation of a memory is forgotten in so many parts."""


class Weighed(Protocol):
    """A value that counts for as many entries as its `size`."""

    @property
    def size(self) -> int: ...


W = TypeVar("W", bound=Weighed)


class Recent(Generic[K, V]):
    """A bounded memory of what was used last: at most `size` entries, or one value that counts for more.

    It has two generations, so that a value that is found in the younger one costs a look alone, and no order has to be kept. The
    younger one becomes the older when it fills seven eighths. While the last eighth fills, what is used again moves to the younger
    one. Then the rest of the older one is forgotten in parts, oldest first.

    `asked` and `missed` count the keys that bulk reads asked for, and those that were not remembered: `get` counts nothing.
    """

    __slots__ = ("_filled", "_fresh", "_most_fresh", "_old", "_part", "_size", "_weights", "_young", "asked", "missed")

    def __init__(self, size: int) -> None:
        self._size = max(1, size)
        self._most_fresh = self._size - self._size // _PARTS
        self._filled = self._fresh = self.asked = self.missed = 0
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._part = 1
        """So many are forgotten at once: the first entries of a dictionary are found in time that grows with those before them."""
        # Of what weighs more than 1.
        self._weights: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: K) -> V | None:
        """Return the remembered value, or None. A value found among the old ones counts as used again."""
        found = self._young.get(key)
        if found is None and self._old and (found := self._old.pop(key, None)) is not None:
            self._young[key] = found
            self._fresh += self._weights.get(key, 1)
        return found

    def many(self, keys: Collection[K]) -> dict[K, V]:
        """Return the remembered values by key, as `get` of each would, without a call for each."""
        young = self._young
        found = {key: value for key in keys if (value := young.get(key)) is not None}
        if self._old and len(found) < len(keys):
            found.update((key, value) for key in keys if key not in found and (value := self.get(key)) is not None)
        self.asked += len(keys)
        self.missed += len(keys) - len(found)
        return found

    def count(self, asked: int, missed: int) -> None:
        """Count a bulk read that was made by `get`."""
        self.asked += asked
        self.missed += missed

    def put(self, key: K, value: V, weight: int = 1) -> None:
        """Remember, in place of what was remembered by this key. `weight`: how many entries this one counts for."""
        if key in self._young or key in self._old:
            self.forget(key)
        if weight > 1:
            self._weights[key] = weight
        self._young[key] = value
        self._filled += weight
        self._fresh += weight
        if self._fresh > self._most_fresh:
            self._turn()
        if self._filled > self._size:
            self._make_room()

    def _turn(self) -> None:
        for key in list(self._old):
            self.forget(key)
        self._old, self._young, self._fresh = self._young, {}, 0
        self._part = 1 + len(self._old) // _PARTS

    def _make_room(self) -> None:
        while self._filled > self._size and len(self) > 1:
            if not self._old:
                self._turn()
            for key in list(islice(self._old, min(self._part, len(self) - 1))):
                self.forget(key)

    def clear(self) -> None:
        """Forget everything."""
        self._filled = self._fresh = 0
        self._young, self._old, self._weights = {}, {}, {}

    def forget(self, key: K) -> None:
        """Forget one."""
        if self._young.pop(key, None) is not None:
            weight = self._weights.pop(key, 1)
            self._fresh -= weight
            self._filled -= weight
        elif self._old and self._old.pop(key, None) is not None:
            self._filled -= self._weights.pop(key, 1)


class ByType(Recent[int, dict[int, W]]):
    """Values of lists, by object, then by the number of their type. An object counts as one entry, besides its values."""

    __slots__ = ()

    def of(self, id1: int, number: int) -> W | None:
        """Return the value of a list; None when it is not remembered."""
        held = self.get(id1)
        return held.get(number) if held else None

    def keep(self, id1: int, number: int, value: W) -> None:
        """Remember the value of a list."""
        held = self.get(id1) or {}
        held[number] = value
        self.put(id1, held, 1 + sum(kept.size for kept in held.values()))

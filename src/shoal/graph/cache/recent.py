"""A bounded memory of what was used last."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Weighed(Protocol):
    """A value that counts for as many entries as its `size`."""

    @property
    def size(self) -> int: ...


W = TypeVar("W", bound=Weighed)


class Recent(Generic[K, V]):
    """A bounded memory of what was used last, in two generations: about `size` entries, never more than twice as many.

    `asked` and `missed` count the keys that bulk reads asked for, and those that were not remembered: `get` counts nothing.
    """

    __slots__ = ("_filled", "_old", "_size", "_weights", "_young", "asked", "missed")

    def __init__(self, size: int) -> None:
        self._size = max(1, size // 2)
        self._filled = self.asked = self.missed = 0
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        # Of what weighs more than 1.
        self._weights: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: K) -> V | None:
        """Return the remembered value, or None. A value found among the old ones counts as used again."""
        found = self._young.get(key)
        if found is None and (found := self._old.pop(key, None)) is not None:
            self.put(key, found, self._weights.get(key, 1))
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
        """Remember; what has not been used for a generation is forgotten. `weight`: how many entries this one counts for."""
        if self._filled >= self._size:
            self._old, self._young, self._filled = self._young, {}, 0
            self._weights = {kept: weight_ for kept, weight_ in self._weights.items() if kept in self._old}
        if weight > 1:
            self._weights[key] = weight
        self._young[key] = value
        self._filled += weight

    def clear(self) -> None:
        """Forget everything."""
        self._filled = 0
        self._young, self._old, self._weights = {}, {}, {}

    def forget(self, key: K) -> None:
        """Forget one."""
        self._young.pop(key, None)
        self._old.pop(key, None)


class ByType(Recent[int, dict[int, W]]):
    """Values of lists, by object, then by the number of their type. An object counts as one entry, besides its values."""

    __slots__ = ()

    def of(self, id1: int, number: int) -> W | None:
        """Return the value of a list; None when it is not remembered."""
        held = self.get(id1)
        return held.get(number) if held else None

    def keep(self, id1: int, number: int, value: W) -> None:
        """Remember the value of a list."""
        held = {**(self.get(id1) or {}), number: value}
        self.put(id1, held, 1 + sum(kept.size for kept in held.values()))

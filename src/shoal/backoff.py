"""Leaves alone for a while what failed, twice as long each time."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import NamedTuple


class _Rest(NamedTuple):
    until: float
    seconds: float


_NO_REST = _Rest(0.0, 0.0)


class Rests:
    """Rests by name, from `first` to `longest` seconds. Of more than `most` that rest, all are forgotten."""

    def __init__(self, first: float, longest: float, most: int) -> None:
        self._first = first
        self._longest = longest
        self._most = most
        self._held: dict[Hashable, _Rest] = {}

    def is_resting(self, name: Hashable) -> bool:
        """Return whether something is left alone now."""
        return time.monotonic() < self._held.get(name, _NO_REST).until

    def lengthen(self, name: Hashable) -> float:
        """Leave something alone from now on, and return for how many seconds. If it rests already, it rests no longer for that.

        So of many attempts that fail at once the first counts.
        """
        now, held = time.monotonic(), self._held.get(name, _NO_REST)
        if now < held.until:
            return held.until - now
        before = held.seconds
        if len(self._held) >= self._most:
            self._held.clear()
        seconds = min(max(2 * before, self._first), self._longest)
        self._held[name] = _Rest(now + seconds, seconds)
        return seconds

    def end(self, name: Hashable) -> None:
        """Leave something alone no longer: it did not fail."""
        self._held.pop(name, None)

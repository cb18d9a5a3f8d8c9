"""Exponential backoff, keyed by name."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import NamedTuple


class _Rest(NamedTuple):
    until: float
    seconds: float


_NO_REST = _Rest(0.0, 0.0)


class Rests:
    """Backoff by name, from `first` to `longest` seconds. With more than `most` names, all are reset."""

    def __init__(self, first: float, longest: float, most: int) -> None:
        self._first = first
        self._longest = longest
        self._most = most
        self._held: dict[Hashable, _Rest] = {}

    def is_resting(self, name: Hashable) -> bool:
        return time.monotonic() < self._held.get(name, _NO_REST).until

    def lengthen(self, name: Hashable) -> float:
        """Start or double the backoff of a name, and return its remaining seconds. A running backoff is not extended.

        So of many concurrent failures only the first counts.
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
        self._held.pop(name, None)

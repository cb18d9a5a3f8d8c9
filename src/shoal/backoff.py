"""Exponential backoff, keyed by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import NamedTuple


class _Wait(NamedTuple):
    until: float
    seconds: float


_NO_WAIT = _Wait(0.0, 0.0)


class Backoff:
    """Exponential backoff by name, from `first` to `longest` seconds.

    If there are more than `most` names, all of them are reset.
    """

    def __init__(self, first: float, longest: float, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._first = first
        self._longest = longest
        self._most = most
        self._clock = clock
        self._waits: dict[Hashable, _Wait] = {}

    def is_active(self, name: Hashable) -> bool:
        return self._clock() < self._waits.get(name, _NO_WAIT).until

    def extend(self, name: Hashable) -> float:
        """Start or double the backoff of a name, and return its remaining seconds.

        A running backoff is not extended, so of several concurrent failures only the first counts.
        """
        now, wait = self._clock(), self._waits.get(name, _NO_WAIT)
        if now < wait.until:
            return wait.until - now
        if len(self._waits) >= self._most:
            self._waits.clear()
        seconds = min(max(2 * wait.seconds, self._first), self._longest)
        self._waits[name] = _Wait(now + seconds, seconds)
        return seconds

    def reset(self, name: Hashable) -> None:
        self._waits.pop(name, None)

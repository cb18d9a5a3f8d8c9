"""Workers' reports: how many jobs they have in hand, since when, and how many they finish."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

import msgspec

_RATE_SECONDS = 10.0


class WorkerFigures(msgspec.Struct, array_like=True):
    """A worker's report; several add up. `silent`: workers that did not answer."""

    workers: int = 0
    silent: int = 0
    in_hand: int = 0
    oldest: int = 0
    """Since when (Unix ms) the oldest job in hand waits; 0 when there is none."""
    taken: int = 0
    rate: float = 0.0
    """Jobs finished a second."""

    def add(self, other: WorkerFigures) -> None:
        """Count another one in."""
        self.workers += other.workers
        self.in_hand += other.in_hand
        self.oldest = min(filter(None, (self.oldest, other.oldest)), default=0)
        self.taken += other.taken
        self.rate += other.rate


def summed(answers: Iterable[WorkerFigures], silent: int) -> WorkerFigures:
    """Add up the answers of workers. Those that are `silent` count as having something in hand."""
    total = WorkerFigures(silent=silent)
    for tally in answers:
        total.add(tally)
    return total


class Rate:
    """How many a second, over the last ten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: deque[tuple[float, int]] = deque()

    def add(self, count: int) -> None:
        """So many, now."""
        now = self._clock()
        self._counts.append((now, count))
        while self._counts[0][0] < now - _RATE_SECONDS:
            self._counts.popleft()

    @property
    def value(self) -> float:
        """How many a second."""
        since = self._clock() - _RATE_SECONDS
        return sum(count for moment, count in self._counts if moment >= since) / _RATE_SECONDS

"""Times for which a process stood still, for everybody: its event loop was late, or garbage was collected."""

from __future__ import annotations

import asyncio
import gc
import time
from bisect import bisect_left
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

from shoal.metrics.families import Families

_EVERY_SECONDS = 0.025
_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_WINDOW_SECONDS = 60
"""Scrapes are further apart than pauses are long: the longest one is told for a minute."""


class PauseTimes:
    """A histogram of pauses in seconds since the process began, and the longest one of the last minute."""

    def __init__(self) -> None:
        self._steps = [0] * (len(_EDGES) + 1)
        self._seconds = 0.0
        # Pauses that none after them was longer than, with their moments: the first is the longest.
        self._longest: deque[tuple[float, float]] = deque()

    def note(self, seconds: float, now: float) -> None:
        """Count a pause that ended now, by a clock that never steps back."""
        self._steps[bisect_left(_EDGES, seconds)] += 1
        self._seconds += seconds
        while self._longest and self._longest[-1][1] <= seconds:
            self._longest.pop()
        self._longest.append((now, seconds))
        self._expire(now)

    def longest(self, now: float) -> float:
        """Return the seconds of the longest pause that ended in the last minute; 0 if there was none."""
        self._expire(now)
        return self._longest[0][1] if self._longest else 0.0

    def add_to(self, families: Families, name: str, longest: str) -> None:
        """Add the histogram, and the longest pause, under these names."""
        families.add_histogram(name, _EDGES, self._steps, self._seconds)
        families.add(longest, self.longest(time.perf_counter()))

    def _expire(self, now: float) -> None:
        while self._longest and self._longest[0][0] <= now - _WINDOW_SECONDS:
            self._longest.popleft()


class ProcessPauses(NamedTuple):
    """Delays of the event loop, and times of collections of garbage."""

    loop: PauseTimes
    garbage: PauseTimes


@asynccontextmanager
async def pauses_watched() -> AsyncIterator[ProcessPauses]:
    """Count the pauses of this process during the block."""
    pauses = ProcessPauses(PauseTimes(), PauseTimes())
    async with loop_watched(pauses.loop):
        with garbage_watched(pauses.garbage):
            yield pauses


@asynccontextmanager
async def loop_watched(delays: PauseTimes) -> AsyncIterator[None]:
    """Count delays of the event loop during the block: those of a timer that is due 25 ms after it has rung.

    A loop that is blocked for longer than that is always seen, and its delay is at most that much too short. Of shorter
    stops one is seen as often as its share of 25 ms.
    """
    loop = asyncio.get_running_loop()
    handle: asyncio.TimerHandle

    def ring(begun: float) -> None:
        # The loop's own clock has whole milliseconds, and stands still within a turn.
        now = time.perf_counter()
        delays.note(max(0.0, now - begun - _EVERY_SECONDS), now)
        wait()

    def wait() -> None:
        nonlocal handle
        handle = loop.call_later(_EVERY_SECONDS, ring, time.perf_counter())

    wait()
    try:
        yield
    finally:
        handle.cancel()


@contextmanager
def garbage_watched(pauses: PauseTimes) -> Iterator[None]:
    """Count the times that collections of garbage take during the block, in whichever thread: all threads wait."""
    began = 0.0

    def called(phase: str, _info: Mapping[str, Any]) -> None:
        nonlocal began
        now = time.perf_counter()
        if phase == "start":
            began = now
        elif began:
            pauses.note(now - began, now)

    gc.callbacks.append(called)
    try:
        yield
    finally:
        gc.callbacks.remove(called)

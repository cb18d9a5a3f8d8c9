"""Figures of the process itself: its version, the delay of its event loop, whether the parts that it needs answer."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from importlib.metadata import version

from prometheus_client.metrics_core import Metric

from shoal.api.http.readiness import Readiness
from shoal.metrics.families import Families

_EVERY_SECONDS = 0.1
_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class LoopDelay:
    """Delays of a timer that is due a tenth of a second after it has rung.

    A loop that is blocked for longer than that is always seen, and its delay is at most that much too short.
    """

    def __init__(self) -> None:
        self._steps = [0] * (len(_EDGES) + 1)
        self._seconds = 0.0

    def note(self, seconds: float) -> None:
        """Count one delay."""
        self._steps[bisect_left(_EDGES, seconds)] += 1
        self._seconds += seconds

    @asynccontextmanager
    async def sampled(self) -> AsyncIterator[None]:
        """Sample in the background until the block ends."""
        loop = asyncio.get_running_loop()
        handle: asyncio.TimerHandle

        def ring(begun: float) -> None:
            # The loop's own clock has whole milliseconds, and stands still within a turn.
            self.note(max(0.0, time.perf_counter() - begun - _EVERY_SECONDS))
            wait()

        def wait() -> None:
            nonlocal handle
            handle = loop.call_later(_EVERY_SECONDS, ring, time.perf_counter())

        wait()
        try:
            yield
        finally:
            handle.cancel()

    def add_to(self, families: Families) -> None:
        """Add the histogram."""
        families.add_histogram("shoal_loop_delay_seconds", _EDGES, self._steps, self._seconds)


class ProcessFigures:
    """A source of the figures of this process, which has a role: web or worker."""

    def __init__(self, role: str, delay: LoopDelay, readiness: Readiness) -> None:
        self._role = role
        self._delay = delay
        self._readiness = readiness

    async def read(self) -> Iterable[Metric]:
        """Return the figures as they are now."""
        families = Families()
        families.add("shoal_info", 1, version("shoal"), self._role)
        self._delay.add_to(families)
        for part, answers in (await self._readiness.parts()).items():
            families.add("shoal_part_up", answers, part)
        return families.made()

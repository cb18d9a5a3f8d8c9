"""Figures of the process itself: its version, its pauses, whether the parts that it needs answer."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version

from prometheus_client.metrics_core import Metric

from shoal.metrics.families import Families
from shoal.metrics.pauses import ProcessPauses
from shoal.observability.readiness import Readiness


class ProcessFigures:
    """A source of the figures of this process, which has a role: web or worker."""

    def __init__(self, role: str, pauses: ProcessPauses, readiness: Readiness) -> None:
        self._role = role
        self._pauses = pauses
        self._readiness = readiness

    async def read(self) -> Iterable[Metric]:
        """Return the figures as they are now."""
        families = Families()
        families.add("shoal_info", 1, version("shoal"), self._role)
        self._pauses.loop.add_to(families, "shoal_loop_delay_seconds", "shoal_loop_delay_longest_seconds")
        self._pauses.garbage.add_to(families, "shoal_garbage_pause_seconds", "shoal_garbage_pause_longest_seconds")
        for part, answers in (await self._readiness.parts()).items():
            families.add("shoal_part_up", answers, part)
        return families.made()

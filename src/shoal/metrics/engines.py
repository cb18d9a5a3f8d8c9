"""Figures that engines give of themselves, as metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client.metrics_core import Metric

from shoal.metrics.families import Families
from shoal.ops.vitals.contract import VitalName
from shoal.ops.vitals.watch import EngineWatch

NAMES: Mapping[VitalName, str] = {
    "stored_bytes": "shoal_engine_stored_bytes",
    "log_bytes": "shoal_engine_log_bytes",
    "disk_free_bytes": "shoal_engine_disk_free_bytes",
    "memory_bytes": "shoal_engine_memory_bytes",
    "memory_most_bytes": "shoal_engine_memory_most_bytes",
    "items": "shoal_engine_items",
    "connections": "shoal_engine_connections",
    "connections_most": "shoal_engine_connections_most",
    "commits": "shoal_engine_commits_total",
    "deadlocks": "shoal_engine_deadlocks_total",
    "evicted": "shoal_engine_evicted_total",
    "operations_per_second": "shoal_engine_operations_per_second",
    "cache_hits": "shoal_engine_cache_hit_ratio",
    "longest_transaction_seconds": "shoal_engine_longest_transaction_seconds",
    "replica_behind_seconds": "shoal_engine_replica_behind_seconds",
    "jobs_waiting": "shoal_engine_jobs_waiting",
    "jobs_delayed": "shoal_engine_jobs_delayed",
    "jobs_set_aside": "shoal_engine_jobs_set_aside",
    "workers": "shoal_engine_workers",
}
"""The metric of each figure."""


class EngineFigures:
    """A source of the figures of all engines of a network. Each engine is asked at most every few seconds."""

    def __init__(self, watch: EngineWatch) -> None:
        self._watch = watch

    async def read(self) -> Iterable[Metric]:
        """Return the figures as the engines told them."""
        families = Families()
        seen: Counter[tuple[str, str]] = Counter()
        for one in await self._watch.look():
            # Files of one name may lie in two folders, and no two samples may have the same labels.
            seen[one.engine, one.place] += 1
            number = seen[one.engine, one.place]
            place = one.place if number == 1 else f"{one.place} ({number})"
            families.add("shoal_engine_up", one.reached, one.engine, place)
            if one.version:
                families.add("shoal_engine_info", 1, one.engine, place, one.version)
            for vital in one.vitals:
                families.add(NAMES[vital.name], vital.value, one.engine, place)
                families.add("shoal_engine_attention", vital.wrong, one.engine, place, vital.name)
        return families.made()

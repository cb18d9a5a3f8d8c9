"""Figures of what follows from events: how much waits, how late it is, what was pushed, indexed and counted."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from shoal.core.errors import ShoalError
from shoal.core.events import PostCreated
from shoal.core.ids import milliseconds_of
from shoal.graph.contract import Job
from shoal.graph.schema import EVERYBODY, LOUD
from shoal.metrics.families import Families
from shoal.wiring import Network

_EDGES = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0)
_LONGEST_SECONDS = 86_400.0
"""A post that seems to be older was imported under the moment at which it was written elsewhere."""


class DeliveryLag:
    """Times from the commit of an event to the end of its consequences."""

    def __init__(self) -> None:
        self._steps = [0] * (len(_EDGES) + 1)
        self._seconds = 0.0

    def note(self, job: Job) -> None:
        """Count a job that has just ended. One that was put back says no moment, but a new post does by its id."""
        at = job.at or (milliseconds_of(job.event.post_id) if isinstance(job.event, PostCreated) else 0)
        seconds = time.time() - at / 1_000
        if seconds < _LONGEST_SECONDS:
            seconds = max(0.0, seconds)
            self._steps[bisect_left(_EDGES, seconds)] += 1
            self._seconds += seconds

    def add_to(self, families: Families) -> None:
        """Add the histogram."""
        families.add_histogram("shoal_delivery_lag_seconds", _EDGES, self._steps, self._seconds)


class DeliveryFigures:
    """A source of these figures. While a store does not answer, what it alone knows is left out."""

    def __init__(self, network: Network, lag: DeliveryLag) -> None:
        self._network = network
        self._lag = lag

    async def read(self) -> Iterable[Metric]:
        """Return the figures as they are now."""
        families = Families()
        self._lag.add_to(families)
        self._add_counts(families)
        await self._add_answers(families)
        return families.made()

    def _add_counts(self, families: Families) -> None:
        network = self._network
        runner, counting = network.runner, network.counting
        families.add("shoal_deliveries_behind_seconds", runner.behind())
        families.add("shoal_jobs_done_total", runner.finished)
        families.add("shoal_jobs_failed_total", runner.failed)
        families.add("shoal_jobs_buried_total", runner.set_aside)
        families.add("shoal_pushed_entries_total", network.reads.tally.pushed)
        families.add("shoal_pulled_lists_total", network.reads.tally.pulled)
        families.add("shoal_search_behind_seconds", network.search.behind())
        families.add("shoal_search_written_total", network.search.written)
        families.add("shoal_tag_merges_total", counting.collector.merges)
        families.add("shoal_tag_increments_sent_total", counting.emitter.sent)
        families.add("shoal_tag_increments_waiting", counting.collector.pending)

    async def _add_answers(self, families: Families) -> None:
        store = self._network.store
        try:
            families.add("shoal_events_waiting", await store.backlog())
            families.add("shoal_oldest_event_seconds", await store.lag())
            families.add("shoal_jobs_set_aside", len(await store.buried()))
            loud = await store.assoc_count((EVERYBODY,), (LOUD,))
            families.add("shoal_loud_sources", loud[LOUD].get(EVERYBODY, 0))
        except ShoalError:
            # `shoal_part_up` says so.
            return

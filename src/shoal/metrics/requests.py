"""Figures of the requests that a web process was asked, refused and works on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.metrics_core import Metric

from shoal.metrics.families import Families
from shoal.observability.request_metrics import EDGES_MS, RouteTotals
from shoal.server import RunningFront

_EDGES = tuple(edge / 1_000 for edge in EDGES_MS)


class RequestFigures:
    """A source of the figures of a front end."""

    def __init__(self, running: RunningFront) -> None:
        self._running = running

    async def read(self) -> Iterable[Metric]:
        """Return the figures as they are now. Those by route are made while they are gone through, in any thread."""
        front, gate, connections = self._running.front, self._running.gate, self._running.connections
        families = Families()
        refused = {
            "behind": front.writes.pressure.refused,
            "blocked": front.ip_guard.refused,
            "busy": gate.refused if gate else 0,
            "connections": connections.refused,
        }
        for reason, number in refused.items():
            families.add("shoal_requests_refused_total", number, reason)
        for limit_class in sorted(front.limiter.classes):
            families.add("shoal_rate_limited_total", front.limiter.refused.get(limit_class, 0), limit_class)
        if gate is not None:
            families.add("shoal_requests_at_work", gate.at_work)
            families.add("shoal_requests_waiting", gate.waiting)
        families.add("shoal_connections", connections.open)
        families.add("shoal_listeners", front.streams.number)
        for name, memory in front.present.memories.items():
            families.add("shoal_cache_entries", len(memory), name)
        if (answers := front.answers) is not None:
            families.add("shoal_cache_entries", len(answers), "answers")
            families.add("shoal_cache_asked_total", answers.asked, "answers")
            families.add("shoal_cache_missed_total", answers.missed, "answers")
        return _with_routes(families, front.meter.totals())


def _with_routes(families: Families, totals: Mapping[str, RouteTotals]) -> Iterator[Metric]:
    for route, sums in totals.items():
        for status, number in sums.statuses.items():
            families.add("shoal_requests_total", number, route, str(status))
        families.add_histogram("shoal_request_seconds", _EDGES, sums.steps, sums.milliseconds / 1_000, route)
    yield from families.made()

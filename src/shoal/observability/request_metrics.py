"""Figures of requests in this process: how many, how long, and which were slow, for the last ten minutes and since it began.

A latency is counted in one of 80 steps, each a fifth longer than the one before, from 0.1 ms on: a percentile read from them is
right to a tenth. A request costs a microsecond, and is counted once: every ten seconds the newest counts are added to those since
the beginning, which have 14 steps, in 200 bytes a route.
"""

from __future__ import annotations

import math
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

_SLOT_SECONDS = 10
_SLOTS = 60
_STEPS = 80
_FIRST_MS = 0.1
_TO_TEN = 12
"""Steps until a latency is ten times as long."""
_FACTOR = math.log(10) / _TO_TEN
_SLOW_KEPT = 40
_EVERY = 4
_FROM = _TO_TEN
EDGES_MS = tuple(
    float(f"{_FIRST_MS * math.exp(step * _FACTOR):.3g}") for step in range(_FROM, _FROM + 4 * _TO_TEN + 1, _EVERY)
)
"""Upper ends, in milliseconds, of the steps in which latencies are counted since the process began: three to ten times as long,
from 1 ms to 10 s. Each is the end of one of the finer steps, to three digits."""


class Stages(NamedTuple):
    """Milliseconds of a request by stage: until it was let in, until there was an answer, until that was sent."""

    admitted: float
    handled: float
    sent: float

    @property
    def total(self) -> float:
        """Milliseconds of all of it."""
        return self.admitted + self.handled + self.sent


class SlowRequest(NamedTuple):
    """A request that took long, and where."""

    at_ms: int
    """Unix milliseconds."""
    route: str
    status: int
    request_id: str
    stages: Stages


class RouteFigures(NamedTuple):
    """Requests of one route in the last ten minutes; milliseconds."""

    route: str
    number: int
    failed: int
    """Answers with a status from 500 on."""
    p50: float
    p99: float


class Slot(NamedTuple):
    """Requests of ten seconds; milliseconds."""

    number: int
    failed: int
    refused: int
    """Answers 429 and 503."""
    p50: float
    p99: float


class RouteTotals:
    """Requests of one route since the process began: these numbers never fall."""

    __slots__ = ("milliseconds", "statuses", "steps")

    def __init__(self) -> None:
        self.milliseconds = 0.0
        """The latencies of all of them together."""
        self.statuses: dict[int, int] = {}
        """How many were answered with each status."""
        self.steps = array("Q", [0] * (len(EDGES_MS) + 1))
        """How many took at most as long as each of `EDGES_MS` and longer than the edge before; last, those beyond all."""

    def copy(self) -> RouteTotals:
        """Return the numbers as they are now."""
        copied = RouteTotals()
        copied.milliseconds, copied.statuses, copied.steps = self.milliseconds, dict(self.statuses), self.steps[:]
        return copied


class _Tally:
    __slots__ = ("milliseconds", "statuses", "steps")

    def __init__(self) -> None:
        self.milliseconds = 0.0
        self.statuses: dict[int, int] = {}
        self.steps = [0] * _STEPS

    def add(self, step: int, status: int, milliseconds: float) -> None:
        self.milliseconds += milliseconds
        self.steps[step] += 1
        self.statuses[status] = self.statuses.get(status, 0) + 1

    @property
    def count(self) -> int:
        return sum(self.statuses.values())

    @property
    def failed(self) -> int:
        return sum(number for status, number in self.statuses.items() if status >= 500)

    @property
    def refused(self) -> int:
        return self.statuses.get(429, 0) + self.statuses.get(503, 0)


class Meter:
    """The requests of the last ten minutes in figures, and totals since the process began.

    Both are kept by route. A route is named by its template, so there are never more of them than in the route table.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, slow_ms: float = 500.0) -> None:
        self._clock = clock
        self._slow_ms = slow_ms
        self._slots: deque[tuple[int, _Tally, dict[str, _Tally]]] = deque(maxlen=_SLOTS)
        self.slow: deque[SlowRequest] = deque(maxlen=_SLOW_KEPT)
        """The newest requests that took longer than `slow_ms`, the oldest first."""
        # Of all slots but the newest.
        self._totals: dict[str, RouteTotals] = {}

    def note(self, route: str, status: int, stages: Stages, request_id: str) -> None:
        """Count a request that was answered."""
        total = stages.total
        step = min(_STEPS - 1, math.ceil(math.log(total / _FIRST_MS) / _FACTOR)) if total > _FIRST_MS else 0
        slot = int(self._clock()) // _SLOT_SECONDS
        if not self._slots or self._slots[-1][0] != slot:
            self._totals = self.totals()
            self._slots.append((slot, _Tally(), {}))
        _, everything, routes = self._slots[-1]
        everything.add(step, status, total)
        held = routes.get(route)
        if held is None:
            held = routes[route] = _Tally()
        held.add(step, status, total)
        if total > self._slow_ms:
            self.slow.append(SlowRequest(time.time_ns() // 1_000_000, route, status, request_id, stages))

    def totals(self) -> dict[str, RouteTotals]:
        """Return the requests since the process began, by route. Nothing changes these values any more."""
        summed = {route: totals.copy() for route, totals in self._totals.items()}
        for route, tally in self._slots[-1][2].items() if self._slots else ():
            _add_up(summed.setdefault(route, RouteTotals()), tally)
        return summed

    def history(self) -> list[Slot]:
        """Return the last ten minutes, ten seconds each, the oldest first; quiet ones too."""
        now = int(self._clock()) // _SLOT_SECONDS
        found = {slot: tally for slot, tally, _ in self._slots}
        return [_slot(found.get(slot)) for slot in range(now - _SLOTS + 1, now + 1)]

    def routes(self) -> list[RouteFigures]:
        """Return the routes that were asked for in the last ten minutes, those that took the most time together first."""
        now = int(self._clock()) // _SLOT_SECONDS
        sums: dict[str, _Tally] = {}
        for slot, _, routes in self._slots:
            if slot > now - _SLOTS:
                for name, tally in routes.items():
                    _merge(sums.setdefault(name, _Tally()), tally)
        figures = [_figures(name, tally) for name, tally in sums.items()]
        return sorted(figures, key=lambda one: -one.number * one.p50)


def _add_up(into: RouteTotals, more: _Tally) -> None:
    into.milliseconds += more.milliseconds
    for status, number in more.statuses.items():
        into.statuses[status] = into.statuses.get(status, 0) + number
    for step, number in enumerate(more.steps):
        if number:
            into.steps[min(max(0, -((_FROM - step) // _EVERY)), len(EDGES_MS))] += number


def _merge(into: _Tally, more: _Tally) -> None:
    for status, number in more.statuses.items():
        into.statuses[status] = into.statuses.get(status, 0) + number
    into.steps = [mine + theirs for mine, theirs in zip(into.steps, more.steps, strict=True)]


def _slot(tally: _Tally | None) -> Slot:
    if tally is None:
        return Slot(0, 0, 0, 0.0, 0.0)
    return Slot(tally.count, tally.failed, tally.refused, *_percentiles(tally.steps, (0.5, 0.99)))


def _figures(name: str, tally: _Tally) -> RouteFigures:
    return RouteFigures(name, tally.count, tally.failed, *_percentiles(tally.steps, (0.5, 0.99)))


def _percentiles(steps: Sequence[int], parts: Iterable[float]) -> list[float]:
    """Return the upper ends of the steps in which these parts of all requests are reached, in milliseconds."""
    total = sum(steps)
    found = []
    for part in parts:
        wanted, seen = part * total, 0
        for step, count in enumerate(steps):
            seen += count
            if seen >= wanted:
                found.append(_FIRST_MS * math.exp(step * _FACTOR))
                break
    return found

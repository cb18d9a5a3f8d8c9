"""Measurement of requests and jobs: a recorder of single requests and jobs for `shoal why-slow`, and statistics of all requests.

`Meter` has the number, latency and failures of requests for the last ten minutes and since the start of the process,
and the latest slow requests. A latency is counted in one of 80 steps, which begin at 0.1 ms and are each 21 % longer
than the one before, so percentiles are accurate to a tenth. Counting a request takes a microsecond. Every ten seconds,
the newest counts are added to the totals, which have 14 steps and take 200 bytes per route.
"""

from __future__ import annotations

import logging
import math
import time
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal, NamedTuple, Protocol

from shoal.observability.request_log import LoggedJob, LoggedRequest, job_entry, request_entry
from shoal.observability.tracing import (
    HANDLE,
    Record,
    TraceContext,
    begin_recording,
    end_recording,
    state_of,
    trace_of,
    unpack,
)

_log = logging.getLogger("shoal.requests")
# The request log is controlled by its own setting, not by `log_level`.
_log.setLevel(logging.INFO)

MAX_LOGGED = 1_000
"""Maximum number of slow requests that are remembered. It is also the maximum number of job runs."""
_ABORTED, _FAILED = 499, 500

RequestLog = Literal["off", "slow", "all"]


class SpanSink(Protocol):
    def begin(
        self, name: str, parent: TraceContext | None, state: str, *, job: bool
    ) -> tuple[Any, TraceContext | None]:
        """Begin a span. Return the span and its ids; None instead of the ids if tracing is disabled."""
        ...

    def end(self, record: Record, name: str, attributes: dict[str, str | int]) -> None: ...


class Recorder:
    def __init__(self, log: RequestLog = "off", slow_ms: float = 500.0, spans: SpanSink | None = None) -> None:
        self.log = log
        self.slow_ms = slow_ms
        self._slow_seconds = slow_ms / 1_000
        self._spans = spans
        self.slow: deque[LoggedRequest] = deque(maxlen=MAX_LOGGED)
        """The newest slow requests, oldest first."""
        self.jobs: deque[LoggedJob] = deque(maxlen=MAX_LOGGED)
        """The newest job runs that were slow or belong to a trace, oldest first."""

    def begin(
        self, id_: str, method: str, headers: Sequence[tuple[bytes, bytes]], *, traced: bool = True
    ) -> Record | None:
        """Begin the record of a request.

        Return None if the request is not recorded. `traced` means that it has the header `traceparent`.
        """
        parent = trace_of(headers) if traced else None
        if self.log == "off" and parent is None and self._spans is None:
            return None
        state = state_of(headers) if parent and self._spans else ""
        return self._begun(id_, method, parent, state, job=False)

    def end(self, record: Record, failure: BaseException | None = None) -> None:
        """Close the record of a request, and log the request if required. `failure` is an unhandled error."""
        if not record.status:
            record.status = _FAILED if isinstance(failure, Exception) else _ABORTED
        record.close()
        slow = record.before_sending() >= self._slow_seconds
        if self.log == "all" or (slow and self.log == "slow"):
            entry = request_entry(record, slow=slow)
            if slow:
                self.slow.append(entry)
            _log.info(entry)
        if self._spans is not None:
            self._spans.end(record, f"{record.method} {record.route}", _request_attributes(record))

    @contextmanager
    def job(self, id_: str, event: str, attempt: int, trace: bytes) -> Iterator[Record | None]:
        """Record a job run during the block. The block must set `outcome`."""
        parent = unpack(trace)
        if self.log == "off" and parent is None and self._spans is None:
            yield None
            return
        record = self._begun(id_, event, parent, "", job=True)
        record.route, record.outcome = event, "later"
        record.enter(HANDLE)
        token = begin_recording(record)
        try:
            yield record
        finally:
            end_recording(token)
            record.close()
            slow = record.ended - record.began >= self._slow_seconds
            if self.log == "all" or (self.log == "slow" and (slow or parent is not None)):
                entry = job_entry(record, attempt, slow=slow)
                if slow or parent is not None:
                    self.jobs.append(entry)
                if slow or self.log == "all":
                    _log.info(entry)
            if self._spans is not None:
                self._spans.end(record, event, {"messaging.message.id": id_, "shoal.outcome": record.outcome})

    def _begun(self, id_: str, method: str, parent: TraceContext | None, state: str, *, job: bool) -> Record:
        trace = parent.child() if parent else None
        if self._spans is None:
            return Record(id_, method, parent, trace)
        span, trace = self._spans.begin(method, parent, state, job=job)
        record = Record(id_, method, parent, trace)
        record.span = span
        return record


def _request_attributes(record: Record) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "http.request.method": record.method,
        "http.route": record.route,
        "http.response.status_code": record.status,
        "http.response.body.size": record.bytes,
        "shoal.request_id": record.id,
    }
    return {**attributes, "shoal.member_id": str(record.member)} if record.member else attributes


_SLOT_SECONDS = 10
_SLOTS = 60
_STEPS = 80
_FIRST_MS = 0.1
_TO_TEN = 12
"""Number of steps in which a latency grows tenfold."""
_FACTOR = math.log(10) / _TO_TEN
_MAX_SLOW = 40
_EVERY = 4
_FROM = _TO_TEN
EDGES_MS = tuple(
    float(f"{_FIRST_MS * math.exp(step * _FACTOR):.3g}") for step in range(_FROM, _FROM + 4 * _TO_TEN + 1, _EVERY)
)
"""Upper ends, in milliseconds, of the latency steps of the totals, from 1 ms to 10 s.
Each is also the end of one of the 80 finer steps, rounded to three digits."""


class Stages(NamedTuple):
    """Milliseconds until a request was admitted, then until its response was ready, then until the response was sent."""

    admitted: float
    handled: float
    sent: float

    @property
    def total(self) -> float:
        return self.admitted + self.handled + self.sent


class SlowRequest(NamedTuple):
    at_ms: int
    """The time when the request ended, in Unix milliseconds."""
    route: str
    status: int
    request_id: str
    stages: Stages


class RouteFigures(NamedTuple):
    """Statistics of the requests of a route in the last ten minutes. Latencies are in milliseconds."""

    route: str
    number: int
    failed: int
    """Number of responses with a status of 500 or above."""
    p50: float
    p99: float


class Slot(NamedTuple):
    """Statistics of the requests in a period of ten seconds. Latencies are in milliseconds."""

    number: int
    failed: int
    refused: int
    """Number of responses with status 429 or 503."""
    p50: float
    p99: float


@dataclass(slots=True)
class RequestCounts:
    steps: MutableSequence[int]
    """Number of requests in each step of latency. The last step has no upper end."""
    milliseconds: float = 0.0
    """Sum of the latencies, in milliseconds."""
    statuses: dict[int, int] = field(default_factory=dict)

    def copy(self) -> RequestCounts:
        return RequestCounts(self.steps[:], self.milliseconds, self.statuses.copy())

    def add(self, step: int, status: int, milliseconds: float) -> None:
        self.milliseconds += milliseconds
        self.steps[step] += 1
        self.statuses[status] = self.statuses.get(status, 0) + 1

    def include(self, more: RequestCounts) -> None:
        """Add the latencies and statuses of other counts. The histogram does not change."""
        self.milliseconds += more.milliseconds
        for status, number in more.statuses.items():
            self.statuses[status] = self.statuses.get(status, 0) + number

    @property
    def count(self) -> int:
        return sum(self.statuses.values())

    @property
    def failed(self) -> int:
        return sum(number for status, number in self.statuses.items() if status >= 500)

    @property
    def refused(self) -> int:
        return self.statuses.get(429, 0) + self.statuses.get(503, 0)


def _recent() -> RequestCounts:
    return RequestCounts([0] * _STEPS)


def _total() -> RequestCounts:
    return RequestCounts(array("Q", [0] * (len(EDGES_MS) + 1)))


class Meter:
    """Collects statistics of requests by route, for the last ten minutes and since the start of the process.

    Routes are named by their templates, so their number is bounded by the route table.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, slow_ms: float = 500.0) -> None:
        self._clock = clock
        self._slow_ms = slow_ms
        self._slots: deque[tuple[int, RequestCounts, dict[str, RequestCounts]]] = deque(maxlen=_SLOTS)
        self.slow: deque[SlowRequest] = deque(maxlen=_MAX_SLOW)
        """The newest requests that took longer than `slow_ms`, oldest first."""
        # The totals lack the requests of the current interval, which are added at its end.
        self._totals: dict[str, RequestCounts] = {}

    def note(self, route: str, status: int, stages: Stages, request_id: str) -> None:
        total = stages.total
        step = min(_STEPS - 1, math.ceil(math.log(total / _FIRST_MS) / _FACTOR)) if total > _FIRST_MS else 0
        slot = int(self._clock()) // _SLOT_SECONDS
        if not self._slots or self._slots[-1][0] != slot:
            self._totals = self.totals()
            self._slots.append((slot, _recent(), {}))
        _, everything, routes = self._slots[-1]
        everything.add(step, status, total)
        figures = routes.get(route)
        if figures is None:
            figures = routes[route] = _recent()
        figures.add(step, status, total)
        if total > self._slow_ms:
            self.slow.append(SlowRequest(time.time_ns() // 1_000_000, route, status, request_id, stages))

    def totals(self) -> dict[str, RequestCounts]:
        """Return a copy of the counts since the start of the process, by route."""
        summed = {route: totals.copy() for route, totals in self._totals.items()}
        for route, counted in self._slots[-1][2].items() if self._slots else ():
            _add_to_total(summed.setdefault(route, _total()), counted)
        return summed

    def history(self) -> list[Slot]:
        """Return the last ten minutes in slots of ten seconds, oldest first. A slot without requests is included."""
        now = int(self._clock()) // _SLOT_SECONDS
        found = {slot: counted for slot, counted, _ in self._slots}
        return [_slot(found.get(slot)) for slot in range(now - _SLOTS + 1, now + 1)]

    def routes(self) -> list[RouteFigures]:
        """Return the statistics of routes in the last ten minutes. The route with the longest total time is first."""
        now = int(self._clock()) // _SLOT_SECONDS
        sums: dict[str, RequestCounts] = {}
        for slot, _, routes in self._slots:
            if slot > now - _SLOTS:
                for name, counted in routes.items():
                    _merge(sums.setdefault(name, _recent()), counted)
        figures = [
            RouteFigures(name, counts.count, counts.failed, *_percentiles(counts.steps))
            for name, counts in sums.items()
        ]
        return sorted(figures, key=lambda route: -route.number * route.p50)


def _add_to_total(into: RequestCounts, more: RequestCounts) -> None:
    into.include(more)
    for step, number in enumerate(more.steps):
        if number:
            into.steps[min(max(0, -((_FROM - step) // _EVERY)), len(EDGES_MS))] += number


def _merge(into: RequestCounts, more: RequestCounts) -> None:
    into.include(more)
    into.steps = [mine + theirs for mine, theirs in zip(into.steps, more.steps, strict=True)]


def _slot(counts: RequestCounts | None) -> Slot:
    if counts is None:
        return Slot(0, 0, 0, 0.0, 0.0)
    return Slot(counts.count, counts.failed, counts.refused, *_percentiles(counts.steps))


def _percentiles(steps: Sequence[int]) -> tuple[float, float]:
    cumulative = [*accumulate(steps)]
    p50, p99 = (
        _FIRST_MS * math.exp(bisect_left(cumulative, fraction * cumulative[-1]) * _FACTOR) for fraction in (0.5, 0.99)
    )
    return p50, p99

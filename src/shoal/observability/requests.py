"""Requests of this process: a recorder of single requests and jobs for `shoal why-slow`, and figures of all of them.

`Meter` counts how many requests there were, how long they took, and which were slow, for the last ten minutes and since the process
began. A latency is counted in one of 80 steps, each a fifth longer than the one before, from 0.1 ms on: a percentile read from
them is right to a tenth. A request costs a microsecond, and is counted once: every ten seconds the newest counts are added to those
since the beginning, which have 14 steps, in 200 bytes a route.
"""

from __future__ import annotations

import logging
import math
import time
from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal, NamedTuple, Protocol

from shoal.observability.request_log import AnyEntry, LoggedJob, LoggedRequest, job_entry, request_entry
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
# Its lines are asked for by a setting of their own, whatever the lowest severity of others is.
_log.setLevel(logging.INFO)

KEPT = 1_000
"""Slow requests, and runs of jobs, that a process remembers."""
_ABORTED, _FAILED = 499, 500

RequestLog = Literal["off", "slow", "all"]


class SpanSink(Protocol):
    """Tells another program of requests and jobs: see `spans`."""

    def begin(
        self, name: str, parent: TraceContext | None, state: str, *, job: bool
    ) -> tuple[Any, TraceContext | None]:
        """Begin a span, and return it with its ids, if it has any."""
        ...

    def end(self, record: Record, name: str, attributes: dict[str, str | int]) -> None:
        """End the span of a record that is closed, with its stages and statements."""
        ...


class Recorder:
    """Records requests and jobs as the settings say; with `off` and without a trace, nothing at all."""

    def __init__(self, log: RequestLog = "off", slow_ms: float = 500.0, spans: SpanSink | None = None) -> None:
        self.log = log
        self.slow_ms = slow_ms
        self._slow_seconds = slow_ms / 1_000
        self._spans = spans
        self.slow: deque[LoggedRequest] = deque(maxlen=KEPT)
        """The newest slow requests, the oldest first."""
        self.jobs: deque[LoggedJob] = deque(maxlen=KEPT)
        """The newest runs of jobs that were slow or belong to a trace, the oldest first."""

    def begin(
        self, id_: str, method: str, headers: Sequence[tuple[bytes, bytes]], *, traced: bool = True
    ) -> Record | None:
        """Begin to record a request, if that is wanted. Without a `traceparent` among the headers it is not `traced`."""
        parent = trace_of(headers) if traced else None
        if self.log == "off" and parent is None and self._spans is None:
            return None
        state = state_of(headers) if parent and self._spans else ""
        return self._begun(id_, method, parent, state, job=False)

    def end(self, record: Record, failure: BaseException | None = None) -> None:
        """Write the line of a request that is over, if one is wanted; `failure` is what nobody answered."""
        if not record.status:
            record.status = _FAILED if isinstance(failure, Exception) else _ABORTED
        record.close()
        slow = record.before_sending() >= self._slow_seconds
        if self.log == "all" or (slow and self.log == "slow"):
            entry = request_entry(record, slow=slow)
            if slow:
                self.slow.append(entry)
            self._write(entry)
        if self._spans is not None:
            self._spans.end(record, f"{record.method} {record.route}", _request_attributes(record))

    @contextmanager
    def job(self, id_: str, event: str, attempt: int, trace: bytes) -> Iterator[Record | None]:
        """Record a run of a job inside the block, which says the `outcome`."""
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
                    self._write(entry)
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

    def _write(self, entry: AnyEntry) -> None:
        _log.info(entry)


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


@dataclass(slots=True)
class RequestCounts:
    """Counts of requests, with a histogram of their latencies."""

    steps: MutableSequence[int]
    """Number of requests per step of latency; the last step has no upper end."""
    milliseconds: float = 0.0
    """Sum of the latencies."""
    statuses: Counter[int] = field(default_factory=Counter)

    def copy(self) -> RequestCounts:
        return RequestCounts(self.steps[:], self.milliseconds, self.statuses.copy())

    def add(self, step: int, status: int, milliseconds: float) -> None:
        self.milliseconds += milliseconds
        self.steps[step] += 1
        self.statuses[status] += 1

    @property
    def count(self) -> int:
        return self.statuses.total()

    @property
    def failed(self) -> int:
        return sum(number for status, number in self.statuses.items() if status >= 500)

    @property
    def refused(self) -> int:
        return self.statuses[429] + self.statuses[503]


def _recent() -> RequestCounts:
    return RequestCounts([0] * _STEPS)


def _total() -> RequestCounts:
    return RequestCounts(array("Q", [0] * (len(EDGES_MS) + 1)))


class Meter:
    """The requests of the last ten minutes in figures, and totals since the process began.

    Both are kept by route. A route is named by its template, so there are never more of them than in the route table.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, slow_ms: float = 500.0) -> None:
        self._clock = clock
        self._slow_ms = slow_ms
        self._slots: deque[tuple[int, RequestCounts, dict[str, RequestCounts]]] = deque(maxlen=_SLOTS)
        self.slow: deque[SlowRequest] = deque(maxlen=_SLOW_KEPT)
        """The newest requests that took longer than `slow_ms`, the oldest first."""
        # Of all slots but the newest.
        self._totals: dict[str, RequestCounts] = {}

    def note(self, route: str, status: int, stages: Stages, request_id: str) -> None:
        """Count a request that was answered."""
        total = stages.total
        step = min(_STEPS - 1, math.ceil(math.log(total / _FIRST_MS) / _FACTOR)) if total > _FIRST_MS else 0
        slot = int(self._clock()) // _SLOT_SECONDS
        if not self._slots or self._slots[-1][0] != slot:
            self._totals = self.totals()
            self._slots.append((slot, _recent(), {}))
        _, everything, routes = self._slots[-1]
        everything.add(step, status, total)
        held = routes.get(route)
        if held is None:
            held = routes[route] = _recent()
        held.add(step, status, total)
        if total > self._slow_ms:
            self.slow.append(SlowRequest(time.time_ns() // 1_000_000, route, status, request_id, stages))

    def totals(self) -> dict[str, RequestCounts]:
        """Return the requests since the process began, by route. Nothing changes these values any more."""
        summed = {route: totals.copy() for route, totals in self._totals.items()}
        for route, tally in self._slots[-1][2].items() if self._slots else ():
            _add_to_total(summed.setdefault(route, _total()), tally)
        return summed

    def history(self) -> list[Slot]:
        """Return the last ten minutes, ten seconds each, the oldest first; quiet ones too."""
        now = int(self._clock()) // _SLOT_SECONDS
        found = {slot: tally for slot, tally, _ in self._slots}
        return [_slot(found.get(slot)) for slot in range(now - _SLOTS + 1, now + 1)]

    def routes(self) -> list[RouteFigures]:
        """Return the routes that were asked for in the last ten minutes, those that took the most time together first."""
        now = int(self._clock()) // _SLOT_SECONDS
        sums: dict[str, RequestCounts] = {}
        for slot, _, routes in self._slots:
            if slot > now - _SLOTS:
                for name, tally in routes.items():
                    _merge(sums.setdefault(name, _recent()), tally)
        figures = [
            RouteFigures(name, counts.count, counts.failed, *_percentiles(counts.steps))
            for name, counts in sums.items()
        ]
        return sorted(figures, key=lambda one: -one.number * one.p50)


def _add_to_total(into: RequestCounts, more: RequestCounts) -> None:
    into.milliseconds += more.milliseconds
    into.statuses.update(more.statuses)
    for step, number in enumerate(more.steps):
        if number:
            into.steps[min(max(0, -((_FROM - step) // _EVERY)), len(EDGES_MS))] += number


def _merge(into: RequestCounts, more: RequestCounts) -> None:
    into.statuses.update(more.statuses)
    into.steps = [mine + theirs for mine, theirs in zip(into.steps, more.steps, strict=True)]


def _slot(counts: RequestCounts | None) -> Slot:
    if counts is None:
        return Slot(0, 0, 0, 0.0, 0.0)
    return Slot(counts.count, counts.failed, counts.refused, *_percentiles(counts.steps))


def _percentiles(steps: Sequence[int]) -> tuple[float, float]:
    """Return the latencies in milliseconds that half of all requests, and 99 %, do not exceed."""
    cumulative = [*accumulate(steps)]
    p50, p99 = (
        _FIRST_MS * math.exp(bisect_left(cumulative, fraction * cumulative[-1]) * _FACTOR) for fraction in (0.5, 0.99)
    )
    return p50, p99

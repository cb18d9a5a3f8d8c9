"""Decides what is recorded, writes it to the log, and remembers the slow requests of this process for `shoal why-slow`."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol

from shoal.tracing.entries import AnyEntry, LoggedJob, LoggedRequest, before_sending, job_entry, request_entry
from shoal.tracing.record import HANDLE, Record, begin_recording, end_recording
from shoal.tracing.trace_context import TraceContext, state_of, trace_of, unpack

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
        slow = before_sending(record) >= self._slow_seconds
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

"""Log entries of requests and jobs, the log formats (text and JSON), and the recorder of slow requests for `shoal why-slow`.

No entry contains a name, an address, a token, a path or a query: a route stands for all its paths, and a member is an id.
Each entry begins a line, and no logged value can begin another: control characters, line separators and marks that change
the direction of text are escaped. A traceback has lines of its own in text, each with a bar in front; in JSON it is a
field.
"""

from __future__ import annotations

import logging
import re
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from shoal.observability.tracing import (
    HANDLE,
    SEND,
    Record,
    TraceContext,
    begin_recording,
    end_recording,
    recording,
    state_of,
    trace_of,
    unpack,
)

_TARGET = re.compile(r"\b(?:FROM|INTO|JOIN|UPDATE)\s+(?:shoal\.)?(\w+)(?!\w|\s*\()", re.IGNORECASE)
_CALLED = re.compile(r"\bshoal\.(\w+)\s*\(")
_VERB = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)
_MADE_UP = re.compile(r"(?:\bWITH|,)\s+(?:RECURSIVE\s+)?(\w+)\s*(?:\([^()]*\)\s*)?AS\b", re.IGNORECASE)
_LONGEST = 60


class StoreTotal(NamedTuple):
    """Statements sent to the stores of one kind, and their milliseconds together."""

    number: int
    ms: float


class TimedSpan(NamedTuple):
    """A stage (`store` is empty) or a statement, and the milliseconds after the beginning at which it began."""

    store: str
    what: str
    at: float
    ms: float


class _Entry(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The fields of both kinds."""

    time: str
    """When it ended: UTC, to the millisecond."""
    ms: float
    statements: dict[str, StoreTotal] = {}
    """By the kind of store."""
    trace: str = ""
    span: str = ""
    parent: str = ""
    """The span that it follows from."""
    spans: list[TimedSpan] = []
    """Its stages and statements one by one, of what was slow."""


class LoggedRequest(_Entry, omit_defaults=True, kw_only=True, tag="request", tag_field="kind"):
    """A request that was answered, or given up."""

    id: str
    method: str
    route: str
    status: int
    """499 where the client went before an answer had begun."""
    bytes: int = 0
    """Bytes of the answer's body."""
    stages: dict[str, float] = {}
    """Milliseconds by stage; together they are `ms`."""
    member: str = ""
    aborted: bool = False
    """Whether the answer was not sent to its end."""

    @property
    def summary(self) -> str:
        """Return what was asked and what came of it."""
        return f"{self.method} {self.route} {self.status}"

    def __str__(self) -> str:
        return _joined(
            self.summary,
            f"{self.ms:.1f}ms",
            *(["aborted"] if self.aborted else []),
            f"id={self.id}",
            *_said("member", self.member),
            f"bytes={self.bytes}",
            *(f"{name}={ms:.1f}" for name, ms in self.stages.items()),
            *_stores(self.statements),
            *_said("trace", self.trace),
        )


class LoggedJob(_Entry, omit_defaults=True, kw_only=True, tag="job", tag_field="kind"):
    """One run of a job."""

    job: str
    """The store and the number of the job, as `shoal jobs` shows it."""
    event: str
    attempt: int
    """Which attempt this was, from 1 on."""
    outcome: str
    """`done`, `page` (more is to come), `waits` (for a write that many jobs share), `later` (a store is away, or its turn has
    not come), `failed` or `buried`."""

    @property
    def summary(self) -> str:
        """Return which event it was and what came of it."""
        return f"{self.event} {self.outcome}"

    def __str__(self) -> str:
        return _joined(
            self.summary,
            f"{self.ms:.1f}ms",
            f"job={self.job}",
            f"attempt={self.attempt}",
            *_stores(self.statements),
            *_said("trace", self.trace),
        )


AnyEntry = LoggedRequest | LoggedJob


def request_entry(record: Record, *, slow: bool) -> LoggedRequest:
    """Return the entry of a request that is closed."""
    stages: dict[str, float] = {}
    for stage, began, ended in record.spans():
        stages[stage] = stages.get(stage, 0.0) + ended - began
    return LoggedRequest(
        time=_ended(record),
        ms=_ms(record.ended - record.began),
        statements=_totals(record),
        spans=_spans(record) if slow else [],
        id=record.id,
        method=record.method,
        route=record.route,
        status=record.status,
        bytes=record.bytes,
        stages={stage: _ms(seconds) for stage, seconds in stages.items()},
        member=str(record.member) if record.member else "",
        aborted=not record.complete,
        **_trace(record),
    )


def job_entry(record: Record, attempt: int, *, slow: bool) -> LoggedJob:
    """Return the entry of a run of a job that is closed."""
    return LoggedJob(
        time=_ended(record),
        ms=_ms(record.ended - record.began),
        statements=_totals(record),
        spans=_spans(record) if slow else [],
        job=record.id,
        event=record.route,
        attempt=attempt,
        outcome=record.outcome,
        **_trace(record),
    )


def before_sending(record: Record) -> float:
    """Return the seconds until the answer began: how long a client takes to read it is not the server's time."""
    return next((began for stage, began in record.stages if stage == SEND), record.ended) - record.began


@lru_cache(1024)
def summary_of(statement: str) -> str:
    """Return the verb and the table of an SQL statement; anything else as it is.

    `SELECT association`, as OpenTelemetry has it in `db.query.summary`.
    """
    verb = _VERB.search(statement)
    if verb is None:
        return statement[:_LONGEST]
    made_up = {*_MADE_UP.findall(statement), "unnest", "json_each"}
    tables = (found for found in _TARGET.findall(statement) if found not in made_up)
    called = _CALLED.search(statement)
    target = next(tables, None) or (called[1] if called else "")
    return f"{verb[1].upper()} {target}".rstrip()[:_LONGEST]


def moment(seconds: float) -> str:
    """Return a Unix time as lines of the log say it: UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ended(record: Record) -> str:
    return moment(record.began_ns / 1e9 + record.ended - record.began)


def _totals(record: Record) -> dict[str, StoreTotal]:
    return {store: StoreTotal(number, _ms(seconds)) for store, (number, seconds) in record.totals().items()}


def _spans(record: Record) -> list[TimedSpan]:
    begun = record.began
    spans = [TimedSpan("", stage, _ms(began - begun), _ms(ended - began)) for stage, began, ended in record.spans()]
    for store, what, began, ended in record.statements:
        spans.append(TimedSpan(store, summary_of(what), _ms(began - begun), _ms(ended - began)))
    return spans


def _trace(record: Record) -> dict[str, str]:
    if record.trace is None:
        return {}
    ids = {"trace": record.trace.trace_id.hex(), "span": record.trace.span_id.hex()}
    return {**ids, "parent": record.parent.span_id.hex()} if record.parent else ids


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)


def _joined(*parts: str) -> str:
    return " ".join(parts)


def _said(name: str, value: str) -> tuple[str, ...]:
    return (f"{name}={value}",) if value else ()


def _stores(totals: Mapping[str, StoreTotal]) -> tuple[str, ...]:
    return tuple(f"{store}={total.number}/{total.ms:.1f}ms" for store, total in totals.items())


_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
LogFormat = Literal["text", "json"]


def one_line(text: str) -> str:
    """Return the text without characters that end a line, move the cursor or turn the direction: `\\n`, `\\u202e`."""
    return _UNSAFE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _in_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class TextFormat(logging.Formatter):
    """Lines for people: moment, severity, part, and what happened."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the entry; a traceback follows it in lines that begin with a bar."""
        record.message = one_line(record.getMessage())
        record.asctime = self.formatTime(record)
        lines = [self.formatMessage(record)]
        if record.exc_info:
            lines += self.formatException(record.exc_info).split("\n")
        return "\n| ".join([lines[0], *map(one_line, lines[1:])])


class JsonFormat(logging.Formatter):
    """One JSON object a line. An entry of the request log has its own fields; others say in which request they were made."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the entry."""
        entry: Any = record.msg if isinstance(record.msg, LoggedRequest | LoggedJob) else None
        fields: dict[str, object] = {
            "time": moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _encodable(record.getMessage() if entry is None else entry.summary),
        }
        if entry is not None:
            fields |= msgspec.to_builtins(entry)
        elif (under_way := recording()) is not None:
            fields["id"] = under_way.id
            if under_way.trace is not None:
                fields["trace"] = under_way.trace.trace_id.hex()
        if record.exc_info:
            fields["error"] = _encodable(self.formatException(record.exc_info))
        return _UNSAFE.sub(_in_json, msgspec.json.encode(fields).decode())


def log_to_stderr(level: str, format_: LogFormat) -> None:
    """Write the log of this process to standard error.

    Below WARNING, libraries log requests, headers and frames as they are on the wire, credentials included. The level
    therefore applies to the loggers of Shoal, and libraries log warnings and errors only.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormat() if format_ == "json" else TextFormat())
    lowest = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(lowest, logging.WARNING), handlers=[handler])
    logging.getLogger("shoal").setLevel(lowest)


def read_entry(line: bytes) -> AnyEntry | None:
    """Return the request or job that a line of a JSON log tells of; None for any other line."""
    try:
        return _entry.decode(line)
    except msgspec.MsgspecError:
        return None


_entry: msgspec.json.Decoder[AnyEntry] = msgspec.json.Decoder(AnyEntry)


def _encodable(text: str) -> str:
    """Return the text without halves of characters, which JSON cannot have."""
    return text.encode("utf-8", "backslashreplace").decode()


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

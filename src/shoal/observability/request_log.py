"""Log entries of requests and jobs, and the log formats (text and JSON).

No entry contains a name, an address, a token, a path or a query: a request is logged with its route, and a member with
their id. No logged value can begin a line, because control characters, line separators and direction marks are escaped.
In the text format, each line of a traceback begins with a bar. In JSON, the traceback is a field.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from shoal.observability.tracing import Record, recording

_TARGET = re.compile(r"\b(?:FROM|INTO|JOIN|UPDATE)\s+(?:shoal\.)?(\w+)(?!\w|\s*\()", re.IGNORECASE)
_CALLED = re.compile(r"\bshoal\.(\w+)\s*\(")
_VERB = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)
_MADE_UP = re.compile(r"(?:\bWITH|,)\s+(?:RECURSIVE\s+)?(\w+)\s*(?:\([^()]*\)\s*)?AS\b", re.IGNORECASE)
_LONGEST = 60


class StoreTotal(NamedTuple):
    number: int
    ms: float


class TimedSpan(NamedTuple):
    """A stage, or a statement to a store, with its offset and duration in milliseconds. `store` is empty for a stage."""

    store: str
    what: str
    at: float
    ms: float


class _Entry(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The fields that log entries of requests and jobs have in common."""

    time: str
    """The time when the request or job ended, in UTC, to the millisecond."""
    ms: float
    statements: dict[str, StoreTotal] = {}
    """Numbers and times of statements, by kind of store."""
    trace: str = ""
    span: str = ""
    parent: str = ""
    spans: list[TimedSpan] = []
    """All stages and statements, if the request or job was slow."""


class LoggedRequest(_Entry, omit_defaults=True, kw_only=True, tag="request", tag_field="kind"):
    """The log entry of a request that was answered or aborted."""

    id: str
    method: str
    route: str
    status: int
    """499 if the client disconnected before the response began."""
    bytes: int = 0
    stages: dict[str, float] = {}
    """Milliseconds by stage. Their sum is `ms`."""
    member: str = ""
    aborted: bool = False
    """Whether the response was not sent to its end."""

    @property
    def summary(self) -> str:
        return f"{self.method} {self.route} {self.status}"

    def __str__(self) -> str:
        parts = (
            self.summary,
            f"{self.ms:.1f}ms",
            *(["aborted"] if self.aborted else []),
            f"id={self.id}",
            *_optional("member", self.member),
            f"bytes={self.bytes}",
            *(f"{name}={ms:.1f}" for name, ms in self.stages.items()),
            *_stores(self.statements),
            *_optional("trace", self.trace),
        )
        return " ".join(parts)


class LoggedJob(_Entry, omit_defaults=True, kw_only=True, tag="job", tag_field="kind"):
    """The log entry of a job run."""

    job: str
    """The store and the number of the job, in the format of `shoal jobs`."""
    event: str
    attempt: int
    """Number of the attempt. The first is 1."""
    outcome: str
    """`done`; `page` (the job has more to do); `waits` (for a write shared by many jobs); `later` (a store is
    unavailable, or other work has priority); `failed`; or `parked`.
    """

    @property
    def summary(self) -> str:
        return f"{self.event} {self.outcome}"

    def __str__(self) -> str:
        parts = (
            self.summary,
            f"{self.ms:.1f}ms",
            f"job={self.job}",
            f"attempt={self.attempt}",
            *_stores(self.statements),
            *_optional("trace", self.trace),
        )
        return " ".join(parts)


AnyEntry = LoggedRequest | LoggedJob


def request_entry(record: Record, *, slow: bool) -> LoggedRequest:
    stages: dict[str, float] = {}
    for stage, began, ended in record.spans():
        stages[stage] = stages.get(stage, 0.0) + ended - began
    return LoggedRequest(
        **_common(record, slow=slow),
        id=record.id,
        method=record.method,
        route=record.route,
        status=record.status,
        bytes=record.bytes,
        stages={stage: _ms(seconds) for stage, seconds in stages.items()},
        member=str(record.member) if record.member else "",
        aborted=not record.complete,
    )


def job_entry(record: Record, attempt: int, *, slow: bool) -> LoggedJob:
    return LoggedJob(
        **_common(record, slow=slow),
        job=record.id,
        event=record.route,
        attempt=attempt,
        outcome=record.outcome,
    )


@lru_cache(1024)
def summary_of(statement: str) -> str:
    """Return the verb and the table of an SQL statement, as in OpenTelemetry's `db.query.summary`.

    Any other text is returned unchanged.
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
    """Format a Unix time for log entries: UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _common(record: Record, *, slow: bool) -> dict[str, Any]:
    seconds = record.ended - record.began
    fields: dict[str, Any] = {
        "time": moment(record.began_ns / 1e9 + seconds),
        "ms": _ms(seconds),
        "statements": {store: StoreTotal(number, _ms(total)) for store, (number, total) in record.totals().items()},
        "spans": _spans(record) if slow else [],
    }
    if record.trace is not None:
        fields |= {"trace": record.trace.trace_id.hex(), "span": record.trace.span_id.hex()}
        fields |= {"parent": record.parent.span_id.hex()} if record.parent else {}
    return fields


def _spans(record: Record) -> list[TimedSpan]:
    begun = record.began
    spans = [TimedSpan("", stage, _ms(began - begun), _ms(ended - began)) for stage, began, ended in record.spans()]
    for store, what, began, ended in record.statements:
        spans.append(TimedSpan(store, summary_of(what), _ms(began - begun), _ms(ended - began)))
    return spans


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)


def _optional(name: str, value: str) -> tuple[str, ...]:
    return (f"{name}={value}",) if value else ()


def _stores(totals: Mapping[str, StoreTotal]) -> tuple[str, ...]:
    return tuple(f"{store}={total.number}/{total.ms:.1f}ms" for store, total in totals.items())


_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
LogFormat = Literal["text", "json"]


def one_line(text: str) -> str:
    r"""Escape characters that end a line, move the cursor or change the text direction, as in `\n` and `\u202e`."""
    return _UNSAFE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _in_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class TextFormat(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.getMessage())
        record.asctime = self.formatTime(record)
        lines = [self.formatMessage(record)]
        if record.exc_info:
            lines += self.formatException(record.exc_info).split("\n")
        return "\n| ".join([lines[0], *map(one_line, lines[1:])])


class JsonFormat(logging.Formatter):
    """One JSON object per line.

    The entry of a finished request or job has the fields of `LoggedRequest` or `LoggedJob`. Any other entry has the id of the
    request that caused it.
    """

    def format(self, record: logging.LogRecord) -> str:
        entry: Any = record.msg if isinstance(record.msg, LoggedRequest | LoggedJob) else None
        fields: dict[str, object] = {
            "time": moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _encodable(record.getMessage() if entry is None else entry.summary),
        }
        if entry is not None:
            fields |= msgspec.to_builtins(entry)
        elif (in_flight := recording()) is not None:
            fields["id"] = in_flight.id
            if in_flight.trace is not None:
                fields["trace"] = in_flight.trace.trace_id.hex()
        if record.exc_info:
            fields["error"] = _encodable(self.formatException(record.exc_info))
        return _UNSAFE.sub(_in_json, msgspec.json.encode(fields).decode())


def log_to_stderr(level: str, format_: LogFormat) -> None:
    """Write the log of this process to standard error.

    The level applies to the loggers of Shoal. Libraries log only warnings and errors, because below that level they log
    requests, headers and frames as they are sent, including credentials.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormat() if format_ == "json" else TextFormat())
    lowest = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(lowest, logging.WARNING), handlers=[handler])
    logging.getLogger("shoal").setLevel(lowest)


def read_entry(line: bytes) -> AnyEntry | None:
    """Return the request or job in a line of a JSON log; None for any other line."""
    try:
        return _entry.decode(line)
    except msgspec.MsgspecError:
        return None


_entry: msgspec.json.Decoder[AnyEntry] = msgspec.json.Decoder(AnyEntry)


def _encodable(text: str) -> str:
    """Escape surrogates, which JSON cannot contain."""
    return text.encode("utf-8", "backslashreplace").decode()

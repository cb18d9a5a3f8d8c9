"""Record of the current request or job: its stages, its store statements and its W3C trace context.

A request is in one stage at each moment, so the durations of the stages add up to the total. Statements may run
concurrently, and may then take longer in total than their stage. Trace Context, level 1, names the trace that a request
belongs to. It is passed on with the events that the request emits:

    traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 version, trace id, id of the caller's span, flags (1: the caller records this trace)

A `traceparent` that breaks the rules is ignored, and so is its `tracestate`.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_VERSION = b"ff"
_TRACESTATE_CHARACTERS = 512
_TRACESTATE_MEMBERS = 32
_PACKED_BYTES = 25
SAMPLED = 1


class TraceContext(NamedTuple):
    trace_id: bytes
    span_id: bytes
    flags: int = 0

    def child(self) -> TraceContext:
        return self._replace(span_id=secrets.token_bytes(8))

    def pack(self) -> bytes:
        """Encode the span in the 25 bytes that an event carries."""
        return self.trace_id + self.span_id + bytes([self.flags])


def unpack(packed: bytes) -> TraceContext | None:
    """Return the span that an event carries, or None."""
    if len(packed) != _PACKED_BYTES:
        return None
    return TraceContext(packed[:16], packed[16:24], packed[24])


def parse(value: bytes) -> TraceContext | None:
    """Return the span in a `traceparent`; None if it is malformed.

    A later version of the header may have more fields after a dash. All flags except `SAMPLED` are ignored.
    """
    found = _TRACEPARENT.fullmatch(value.strip(b" \t"))
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == _NO_VERSION or (version == b"00" and more is not None):
        return None
    if not trace_id.strip(b"0") or not span_id.strip(b"0"):
        return None
    return TraceContext(bytes.fromhex(trace_id.decode()), bytes.fromhex(span_id.decode()), int(flags, 16) & SAMPLED)


def trace_of(headers: Iterable[tuple[bytes, bytes]]) -> TraceContext | None:
    """Return the caller's span; None if `traceparent` is missing, malformed or repeated."""
    given = [value for name, value in headers if name == b"traceparent"]
    return parse(given[0]) if len(given) == 1 else None


def state_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the `tracestate` headers joined; empty if there are none, or if they have more than 512 characters or 32 members."""
    joined = b",".join(value for name, value in headers if name == b"tracestate")
    if len(joined) > _TRACESTATE_CHARACTERS or joined.count(b",") >= _TRACESTATE_MEMBERS:
        return ""
    return joined.decode("latin-1")


T = TypeVar("T")

_MOST_STAGES = 64
_MOST_STATEMENTS = 100
_LONG_SECONDS = 0.01
"""A statement that takes longer than this is recorded separately beyond `_MOST_STATEMENTS`, up to twice that number."""
WAIT, AUTHENTICATE, READ, HANDLE, RENDER, ENCODE, SEND = (
    "wait",
    "authenticate",
    "read",
    "handle",
    "render",
    "encode",
    "send",
)
"""Stages of a request: waiting for a slot; authentication and rate limit; body and parameters; handler; HTML template;
JSON; sending.
"""


class TimedStatement(NamedTuple):
    store: str
    """The kind of store: `sqlite`, `postgres`, `dynamodb` or `redis`."""
    what: str
    began: float
    ended: float


@dataclass(slots=True, eq=False)
class Record:
    """The record of a request or a job run. It does not change after it was closed."""

    id: str
    method: str
    parent: TraceContext | None
    trace: TraceContext | None
    span: Any = None
    member: int = 0
    route: str = "(refused)"
    status: int = 0
    outcome: str = ""
    bytes: int = 0
    complete: bool = False
    """Whether the response was sent to its end. For a WebSocket, whether it was accepted."""
    began_ns: int = field(default_factory=time.time_ns)
    began: float = field(default_factory=perf_counter)
    ended: float = 0.0
    stages: list[tuple[str, float]] = field(default_factory=list)
    """The names of the stages, and the time when each began. A stage may occur several times."""
    statements: list[TimedStatement] = field(default_factory=list)
    more: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Statements that are not recorded separately: their number and seconds, by store."""
    closed: bool = False

    def __post_init__(self) -> None:
        self.stages.append((WAIT, self.began))

    def enter(self, stage: str) -> None:
        if len(self.stages) < _MOST_STAGES and not self.closed:
            self.stages.append((stage, perf_counter()))

    def add(self, store: str, what: str, began: float) -> None:
        if self.closed:
            return
        ended = perf_counter()
        recorded = len(self.statements)
        if recorded < _MOST_STATEMENTS or (ended - began > _LONG_SECONDS and recorded < 2 * _MOST_STATEMENTS):
            self.statements.append(TimedStatement(store, what, began, ended))
        else:
            count, seconds = self.more.get(store, (0, 0.0))
            self.more[store] = (count + 1, seconds + ended - began)

    def close(self) -> None:
        self.closed, self.ended = True, perf_counter()

    def before_sending(self) -> float:
        """Return the seconds until the response began. The time for sending it is left out, because it depends on the client."""
        return next((began for stage, began in self.stages if stage == SEND), self.ended) - self.began

    def totals(self) -> dict[str, tuple[int, float]]:
        sums = dict(self.more)
        for store, _, began, ended in self.statements:
            count, seconds = sums.get(store, (0, 0.0))
            sums[store] = (count + 1, seconds + ended - began)
        return sums

    def spans(self) -> Iterator[tuple[str, float, float]]:
        ends = [began for _, began in self.stages[1:]]
        for (stage, began), ended in zip(self.stages, [*ends, self.ended], strict=True):
            yield stage, began, ended


_CURRENT: ContextVar[Record | None] = ContextVar("shoal_record", default=None)

recording = _CURRENT.get
"""Return the record of the current context; None if nothing is recorded."""


begin_recording = _CURRENT.set
"""Set the record of the current context, and return a token for `end_recording`."""
end_recording = _CURRENT.reset


@contextmanager
def for_many() -> Iterator[None]:
    """Detach tasks that start in the block from the `Record` of the current request or job, because they serve many callers.

    Each caller records separately how long it waits for these tasks.
    """
    token: Token[Record | None] = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def enter(stage: str) -> None:
    record = recording()
    if record is not None:
        record.enter(stage)


def name_route(route: str) -> None:
    record = recording()
    if record is not None:
        record.route = route


def name_member(member_id: int | None) -> None:
    record = recording()
    if record is not None:
        record.member = member_id or 0


def carried() -> bytes:
    """Return the current span, packed as an event carries it; empty outside a trace."""
    record = recording()
    return b"" if record is None or record.trace is None else record.trace.pack()


async def timed(store: str, what: str, work: Awaitable[T]) -> T:
    """Await a reply of a store, and record how long that took."""
    record = recording()
    if record is None:
        return await work
    began = perf_counter()
    try:
        return await work
    finally:
        record.add(store, what, began)

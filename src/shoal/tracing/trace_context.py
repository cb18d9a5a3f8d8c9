"""W3C Trace Context, level 1: which trace a request belongs to, read from outside and carried on with the events it makes.

    traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 version, trace id, id of the caller's span, flags (1: the caller records this trace)

A `traceparent` that breaks the rules is as good as none, and so is its `tracestate`.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from typing import NamedTuple

_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_VERSION = b"ff"
_TRACESTATE_CHARACTERS = 512
_TRACESTATE_MEMBERS = 32
_PACKED_BYTES = 25
SAMPLED = 1
"""The flag of a trace that is recorded."""


class TraceContext(NamedTuple):
    """A span of a trace: 16 bytes of the trace, 8 bytes of the span, and the flags."""

    trace_id: bytes
    span_id: bytes
    flags: int = 0

    def child(self) -> TraceContext:
        """Return a new span of this trace."""
        return self._replace(span_id=secrets.token_bytes(8))

    def pack(self) -> bytes:
        """Return it in the 25 bytes that an event carries."""
        return self.trace_id + self.span_id + bytes([self.flags])

    @property
    def traceparent(self) -> str:
        """Return it as the header says it."""
        return f"00-{self.trace_id.hex()}-{self.span_id.hex()}-{self.flags:02x}"


def unpack(packed: bytes) -> TraceContext | None:
    """Return the span that an event carries; None for an event that carries none."""
    if len(packed) != _PACKED_BYTES:
        return None
    return TraceContext(packed[:16], packed[16:24], packed[24])


def parse(value: bytes) -> TraceContext | None:
    """Return the span of a `traceparent`, or None for one that is malformed.

    A later version may have more behind a dash, and only the flag that is known of it counts.
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
    """Return the span of the caller. A `traceparent` that comes twice is malformed."""
    given = [value for name, value in headers if name == b"traceparent"]
    return parse(given[0]) if len(given) == 1 else None


def state_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the `tracestate`, its headers joined; empty where there is none, or more than 512 characters or 32 members."""
    joined = b",".join(value for name, value in headers if name == b"tracestate")
    if len(joined) > _TRACESTATE_CHARACTERS or joined.count(b",") >= _TRACESTATE_MEMBERS:
        return ""
    return joined.decode("latin-1")

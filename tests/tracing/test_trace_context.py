"""W3C Trace Context: parsing of `traceparent` and `tracestate`, and storage in events."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from shoal.core.events import Event, PostCreated, decode, encode
from shoal.graph.contract import Batch
from shoal.observability.tracing import (
    Record,
    TraceContext,
    begin_recording,
    end_recording,
    parse,
    state_of,
    trace_of,
    unpack,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"
CALLER = TraceContext(bytes.fromhex(TRACE), bytes.fromhex(SPAN), 1)
EVENT = PostCreated(post_id=1, author_id=2)


def header(value: str) -> tuple[bytes, bytes]:
    return b"traceparent", value.encode("latin-1")


@pytest.mark.parametrize(
    ("value", "flags"),
    [
        (GOOD, 1),
        (f"00-{TRACE}-{SPAN}-00", 0),
        (f" {GOOD}\t", 1),
        # For later versions, only the prefix and one flag are defined.
        (f"cc-{TRACE}-{SPAN}-ff", 1),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", 1),
    ],
)
def test_traceparent_when_valid_is_parsed(value: str, flags: int) -> None:
    assert trace_of([header(value)]) == CALLER._replace(flags=flags)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01-",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}0-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-0g",
        f"0-{TRACE}-{SPAN}-01",
        f"00_{TRACE}_{SPAN}_01",
        f"00-{TRACE}-{SPAN}-01\n",
        GOOD + "x" * 10_000,
    ],
)
def test_traceparent_when_malformed_is_ignored(value: str) -> None:
    assert trace_of([header(value)]) is None


def test_traceparent_sent_twice_is_ignored() -> None:
    assert trace_of([header(GOOD), (b"host", b"x"), header(GOOD)]) is None
    assert trace_of([]) is None


@given(st.binary(max_size=80))
def test_traceparent_parser_accepts_arbitrary_bytes_without_error(value: bytes) -> None:
    parsed = parse(value)
    assert parsed is None or unpack(parsed.pack()) == parsed


def test_tracestate_headers_are_joined_and_dropped_beyond_limits() -> None:
    assert state_of([(b"tracestate", b"a=1"), (b"tracestate", b"b=2,c=3")]) == "a=1,b=2,c=3"
    assert state_of([(b"tracestate", b"a=" + b"x" * 511)]) == ""
    assert state_of([(b"tracestate", b",".join(b"k%d=1" % n for n in range(33)))]) == ""
    assert state_of([(b"tracestate", b",".join(b"k%d=1" % n for n in range(32)))]) != ""


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8), st.integers(0, 255))
def test_trace_context_pack_and_unpack_round_trip(trace_id: bytes, span_id: bytes, flags: int) -> None:
    context = TraceContext(trace_id, span_id, flags)
    assert unpack(context.pack()) == context
    assert len(context.pack()) == 25
    assert unpack(b"") is unpack(context.pack()[1:]) is None


def test_trace_context_child_has_new_span_id_in_same_trace() -> None:
    child = CALLER.child()
    assert (child.trace_id, child.flags) == (CALLER.trace_id, CALLER.flags)
    assert child.span_id != CALLER.span_id != CALLER.child().span_id


def test_outbox_event_without_trace_is_stored_without_trace_field() -> None:
    stored = msgspec.msgpack.encode({"type": "post_created", "post_id": 1, "author_id": 2})
    assert encode(EVENT) == stored
    assert decode(stored) == EVENT


def test_outbox_event_with_trace_is_33_bytes_larger() -> None:
    traced = structs.replace(EVENT, trace=CALLER.pack())
    assert len(encode(traced)) - len(encode(EVENT)) == 33
    assert decode(encode(traced)) == traced


def test_outbox_event_contains_current_trace_context() -> None:
    def emitted() -> Event:
        batch = Batch(1)
        batch.emit(EVENT)
        return batch.events[0]

    assert emitted() is EVENT
    for trace, carried in ((CALLER, CALLER.pack()), (None, b"")):
        token = begin_recording(Record("r", "GET", None, trace))
        try:
            assert emitted().trace == carried
        finally:
            end_recording(token)
    assert emitted() is EVENT

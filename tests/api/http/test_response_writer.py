"""A response sent in a single write is byte-identical to a response of uvicorn and completes the request alike."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from shoal.http.protocol import WholeResponses, head_of
from shoal.http.responses import RawHeader

_DATE = [(b"date", b"Thu, 26 Nov 2026 09:00:00 GMT")]


class Wire(asyncio.Transport):
    """A transport that records writes."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.pieces.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def resume_reading(self) -> None:
        pass


class Sent(NamedTuple):
    """Bytes on the wire, and the state in which they left the connection."""

    data: bytes
    complete: bool
    keep_alive: bool
    closed: bool
    ended: int
    """How often the connection was notified of the end of the response."""


class Spoken(NamedTuple):
    """The response of an application, in chunks."""

    status: int
    headers: list[RawHeader]
    pieces: Sequence[bytes]


def sent(spoken: Spoken, method: str, *, keep_alive: bool, whole: bool) -> tuple[Sent, int]:
    """Return the sent bytes and the number of writes, by uvicorn alone or by our writer."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": spoken.status, "headers": list(spoken.headers)})
        for number, piece in enumerate(spoken.pieces, 1):
            more = number < len(spoken.pieces)
            await send({"type": "http.response.body", "body": piece, "more_body": more})

    async def run() -> tuple[Sent, int]:
        wire, ends = Wire(), [0]

        def over() -> None:
            ends[0] += 1

        logger = logging.getLogger("nobody.listens")
        logger.disabled = True
        cycle = RequestResponseCycle(
            scope={"type": "http", "method": method, "http_version": "1.1"},  # type: ignore[typeddict-item]
            transport=wire,
            flow=FlowControl(wire),
            logger=logger,
            access_logger=logger,
            access_log=False,
            default_headers=_DATE,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=keep_alive,
            on_response=over,
        )
        chosen: Any = WholeResponses(app, cycle) if whole else app
        await cycle.run_asgi(chosen)
        end = Sent(b"".join(wire.pieces), cycle.response_complete, cycle.keep_alive, wire.closed, ends[0])
        return end, len(wire.pieces)

    return asyncio.run(run())


names = st.sampled_from(
    (b"content-type", b"etag", b"x-request-id", b"Link", b"connection", b"transfer-encoding", b"content-length", b"b d")
)
values = st.one_of(
    st.sampled_from((b"close", b"keep-alive", b"chunked", b"3", b"0", b"a\tb", b"\xc3\xa9")),
    st.binary(max_size=6).filter(lambda value: b"\r" not in value[-1:]),
)
spokens = st.builds(
    Spoken,
    st.sampled_from((200, 200, 204, 302, 304, 404, 500)),
    st.lists(st.tuples(names, values), max_size=4),
    st.lists(st.binary(max_size=5), min_size=1, max_size=3),
)


@given(spokens, st.booleans(), st.sampled_from(("GET", "HEAD", "POST")), st.booleans())
@example(Spoken(200, [(b"etag", b"1\r\nset-cookie: x")], [b"body"]), True, "GET", True)
@example(Spoken(200, [], [b"body"]), True, "GET", True)
@example(Spoken(200, [(b"content-length", b"3")], [b"four"]), False, "GET", True)
@example(Spoken(304, [], [b""]), True, "GET", True)
@example(Spoken(304, [], [b"body"]), True, "GET", True)
def test_response_writer_sends_same_bytes_as_uvicorn(
    spoken: Spoken, sized: bool, method: str, keep_alive: bool
) -> None:
    if sized:
        length = (b"content-length", b"%d" % sum(map(len, spoken.pieces)))
        spoken = spoken._replace(headers=[*spoken.headers, length])
    theirs, _ = sent(spoken, method, keep_alive=keep_alive, whole=False)
    ours, _ = sent(spoken, method, keep_alive=keep_alive, whole=True)
    if theirs.complete and not theirs.data.startswith(b"HTTP/1.1 500 Internal Server Error"):
        assert ours == theirs
    else:
        # Our writer reports an invalid response before it sends bytes, where uvicorn could only abort the connection.
        assert ours.complete == theirs.complete or ours.data.startswith(b"HTTP/1.1 500")


@pytest.mark.parametrize(("status", "body"), [(200, b"[1,2]"), (304, b"")])
def test_response_writer_sends_plain_response_in_one_write(status: int, body: bytes) -> None:
    headers = [(b"content-length", b"%d" % len(body))] if body else []
    end, pieces = sent(Spoken(status, headers, [body]), "GET", keep_alive=True, whole=True)
    assert pieces == 1
    assert end.data.endswith(b"\r\n\r\n" + body)
    assert (end.complete, end.keep_alive, end.closed, end.ended) == (True, True, False, 1)


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: x", b"a\nb", b"a\0b", b"a\x7fb"])
def test_response_writer_rejects_header_value_with_control_characters(value: bytes) -> None:
    assert head_of(200, [(b"etag", value)], 0) is None
    assert head_of(200, [(b"etag", b"a")], 0) is not None


@pytest.mark.parametrize("name", [b"x y", b"x:y", b"", b"ETag", b"connection", b"transfer-encoding"])
def test_response_writer_with_unusual_header_name_falls_back_to_uvicorn(name: bytes) -> None:
    assert head_of(200, [(name, b"a")], 0) is None

"""The metrics HTTP server: refused requests and slow clients."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shoal.monitoring.metrics_server import answering
from tests.async_runner import eventually, in_loop

LARGE = b"x" * (32 << 20)
"""Larger than all buffers between the server and a client."""


async def page() -> bytes:
    return b"# a page\n"


async def large_page() -> bytes:
    return LARGE


async def broken_page() -> bytes:
    raise ValueError("a-secret")


def listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


async def said(port: int, words: bytes) -> bytes:
    """Return everything that the server sends in response, until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(words)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def status(port: int, request: str = "GET /metrics HTTP/1.1") -> int:
    """Return the status of the response, or 0 without a response."""
    words = (await said(port, f"{request}\r\nHost: x\r\n\r\n".encode())).split(b" ", 2)
    return int(words[1]) if len(words) > 1 else 0


@asynccontextmanager
async def waiting(port: int, words: bytes, number: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Open `number` clients that send only these bytes."""
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(number)]
    for _, writer in opened:
        writer.write(words)
    try:
        yield [reader for reader, _ in opened]
    finally:
        for _, writer in opened:
            writer.close()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("GET /metrics HTTP/1.1", 200),
        ("GET /metrics?debug=1 HTTP/1.0", 200),
        ("GET / HTTP/1.1", 404),
        ("GET /metrics/ HTTP/1.1", 404),
        ("POST /other HTTP/1.1", 404),
        ("HEAD /metrics HTTP/1.1", 405),
        ("POST /metrics HTTP/1.1", 405),
        ("get me the metrics please", 400),
        ("GET /metrics", 400),
        (f"GET /{'x' * 100_000} HTTP/1.1", 400),
    ],
)
@in_loop
async def test_metrics_endpoint_serves_only_get_metrics(request_: str, answer: int) -> None:
    taken = listener()
    port = taken.getsockname()[1]
    async with answering(taken, page):
        # The server may close the connection while an oversized request is still being sent.
        assert await status(port, request_) in ({answer, 0} if answer == 400 else {answer})


@in_loop
async def test_metrics_endpoint_sends_large_page_completely() -> None:
    taken = listener()
    async with answering(taken, large_page, seconds=60.0):
        whole = await said(taken.getsockname()[1], b"GET /metrics HTTP/1.1\r\n\r\n")
    assert whole.partition(b"\r\n\r\n")[2] == LARGE


@in_loop
async def test_metrics_endpoint_error_returns_500_without_details(caplog: pytest.LogCaptureFixture) -> None:
    taken = listener()
    async with answering(taken, broken_page):
        told = await said(taken.getsockname()[1], b"GET /metrics HTTP/1.1\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 500 ")
    assert b"a-secret" not in told
    assert "a-secret" in caplog.text


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Timeout]:
    """The time limits of all connections in order. Only the test ends them, so a pause of the machine does not."""
    found, timeout = list[asyncio.Timeout](), asyncio.timeout

    def noted(seconds: float | None) -> asyncio.Timeout:
        found.append(timeout(seconds))
        return found[-1]

    monkeypatch.setattr(asyncio, "timeout", noted)
    return found


def expire(limits: list[asyncio.Timeout]) -> None:
    """End the time of these connections."""
    for limit in limits:
        assert limit.when() is not None
        limit.reschedule(asyncio.get_running_loop().time())


@in_loop
async def test_metrics_endpoint_at_connection_limit_returns_503_until_slow_clients_time_out(
    limits: list[asyncio.Timeout],
) -> None:
    taken = listener()
    port = taken.getsockname()[1]
    async with (
        answering(taken, page, most=3, seconds=600.0),
        waiting(port, b"GET /metrics HTTP/1.1\r\nX-Slow: ", 3) as slow,
    ):
        # The server has accepted the slow clients once it refuses a later one.
        await eventually(lambda: status(port), 503)
        expire(limits[:3])
        assert [await reader.read() for reader in slow] == [b"", b"", b""]
        await eventually(lambda: status(port), 200)


@in_loop
async def test_metrics_endpoint_client_that_does_not_read_is_disconnected(limits: list[asyncio.Timeout]) -> None:
    taken = listener()
    port = taken.getsockname()[1]
    async with answering(taken, large_page, most=1, seconds=600.0), waiting(port, b"GET /metrics HTTP/1.1\r\n\r\n", 1):
        await eventually(lambda: status(port), 503)
        expire(limits[:1])
        await eventually(lambda: status(port), 200)


@in_loop
async def test_metrics_endpoint_shutdown_closes_connections_and_frees_port() -> None:
    taken = listener()
    port = taken.getsockname()[1]
    async with answering(taken, page, seconds=3_600.0):
        stack = waiting(port, b"GET /metrics", 2)
        slow = await stack.__aenter__()
        assert await status(port) == 200
    assert [await reader.read() for reader in slow] == [b"", b""]
    await stack.__aexit__(None, None, None)
    socket.create_server(("127.0.0.1", port)).close()

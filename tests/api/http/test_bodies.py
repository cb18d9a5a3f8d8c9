"""Limits on request bodies, and the refusal of uploads in progress, on a real server with real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from shoal.http import responses
from tests.api.harness import make_app, on_a_server

HUNDRED_MB = 100_000_000
CHUNK = b"x" * 1_000_000


def _head(*headers: str, who: str = "member", path: str = "/api/v1/media") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: shoal.test", "Content-Type: application/json", *headers]
    lines += [f"Authorization: Bearer {who}"] if who else []
    return "\r\n".join([*lines, "", ""]).encode()


def _sent_blindly(port: int, head: bytes, pieces: Iterator[bytes]) -> tuple[bytes, int]:
    """Send everything before reading, as simple clients do; return the response and the number of bytes sent."""
    sent = 0
    with socket.create_connection(("127.0.0.1", port), timeout=60) as wire:
        wire.sendall(head)
        try:
            for piece in pieces:
                wire.sendall(piece)
                sent += len(piece)
        except ConnectionError:
            return b"", sent
        return _read_all(wire), sent


def _read_all(wire: socket.socket) -> bytes:
    answer = b""
    try:
        while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
            got = wire.recv(65536)
            if not got:
                break
            answer += got
    except ConnectionError:
        pass
    return answer


def _upload(head: bytes, pieces: Iterator[bytes]) -> tuple[bytes, int]:
    return on_a_server(make_app(), lambda port: asyncio.to_thread(_sent_blindly, port, head, pieces))


def test_upload_of_100_mb_is_refused_and_client_receives_413() -> None:
    answer, sent = _upload(_head(f"Content-Length: {HUNDRED_MB}"), (CHUNK for _ in range(100)))
    assert sent == HUNDRED_MB
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"content-type: application/json\r\n" in answer
    assert answer.endswith(b'{"error":"the request body may have at most 1000000 bytes"}')


def test_chunked_upload_over_size_limit_returns_413() -> None:
    chunk = b"%x\r\n%s\r\n" % (len(CHUNK), CHUNK)
    pieces = iter([*[chunk] * 10, b"0\r\n\r\n"])
    answer, _ = _upload(_head("Transfer-Encoding: chunked"), pieces)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_upload_without_token_is_refused_unread_with_401() -> None:
    answer, _ = _upload(_head(f"Content-Length: {10 * len(CHUNK)}", who=""), (CHUNK for _ in range(10)))
    assert answer.startswith(b"HTTP/1.1 401 ")


def test_upload_over_size_limit_is_refused_before_body_is_sent() -> None:
    async def story(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_head(f"Content-Length: {HUNDRED_MB}"))
        answer = await asyncio.wait_for(reader.readuntil(b"}"), 60)
        writer.close()
        return answer

    assert on_a_server(make_app(), story).startswith(b"HTTP/1.1 413 ")


def test_upload_with_expect_continue_over_limit_gets_413_without_100() -> None:
    async def story(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_head(f"Content-Length: {HUNDRED_MB}", "Expect: 100-continue"))
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        return answer

    answer = on_a_server(make_app(), story)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"100 Continue" not in answer


def test_refused_upload_body_is_read_and_discarded_up_to_byte_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses.BodyReceiver.drain, "__defaults__", (3 * len(CHUNK), 5.0))
    _, sent = _upload(_head(f"Content-Length: {HUNDRED_MB}"), (CHUNK for _ in range(100)))
    assert sent < HUNDRED_MB


def test_refused_upload_body_is_no_longer_read_when_client_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses.BodyReceiver.drain, "__defaults__", (len(CHUNK), 0.1))

    async def story(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_head(f"Content-Length: {HUNDRED_MB}"))
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        return answer

    assert on_a_server(make_app(), story).startswith(b"HTTP/1.1 413 ")


def test_keep_alive_connection_serves_next_request_after_body_was_read() -> None:
    body = b'{"status":"hello"}'

    async def story(port: int) -> list[bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answers = []
        for _ in range(3):
            writer.write(_head(f"Content-Length: {len(body)}", path="/api/v1/statuses") + body)
            answers.append((await reader.readuntil(b"null}"))[:15])
        writer.close()
        return answers

    assert on_a_server(make_app(), story) == [b"HTTP/1.1 200 OK"] * 3


def test_head_request_returns_headers_without_body() -> None:
    async def story(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HEAD /api/v1/instance HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        return answer

    answer = on_a_server(make_app(), story)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith(b"\r\n\r\n")


def test_client_disconnect_during_upload_does_not_affect_other_requests() -> None:
    async def story(port: int) -> bytes:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_head("Content-Length: 1000") + b"half")
        await writer.drain()
        writer.close()
        await asyncio.sleep(0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /api/v1/instance HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        return answer

    assert on_a_server(make_app(), story).startswith(b"HTTP/1.1 200 OK")

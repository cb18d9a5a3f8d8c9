"""A low-overhead HTTP/1.1 client: one request at a time per connection, reading no more of a response than necessary.

Plain HTTP only; put a server with TLS behind its own proxy to measure it. One core offers well over 8,000 requests/s with
responses of 25 KB (`python -m benchmarks.http_load ceiling`).
"""

from __future__ import annotations

import abc
import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

Check = Callable[[int, bytes], str]
"""Checks the status and body of a response; returns a description of the error, or an empty string."""


@dataclass
class Outcome:
    latencies: list[float] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    seconds: float = 0.0

    @property
    def right(self) -> int:
        """The number of correct responses."""
        return len(self.latencies) - self.wrong.total()


REFUSED = "status 503"
"""In the `wrong` responses of a load: those of an overloaded process, which refuses requests."""


class Server:
    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        if parts.scheme != "http" or not parts.hostname:
            raise SystemExit(f"--base-url: http://host:port, not {base_url!r}")
        self.host, self.port = parts.hostname, parts.port or 80
        self.prefix = parts.path.rstrip("/")

    def request(self, method: str, path: str, token: str = "", body: bytes = b"", kind: str = "") -> bytes:
        """Return the bytes of a request."""
        lines = [f"{method} {self.prefix}{path} HTTP/1.1", f"Host: {self.host}:{self.port}", "Accept: application/json"]
        lines += [f"Authorization: Bearer {token}"] if token else []
        lines += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"] if method != "GET" else []
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class AnswerReader(asyncio.BufferedProtocol, abc.ABC):
    """A connection that sends one request at a time; calls `answered` for each response, `lost` when it closes."""

    def __init__(self) -> None:
        self._buffer = bytearray(1 << 17)
        self._used = 0
        self._head = -1
        self._length = 0
        self._status = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @abc.abstractmethod
    def answered(self, status: int, body: bytes, size: int) -> None:
        """Handle a response; `size` includes its head and body in bytes."""

    @abc.abstractmethod
    def lost(self, reason: str) -> None: ...

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, request: bytes) -> None:
        """Send a request, once the previous response has arrived."""
        self._used, self._head = 0, -1
        self._transport.write(request)

    def get_buffer(self, _hint: int) -> memoryview:
        if len(self._buffer) - self._used < 1 << 15:
            self._buffer = self._buffer + bytes(len(self._buffer))
        return memoryview(self._buffer)[self._used :]

    def buffer_updated(self, count: int) -> None:
        self._used += count
        if self._head < 0 and not self._read_head():
            return
        body = self._body()
        if body is not None:
            self.answered(self._status, body, self._used)

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", 0, self._used)
        if end < 0:
            return False
        head = bytes(self._buffer[:end]).lower()
        self._status = int(head[9:12])
        self._head = end + 4
        _, given, rest = head.partition(b"\r\ncontent-length:")
        self._length = int(rest.split(b"\r\n", 1)[0]) if given else -1
        if not given and b"\r\ntransfer-encoding: chunked" not in head:
            self._length = 0
        return True

    def _body(self) -> bytes | None:
        """Return the whole body once it has arrived."""
        if self._length >= 0:
            end = self._head + self._length
            return bytes(memoryview(self._buffer)[self._head : end]) if self._used >= end else None
        parts: list[bytes] = []
        at = self._head
        while (line := self._buffer.find(b"\r\n", at, self._used)) >= 0:
            size = int(bytes(self._buffer[at:line]).split(b";")[0], 16)
            if line + size + 4 > self._used:
                return None
            if not size:
                return b"".join(parts)
            parts.append(bytes(self._buffer[line + 2 : line + 2 + size]))
            at = line + size + 4
        return None

    def eof_received(self) -> None:
        pass

    def connection_lost(self, error: Exception | None) -> None:
        if not self.over.done():
            self.lost(f"connection closed: {error or 'by the server'}")
            self.finish()

    def finish(self) -> None:
        """Close the connection after the last request."""
        if not self.over.done():
            self.over.set_result(None)
        self._transport.close()


class _Connection(AnswerReader):
    def __init__(self, requests: Iterator[bytes], check: Check, outcome: Outcome) -> None:
        super().__init__()
        self._requests = requests
        self._check = check
        self._outcome = outcome
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._next()

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self.finish()
            return
        self._sent = time.perf_counter()
        self.send(request)

    def answered(self, status: int, body: bytes, size: int) -> None:
        outcome = self._outcome
        outcome.latencies.append(time.perf_counter() - self._sent)
        outcome.bytes += size
        if problem := self._check(status, body):
            outcome.wrong[problem] += 1
        self._next()

    def lost(self, reason: str) -> None:
        self._outcome.wrong[reason] += 1
        self._outcome.latencies.append(time.perf_counter() - self._sent)


async def load(server: Server, requests: Iterator[bytes], check: Check, connections: int) -> Outcome:
    """Send all requests over `connections` connections, each taking the next request after its response."""
    outcome = Outcome()
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    made = [
        (await loop.create_connection(lambda: _Connection(requests, check, outcome), server.host, server.port))[1]
        for _ in range(connections)
    ]
    await asyncio.gather(*(connection.over for connection in made))
    outcome.seconds = time.perf_counter() - started
    return outcome


async def ask(server: Server, request: bytes) -> tuple[int, bytes]:
    """Send one request over a new connection; return the status and the body, or status 0 if the server closed the connection."""
    answers: list[tuple[int, bytes]] = [(0, b"")]

    def keep(status: int, body: bytes) -> str:
        answers.append((status, body))
        return ""

    await load(server, iter((request,)), keep, 1)
    return answers[-1]


def until(requests: Iterator[bytes], seconds: float) -> Iterator[bytes]:
    end = time.perf_counter() + seconds
    for request in requests:
        if time.perf_counter() > end:
            return
        yield request

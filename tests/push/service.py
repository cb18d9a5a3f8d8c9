"""A push service for tests: a real server with TLS. Its messages are decrypted with a library that Shoal itself does not use."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec

from shoal.push.encryption import in_url, public_bytes
from tests.engines.certificates import self_signed


class App:
    """A subscribed app, with the keys that decrypt its messages."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._secret = bytes(range(16))

    @property
    def keys(self) -> dict[str, str]:
        """Return the keys in the format of a subscription request."""
        return {"p256dh": in_url(public_bytes(self._key.public_key())), "auth": in_url(self._secret)}

    def read(self, request: Request) -> Any:
        """Return the decrypted content of a message."""
        how = request.headers["content-encoding"]
        more: dict[str, Any] = {}
        if how == "aesgcm":
            parts = dict(part.split("=", 1) for part in request.headers["crypto-key"].split(";"))
            more = {
                "salt": _bytes(request.headers["encryption"].removeprefix("salt=")),
                "dh": _bytes(parts["dh"]),
            }
        plain = http_ece.decrypt(request.body, private_key=self._key, auth_secret=self._secret, version=how, **more)
        return json.loads(plain)


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class Request:
    """A received request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class PushService:
    """A push server with its received requests.

    `answers` maps paths to response statuses; the default is 201. For 0 there is no response, for -1 a response without an end, and
    for -2 a response that stops after its beginning.
    """

    trusted: Path
    """The server's certificate."""
    url: str = ""
    came: list[Request] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)
    """Response bodies by path; the default is empty."""

    def at(self, path: str) -> list[Request]:
        """Return the requests for a path."""
        return [request for request in self.came if request.path == path]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection until it closes."""
        try:
            while request := await self._read(reader):
                self.came.append(request)
                status = self.answers.get(request.path, 201)
                if status == 0:
                    await asyncio.sleep(600)
                if status == -2:
                    writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nbegin")
                    await asyncio.sleep(600)
                if status == -1:
                    writer.write(b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n")
                    while not writer.is_closing():
                        writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                        await writer.drain()
                        await asyncio.sleep(0.001)
                more = f"Location: {self.url}/elsewhere\r\n" if status in {301, 302, 307} else ""
                body = self.bodies.get(request.path, b"")
                writer.write(f"HTTP/1.1 {status} Whatever\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Request | None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:]) if value
        }
        return Request(head[0].split()[1], headers, await reader.readexactly(int(headers.get("content-length", "0"))))


@contextmanager
def push_service(folder: Path) -> Iterator[PushService]:
    """Run a push service in a thread until the block ends."""
    made = self_signed(folder)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*made)
    service, ready, ending = PushService(trusted=made.certificate), threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        server = await asyncio.start_server(service.answer, "127.0.0.1", 0, ssl=tls)
        service.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        await ending.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(60)
    try:
        yield service
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join(60)
        loop.close()

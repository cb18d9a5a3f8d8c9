"""One HTTP request as a client sends it, over a connection of its own: what is asked, and how much is read, is in our hands."""

from __future__ import annotations

import asyncio
import http.client
import io
import ssl
from collections.abc import Mapping
from contextlib import suppress
from email.message import Message
from typing import Any, NamedTuple

_MOST_HEAD = 65_536
_MOST_BODY = 4 << 20


class Destination(NamedTuple):
    """Where a request goes."""

    host: str
    port: int
    name: str = ""
    """The host in the request and in the certificate, where it is not `host`."""
    tls: ssl.SSLContext | None = None
    source: str = ""
    """The address from which to connect; empty: the system chooses."""


class Answer(NamedTuple):
    """An answer of a server."""

    status: int
    headers: Message
    body: bytes
    certificate: dict[str, Any]
    """The certificate of the server, as `SSLSocket.getpeercert` gives it; empty without TLS."""


async def ask(
    place: Destination,
    path: str,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    read_body: bool = True,
) -> Answer:
    """Send a request without a body and read the answer. Raises `OSError`, or `ValueError` for what is not HTTP.

    The caller bounds the time.
    """
    name = place.name or place.host
    reader, writer = await asyncio.open_connection(
        place.host,
        place.port,
        ssl=place.tls,
        server_hostname=name if place.tls else None,
        local_addr=(place.source, 0) if place.source else None,
        limit=_MOST_HEAD,
    )
    try:
        host = f"[{name}]" if ":" in name else name
        usual = 443 if place.tls else 80
        lines = {
            "Host": host if place.port == usual else f"{host}:{place.port}",
            "Connection": "close",
            **(headers or {}),
        }
        head = "".join(f"{key}: {value}\r\n" for key, value in lines.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode())
        first, _, rest = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
        words = first.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            raise ValueError("it does not speak HTTP")
        body = await _body(reader) if read_body else b""
        certificate = writer.get_extra_info("peercert") or {}
        return Answer(int(words[1]), http.client.parse_headers(io.BytesIO(rest)), body, certificate)
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError("it closed the connection without an answer") from error
    except asyncio.LimitOverrunError as error:
        raise ValueError("it answers with too long a head") from error
    finally:
        # Nothing more is expected of the other side, not even a goodbye.
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _body(reader: asyncio.StreamReader) -> bytes:
    body = b""
    with suppress(ConnectionError):
        while len(body) < _MOST_BODY and (piece := await reader.read(_MOST_HEAD)):
            body += piece
    return body

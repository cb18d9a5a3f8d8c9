"""Responses of handlers: JSON encoding, entity tags and the plain error page.

A handler returns a plain value, which is encoded as JSON, `bytes`, which are already JSON, or a `Reply`, which adds a status
and headers. The content type is always `application/json`. Clients fail on any other type and on an empty body, so no response
is empty.

A client that is still sending its body does not read, and loses the response if the server closes the connection. `deliver`
therefore sends the response at once and then drains the rest of the body, up to `DRAIN_BYTES` and `DRAIN_SECONDS`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from html import escape
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Message, Receive, Scope, Send

_JSON = b"application/json"

Header = tuple[str, str]
RawHeader = tuple[bytes, bytes]

NOT_MODIFIED = 304

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_encode = msgspec.json.Encoder().encode


class Reply(msgspec.Struct, frozen=True):
    """A response with a status and headers, to be encoded as JSON."""

    body: object = None
    status: int = 200
    headers: tuple[Header, ...] = ()
    keeps_itself: bool = False
    """Whether its headers control caching."""


def encode(body: object) -> bytes:
    """Return the body as bytes: `bytes` unchanged, `{}` for None, other values as JSON."""
    if isinstance(body, bytes):
        return body
    return b"{}" if body is None else _encode(body)


def raw(made: bytes) -> Any:
    """Mark bytes as encoded JSON, which is then inserted into other JSON unchanged."""
    return msgspec.Raw(made)


def start(status: int, content: bytes, more: Iterable[RawHeader] = (), named: tuple[Header, ...] = ()) -> Message:
    """Return the ASGI message `http.response.start` for JSON `content`, or for a 304 without a body."""
    headers = [(b"content-type", _JSON), (b"content-length", b"%d" % len(content)), *more]
    if status == NOT_MODIFIED:
        headers = list(more)
    if named:
        headers += [_raw_header(name, value) for name, value in named]
    return {"type": "http.response.start", "status": status, "headers": headers}


@lru_cache(4_096)
def _raw_header(name: str, value: str) -> RawHeader:
    # Prevent header injection by a line break in a value.
    return name.lower().encode("latin-1"), _CONTROLS.sub(" ", value).encode("latin-1", "replace")


MAX_QUERY = 512
"""Maximum bytes of a query whose response is cached."""
_TAG_BYTES = 12


def with_etag(reply: Reply) -> tuple[Reply, int]:
    """Add an entity tag (RFC 9110, section 8.8.3) to a response. Return the response and the size of its body in bytes."""
    content = encode(reply.body)
    # SHA-256 is used because processors have instructions for it: it takes a third of the time of other hashes.
    tag = sha256(content + repr(reply.headers).encode()).hexdigest()[: 2 * _TAG_BYTES]
    # The client may store the response, and must revalidate it each time.
    headers = (*reply.headers, ("ETag", f'"{tag}"'), ("Cache-Control", "private, no-cache"))
    return Reply(content, reply.status, headers, keeps_itself=True), len(content)


def unless_had(reply: Reply, scope: Scope) -> Reply:
    """Return the response, or a 304 if the client's entity tag matches."""
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            tag = next((etag for key, etag in reply.headers if key == "ETag"), "")
            if tag and tag.encode() in value:
                return Reply(b"", NOT_MODIFIED, reply.headers, keeps_itself=True)
    return reply


_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "same-origin",
}


def plain_page(reply: Reply, _request: Request) -> Response:
    body = reply.body if isinstance(reply.body, Mapping) else {}
    words = escape(str(body.get("error_description") or body.get("error") or "Something went wrong"))
    html = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>This did not work</title>'
        '<meta name="viewport" content="width=device-width"></head><body><main><h1>This did not work</h1>'
        f"<p>{words}</p><p>Go back to the page that sent you here, and try again.</p></main></body></html>"
    )
    return HTMLResponse(html, reply.status, dict(reply.headers) | _HEADERS)


_CLOSE = (b"connection", b"close")
_BODY_HEADERS = frozenset({b"content-length", b"transfer-encoding", b"expect"})
DRAIN_BYTES = 128 << 20
DRAIN_SECONDS = 30.0


class BodyReceiver:
    """The `receive` function of a request, which records whether the body was received completely."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        names = {name: value for name, value in scope["headers"] if name in _BODY_HEADERS}
        self.unread = names.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in names
        # A client that waits for 100 Continue sends no body after any other response.
        self._waits = b"expect" in names

    async def receive(self) -> Message:
        message = await self._receive()
        if not message.get("more_body", False):
            self.unread = False
        return message

    async def drain(self, most: int = DRAIN_BYTES, seconds: float = DRAIN_SECONDS) -> None:
        """Receive and discard the rest of the body, up to `most` bytes and for `seconds` at most."""
        try:
            async with asyncio.timeout(seconds):
                while self.unread and not self._waits and most > 0:
                    most -= len((await self.receive()).get("body", b""))
        except TimeoutError:
            return


async def deliver(reply: Reply, content: bytes, more: list[RawHeader], inbox: BodyReceiver, send: Send) -> None:
    """Send a response, even if the client is still sending."""
    if not inbox.unread:
        await send(start(reply.status, content, more, reply.headers))
        await send({"type": "http.response.body", "body": content})
        return
    # Send the content now, for clients that read the response while they still send the request. The empty last part closes the
    # connection, so send it only after the rest of the request was received and discarded.
    await send(start(reply.status, content, [*more, _CLOSE], reply.headers))
    await send({"type": "http.response.body", "body": content, "more_body": True})
    await inbox.drain()
    await send({"type": "http.response.body", "body": b""})

"""Replies that a handler may return besides a plain value, and how they are sent.

A value is encoded as JSON; `bytes` are JSON that is ready; a `Reply` adds a status and headers. The type is always
`application/json`: clients give up on anything else, an empty body included, so no answer is `{}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
from starlette.types import Message

_JSON = b"application/json"

Header = tuple[str, str]
RawHeader = tuple[bytes, bytes]

NOT_MODIFIED = 304

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_encode = msgspec.json.Encoder().encode


class Reply(msgspec.Struct, frozen=True):
    """An answer with a status and headers of its own."""

    body: object = None
    status: int = 200
    headers: tuple[Header, ...] = ()
    keeps_itself: bool = False
    """Whether it says by itself how it may be kept."""


def encode(body: object) -> bytes:
    """The bytes of an answer: as they are, `{}` for None, else the value as JSON."""
    if isinstance(body, bytes):
        return body
    return b"{}" if body is None else _encode(body)


def raw(made: bytes) -> Any:
    """JSON that is ready, in the place of the value that it says."""
    return msgspec.Raw(made)


def start(status: int, content: bytes, more: Iterable[RawHeader] = (), named: tuple[Header, ...] = ()) -> Message:
    """The first ASGI message of a JSON answer, or of one that says that the client has it already."""
    headers = [(b"content-type", _JSON), (b"content-length", b"%d" % len(content)), *more]
    if status == NOT_MODIFIED:
        headers = list(more)
    if named:
        headers += [_raw_header(name, value) for name, value in named]
    return {"type": "http.response.start", "status": status, "headers": headers}


@lru_cache(4_096)
def _raw_header(name: str, value: str) -> RawHeader:
    # A line break in a value would start a header of somebody's choosing.
    return name.lower().encode("latin-1"), _CONTROLS.sub(" ", value).encode("latin-1", "replace")

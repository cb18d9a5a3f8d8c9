"""Web push subscriptions: where the messages of a session go, by which keys, and about what."""

from __future__ import annotations

import base64
import binascii
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from shoal.core.errors import InvalidInput

MAX_ENDPOINT = 2_048
"""Characters of an endpoint's address."""
KEY_BYTES, SECRET_BYTES = 65, 16
"""Bytes of the public key of an app (a point of P-256, uncompressed), and of the secret that it shares with us."""
MAX_SUBSCRIPTIONS = 50
"""Subscriptions of a member; the oldest makes room."""

PushPolicy = Literal["all", "followed", "follower", "none"]
"""From whom messages come: everybody, those whom the member follows, those who follow the member, nobody."""


class PushSubscription(msgspec.Struct, frozen=True, array_like=True):
    """Where the messages of one session go. It is kept as the data of the association with its token."""

    endpoint: str
    key: bytes
    secret: bytes
    alerts: tuple[str, ...] = ()
    """Kinds of notifications that are sent, by the names of the Mastodon API."""
    policy: PushPolicy = "all"
    standard: bool = True
    """Whether messages are encrypted as RFC 8291 says; false: as its fourth draft, which older apps read."""
    language: str = "en"
    """The language of titles."""
    sealed: bytes = b""
    """The text of the token, which apps find their account by, encrypted with the server's key for web push."""


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(PushSubscription).decode


def check_endpoint(endpoint: str) -> str:
    """Return the address of a push service. Raises `InvalidInput` for one that no message may go to."""
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidInput("subscription[endpoint] is not an address", field="endpoint") from error
    if parts.scheme != "https" or not host or parts.username is not None or parts.fragment:
        raise InvalidInput("subscription[endpoint] must be an https address", field="endpoint")
    if len(endpoint) > MAX_ENDPOINT or not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        raise InvalidInput(
            f"subscription[endpoint] is at most {MAX_ENDPOINT:,} printable ASCII characters", field="endpoint"
        )
    return endpoint


def check_bytes(text: str, length: int, field: str) -> bytes:
    """Return what a text in base64 (for URLs or plain, padded or not) says. Raises `InvalidInput` for another length."""
    try:
        plain = text.rstrip("=").replace("+", "-").replace("/", "_")
        found = base64.b64decode(plain + "=" * (-len(plain) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if len(found) != length:
        raise InvalidInput(f"subscription[keys][{field}] must be {length} bytes in base64", field=field)
    return found

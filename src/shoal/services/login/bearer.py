"""What a bearer shows: an id with a secret behind it, as one text. Secrets are random and long; only their hashes are kept."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from hashlib import sha256
from typing import NamedTuple

from shoal.core.ids import MAX_ID

_ID_BYTES = 8


class Shown(NamedTuple):
    """What stands in a text: which object it is of, and the secret that proves it. 0 and nothing for a text that is none."""

    id: int
    secret: bytes


def new_secret(length: int) -> bytes:
    """So many random bytes."""
    return secrets.token_bytes(length)


def hash_of(secret: bytes) -> bytes:
    """What is kept of a secret."""
    return sha256(secret).digest()


def fits(stored: bytes, secret: bytes) -> bool:
    """Whether this is the secret; how long it takes does not tell how near it came."""
    return hmac.compare_digest(stored, hash_of(secret))


def text_of(id_: int, secret: bytes) -> str:
    """The text that is handed out."""
    return _plain(id_.to_bytes(_ID_BYTES) + secret)


def _plain(raw: bytes) -> str:
    """Without a `=` at its end: browsers show a token as the protocol of a WebSocket, where there may be none."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def opened(text: str) -> Shown:
    """What is in the text."""
    raw = decoded(text)
    id_ = int.from_bytes(raw[:_ID_BYTES])
    return Shown(id_, raw[_ID_BYTES:]) if len(raw) > _ID_BYTES and id_ <= MAX_ID else Shown(0, b"")


def decoded(text: str) -> bytes:
    """The bytes that were shown; none, when they are not even well-formed."""
    if len(text) > 100 or not text.isascii():
        return b""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
    # The decoder forgives stray bits at the end: but one thing has one text, and that with the padding which tokens had before.
    return raw if text == _plain(raw) or text == base64.urlsafe_b64encode(raw).decode() else b""

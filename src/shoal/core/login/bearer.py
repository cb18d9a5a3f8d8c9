"""Bearer credentials: an id and a secret encoded as one text.

Secrets are long and random; only their hashes are stored.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from hashlib import sha256
from typing import NamedTuple

from shoal.core.ids import MAX_ID

_ID_BYTES = 8


class PresentedToken(NamedTuple):
    """A decoded credential: the id of its object, and the secret that proves it; 0 and b"" for a malformed text."""

    id: int
    secret: bytes


def new_secret(length: int) -> bytes:
    """Return a secret of so many random bytes."""
    return secrets.token_bytes(length)


def hash_of(secret: bytes) -> bytes:
    """Return the hash of a secret, which is stored in its place."""
    return sha256(secret).digest()


def fits(stored: bytes, secret: bytes) -> bool:
    """Return whether this is the secret. The time it takes does not reveal how close a guess came."""
    return hmac.compare_digest(stored, hash_of(secret))


def text_of(id_: int, secret: bytes) -> str:
    """Return the text that is given to a client."""
    return _plain(id_.to_bytes(_ID_BYTES) + secret)


def _plain(raw: bytes) -> str:
    """Encode without a trailing `=`: browsers send a token as the protocol of a WebSocket, where it is not allowed."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def opened(text: str) -> PresentedToken:
    """Decode a credential."""
    raw = decoded(text)
    id_ = int.from_bytes(raw[:_ID_BYTES])
    return PresentedToken(id_, raw[_ID_BYTES:]) if len(raw) > _ID_BYTES and id_ <= MAX_ID else PresentedToken(0, b"")


def decoded(text: str) -> bytes:
    """Return the bytes of a text; none when it is malformed."""
    if len(text) > 100 or not text.isascii():
        return b""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
    # The decoder forgives stray bits at the end: but one thing has one text, and that with the padding which tokens had before.
    return raw if text == _plain(raw) or text == base64.urlsafe_b64encode(raw).decode() else b""

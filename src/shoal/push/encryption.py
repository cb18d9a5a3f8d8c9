"""Messages that only the app of a subscription can read.

RFC 8291 over the content encoding of RFC 8188, and the fourth draft of both, which apps of before 2016 and Mastodon's own read:
https://datatracker.ietf.org/doc/html/draft-ietf-webpush-encryption-04
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from shoal.core.errors import InvalidInput

MAX_PLAIN = 3_800
"""Bytes of a message: with its head and seal it stays below the 4,096 that every push service takes (RFC 8030, section 7.2)."""
_RECORD = 4_096
_SALT, _KEY, _NONCE, _SHARED = 16, 16, 12, 32
_LAST_RECORD = b"\x02"
_NO_PADDING = b"\x00\x00"


class Sealed(NamedTuple):
    """An encrypted body, and the headers that say how."""

    body: bytes
    headers: Mapping[str, str]
    """Without those that say who sends it."""
    crypto_key: str = ""
    """A part of the header `Crypto-Key`, beside the key of the sender; empty where there is none."""


def check_key(point: bytes) -> bytes:
    """Return the public key of an app. Raises `InvalidInput` for one that is no point of P-256, uncompressed."""
    try:
        whole = public_bytes(_point(point))
    except ValueError:
        whole = b""
    if whole != point:
        raise InvalidInput("subscription[keys][p256dh] is not a key of P-256", field="p256dh")
    return point


def seal(plain: bytes, key: bytes, secret: bytes, *, standard: bool) -> Sealed:
    """Encrypt a message of at most `MAX_PLAIN` bytes, with a new key of our own and a new salt, for a public key and a secret.

    `standard` is RFC 8291; otherwise the draft.
    """
    return sealed_with(
        plain, key, secret, ec.generate_private_key(ec.SECP256R1()), os.urandom(_SALT), standard=standard
    )


def sealed_with(
    plain: bytes, key: bytes, secret: bytes, ours: ec.EllipticCurvePrivateKey, salt: bytes, *, standard: bool
) -> Sealed:
    """Encrypt with this key of our own and this salt, which must never be used twice."""
    point = public_bytes(ours.public_key())
    shared = ours.exchange(ec.ECDH(), _point(key))
    if standard:
        keying = _derived(shared, secret, b"WebPush: info\0" + key + point, _SHARED)
        body_key = _derived(keying, salt, b"Content-Encoding: aes128gcm\0", _KEY)
        nonce = _derived(keying, salt, b"Content-Encoding: nonce\0", _NONCE)
        head = salt + _RECORD.to_bytes(4) + len(point).to_bytes(1) + point
        body = AESGCM(body_key).encrypt(nonce, plain + _LAST_RECORD, None)
        return Sealed(head + body, {"Content-Encoding": "aes128gcm"})
    context = b"P-256\0" + len(key).to_bytes(2) + key + len(point).to_bytes(2) + point
    keying = _derived(shared, secret, b"Content-Encoding: auth\0", _SHARED)
    body_key = _derived(keying, salt, b"Content-Encoding: aesgcm\0" + context, _KEY)
    nonce = _derived(keying, salt, b"Content-Encoding: nonce\0" + context, _NONCE)
    body = AESGCM(body_key).encrypt(nonce, _NO_PADDING + plain, None)
    return Sealed(body, {"Content-Encoding": "aesgcm", "Encryption": f"salt={in_url(salt)}"}, f"dh={in_url(point)}")


def public_bytes(key: ec.EllipticCurvePublicKey) -> bytes:
    """Return a public key as 65 bytes: its point, uncompressed."""
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def in_url(data: bytes) -> str:
    """Return bytes in base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _point(data: bytes) -> ec.EllipticCurvePublicKey:
    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), data)


def _derived(keying: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(keying)

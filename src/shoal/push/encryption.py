"""Encryption of web push messages, and the server key (VAPID, RFC 8292).

Messages are encrypted by RFC 8291 with the content encoding of RFC 8188, or by the fourth draft of both, which apps
from before 2016 and Mastodon's own apps use:
https://datatracker.ietf.org/doc/html/draft-ietf-webpush-encryption-04

The server key also encrypts what the server stores about tokens.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from shoal.core.errors import InvalidInput

MAX_PLAIN = 3_800
"""Maximum bytes of a message: encrypted, it stays below the 4,096 that every push service accepts (RFC 8030, section 7.2)."""
_RECORD = 4_096
_SALT, _KEY, _NONCE, _SHARED = 16, 16, 12, 32
_LAST_RECORD = b"\x02"
_NO_PADDING = b"\x00\x00"


class Sealed(NamedTuple):
    body: bytes
    headers: Mapping[str, str]
    """Without the headers that identify the sending server."""
    crypto_key: str = ""
    """The part of the header `Crypto-Key` that precedes the server's key; may be empty."""


def check_key(point: bytes) -> bytes:
    """Return the public key of an app. Raises `InvalidInput` unless it is an uncompressed point of P-256."""
    try:
        whole = public_bytes(_point(point))
    except ValueError:
        whole = b""
    if whole != point:
        raise InvalidInput("subscription[keys][p256dh] is not a P-256 public key", field="p256dh")
    return point


def seal(plain: bytes, key: bytes, secret: bytes, *, standard: bool) -> Sealed:
    """Encrypt a message of at most `MAX_PLAIN` bytes for a public key and a secret, with a new key and a new salt.

    With `standard`, the encryption follows RFC 8291, otherwise its fourth draft.
    """
    return sealed_with(
        plain, key, secret, ec.generate_private_key(ec.SECP256R1()), os.urandom(_SALT), standard=standard
    )


def sealed_with(
    plain: bytes, key: bytes, secret: bytes, ours: ec.EllipticCurvePrivateKey, salt: bytes, *, standard: bool
) -> Sealed:
    """Encrypt a message with the given private key and salt. The same key and salt must never be used twice."""
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
    """Return a public key as an uncompressed point of 65 bytes."""
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def in_url(data: bytes) -> str:
    """Return bytes in URL-safe base64, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _point(data: bytes) -> ec.EllipticCurvePublicKey:
    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), data)


def _derived(keying: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(keying)


_BYTES = 32
_TOKEN_NONCE = 12
_GOOD_SECONDS = 12 * 3_600
"""Validity of a signature; RFC 8292 allows a day."""
_RENEWED_SECONDS = 3_600
_HEAD = in_url(b'{"typ":"JWT","alg":"ES256"}')


class ServerKey:
    """The server's private key for web push (P-256). `contact` is a `mailto:` or `https:` address, which push services receive."""

    def __init__(self, private: bytes, contact: str) -> None:
        self._key = ec.derive_private_key(int.from_bytes(private), ec.SECP256R1())
        self._contact = contact
        self._seal = AESGCM(HKDF(SHA256(), _BYTES, b"", b"shoal push token").derive(private))
        self.public = in_url(public_bytes(self._key.public_key()))
        """The public key in URL-safe base64, as clients need it to subscribe."""
        self._signed = lru_cache(1_000)(self._sign)

    def token_for(self, origin: str) -> str:
        """Return a signed token for the push service at an origin, valid for half a day and renewed hourly."""
        return self._signed(origin, int(time.time()) // _RENEWED_SECONDS)

    def _sign(self, origin: str, hour: int) -> str:
        claims = {"aud": origin, "exp": hour * _RENEWED_SECONDS + _GOOD_SECONDS, "sub": self._contact}
        signing_input = f"{_HEAD}.{in_url(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(signing_input.encode(), ec.ECDSA(SHA256())))
        return f"{signing_input}.{in_url(r.to_bytes(_BYTES) + s.to_bytes(_BYTES))}"

    def seal(self, text: str) -> bytes:
        """Encrypt a text so that only a server with this key can decrypt it."""
        nonce = os.urandom(_TOKEN_NONCE)
        return nonce + self._seal.encrypt(nonce, text.encode(), None)

    def open(self, sealed: bytes) -> str:
        """Decrypt a text; empty if another key encrypted it."""
        try:
            return self._seal.decrypt(sealed[:_TOKEN_NONCE], sealed[_TOKEN_NONCE:], None).decode()
        except (InvalidTag, ValueError):
            return ""


def new_key() -> str:
    """Return a new private key in the format of the setting `push_key`."""
    return in_url(ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value.to_bytes(_BYTES))


def read_key(text: str) -> bytes:
    """Return the bytes of a private key. Raises `InvalidInput` if the text is not one."""
    try:
        private = base64.b64decode(text.strip() + "=" * (-len(text.strip()) % 4), altchars=b"-_", validate=True)
        ec.derive_private_key(int.from_bytes(private), ec.SECP256R1())
    except ValueError as error:
        raise InvalidInput("push_key: invalid key; generate one with `shoal push key`") from error
    if len(private) != _BYTES:
        raise InvalidInput("push_key: invalid key; generate one with `shoal push key`")
    return private


def load_or_create_key(path: Path) -> bytes:
    """Return the private key in a file, creating it with access for the owner only if necessary.

    Concurrent callers get the same key. Raises `InvalidInput` for a file with other contents, and `OSError`.
    """
    if not path.exists():
        made = path.with_name(f"{path.name}.{os.getpid()}")
        made.unlink(missing_ok=True)
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(new_key() + "\n")
        try:
            # Of concurrent creators the first wins, because a link to an existing name fails.
            path.hardlink_to(made)
        except FileExistsError:
            pass
        finally:
            made.unlink()
    # A copied or moved store may have files with another mode.
    path.chmod(0o600)
    return read_key(path.read_text("ascii"))

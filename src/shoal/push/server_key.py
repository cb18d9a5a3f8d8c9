"""The key by which push services know the server (VAPID, RFC 8292), and by which it seals what it keeps of tokens."""

from __future__ import annotations

import base64
import os
import time
from functools import lru_cache
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from shoal.core.errors import InvalidInput
from shoal.push.encryption import in_url, public_bytes

_BYTES = 32
_NONCE = 12
_GOOD_SECONDS = 12 * 3_600
"""How long a signature is good; RFC 8292 allows a day."""
_RENEWED_SECONDS = 3_600
_HEAD = in_url(b'{"typ":"JWT","alg":"ES256"}')


class ServerKey:
    """A private key of P-256; `contact` is the address (`mailto:` or `https:`) that push services are told."""

    def __init__(self, private: bytes, contact: str) -> None:
        self._key = ec.derive_private_key(int.from_bytes(private), ec.SECP256R1())
        self._contact = contact
        self._seal = AESGCM(HKDF(SHA256(), _BYTES, b"", b"shoal push token").derive(private))
        self.public = in_url(public_bytes(self._key.public_key()))
        """The public key, as clients subscribe with it: base64 for URLs."""
        self._signed = lru_cache(1_000)(self._sign)

    def token_for(self, origin: str) -> str:
        """Return a signed token for the push service at an origin, good for half a day: made once an hour."""
        return self._signed(origin, int(time.time()) // _RENEWED_SECONDS)

    def _sign(self, origin: str, hour: int) -> str:
        claims = {"aud": origin, "exp": hour * _RENEWED_SECONDS + _GOOD_SECONDS, "sub": self._contact}
        said = f"{_HEAD}.{in_url(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(said.encode(), ec.ECDSA(SHA256())))
        return f"{said}.{in_url(r.to_bytes(_BYTES) + s.to_bytes(_BYTES))}"

    def seal(self, text: str) -> bytes:
        """Encrypt a text that only this key opens."""
        nonce = os.urandom(_NONCE)
        return nonce + self._seal.encrypt(nonce, text.encode(), None)

    def open(self, sealed: bytes) -> str:
        """Return the text that was sealed; empty where another key sealed it."""
        try:
            return self._seal.decrypt(sealed[:_NONCE], sealed[_NONCE:], None).decode()
        except (InvalidTag, ValueError):
            return ""


def new_key() -> str:
    """Return a new private key as the setting `push_key` takes it."""
    return in_url(ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value.to_bytes(_BYTES))


def read_key(text: str) -> bytes:
    """Return the bytes of a private key. Raises `InvalidInput` for a text that is none."""
    try:
        private = base64.b64decode(text.strip() + "=" * (-len(text.strip()) % 4), altchars=b"-_", validate=True)
        ec.derive_private_key(int.from_bytes(private), ec.SECP256R1())
    except ValueError as error:
        raise InvalidInput("push_key: a key as `shoal push key` prints one") from error
    if len(private) != _BYTES:
        raise InvalidInput("push_key: a key as `shoal push key` prints one")
    return private


def kept_key(path: Path) -> bytes:
    """Return the private key in a file, which is made, for its owner alone, where there is none.

    Of several who make it at once all get the same. Raises `InvalidInput` for a file with something else in it, and `OSError`.
    """
    if not path.exists():
        made = path.with_name(f"{path.name}.{os.getpid()}")
        made.unlink(missing_ok=True)
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(new_key() + "\n")
        try:
            # Whoever is first has it: a link to what is there already fails.
            path.hardlink_to(made)
        except FileExistsError:
            pass
        finally:
            made.unlink()
    # A copy, or a store that was moved, may have left it open to others.
    path.chmod(0o600)
    return read_key(path.read_text("ascii"))

"""A second factor beside the password: codes of an app that change every half minute, and recovery codes for when it is lost.

The codes are those of RFC 6238 (TOTP: SHA-1, 30 seconds, 6 digits), which every authenticator app makes. A code counts in the
step in which it was made and in the ones before and after it, as clocks differ, and once: whoever looks over a shoulder cannot
use it again.

    step of the clock      100       101       102
    codes that count    99 100 101
                                100 101 102, but none up to 101 once that of 101 was used
"""

from __future__ import annotations

import base64
import hmac
import secrets
from hashlib import sha256

import msgspec
import pyotp

STEP_SECONDS = 30
_KEY_BYTES = 20
_DIGITS = 6
_AROUND = (0, -1, 1)
"""Steps beside that of the clock whose codes count."""
RECOVERY_CODES = 10
_RECOVERY_CHARACTERS = 10
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
"""Letters and digits that are not taken for each other: ten of them are 49 bits."""


class SecondFactor(msgspec.Struct, frozen=True, array_like=True):
    """A key for codes, and the recovery codes that are left."""

    key: bytes
    """The secret that the app and we share; empty where passkeys are the second factor, without an app."""
    used: int = 0
    """The newest step whose code was used."""
    recovery: tuple[bytes, ...] = ()
    """Hashes of the recovery codes that are left."""
    since: int = 0
    """When it was turned on, in Unix milliseconds."""


def new_key() -> str:
    """Return a new secret as apps take it: 32 characters of base32."""
    return base64.b32encode(secrets.token_bytes(_KEY_BYTES)).decode()


def key_of(text: str) -> bytes:
    """Return the secret of a text as `new_key` made it; none for another text."""
    try:
        found = base64.b32decode(text)
    except ValueError:
        return b""
    return found if len(found) == _KEY_BYTES else b""


def address_of(key: str, name: str, title: str) -> str:
    """Return what a QR code tells an app: the secret, whose it is and where (the `otpauth` scheme)."""
    return pyotp.TOTP(key, name=name, issuer=title).provisioning_uri()


def new_recovery_codes() -> tuple[list[str], tuple[bytes, ...]]:
    """Return ten recovery codes and their hashes; the codes are shown this once."""
    codes = ["".join(secrets.choice(_ALPHABET) for _ in range(_RECOVERY_CHARACTERS)) for _ in range(RECOVERY_CODES)]
    return [f"{code[:5]}-{code[5:]}" for code in codes], tuple(_hash(code) for code in codes)


def used(factor: SecondFactor, code: str, now: int) -> SecondFactor | None:
    """Return the factor after this code was used, in Unix milliseconds; None for a code that does not count (any more)."""
    typed = "".join(code.split()).replace("-", "").lower()
    if len(typed) == _DIGITS and typed.isascii() and typed.isdigit():
        return _by_app(factor, typed, now // 1000 // STEP_SECONDS)
    given = _hash(typed)
    left = tuple(one for one in factor.recovery if not hmac.compare_digest(one, given))
    return None if len(left) == len(factor.recovery) else msgspec.structs.replace(factor, recovery=left)


def _by_app(factor: SecondFactor, typed: str, step: int) -> SecondFactor | None:
    if not factor.key:
        return None
    app = pyotp.TOTP(base64.b32encode(factor.key).decode())
    for around in _AROUND:
        if step + around > factor.used and hmac.compare_digest(app.generate_otp(step + around), typed):
            return msgspec.structs.replace(factor, used=step + around)
    return None


def _hash(code: str) -> bytes:
    return sha256(code.encode("utf-8", "replace")).digest()[:16]

"""Bearer tokens: encode an id and a secret as text, record the last use, and compute expiry.

Secrets are long and random; only their hashes are stored. Of the `User-Agent` header only the program and the system are stored:

    Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0      program "Firefox", system "Linux"
    Tusky/28.0 Android/15                                                       program "Tusky", system "Android"
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

import msgspec

from shoal.core.ids import MAX_ID

_ID_BYTES = 8


class PresentedToken(NamedTuple):
    """The id and secret in the token that a client sent; 0 and b"" if the token is malformed."""

    id: int
    secret: bytes


def new_secret(length: int) -> bytes:
    return secrets.token_bytes(length)


def hash_of(secret: bytes) -> bytes:
    return sha256(secret).digest()


def fits(stored: bytes, secret: bytes) -> bool:
    return hmac.compare_digest(stored, hash_of(secret))


def text_of(id_: int, secret: bytes) -> str:
    return _plain(id_.to_bytes(_ID_BYTES) + secret)


def _plain(raw: bytes) -> str:
    """Encode as base64 without padding: browsers send a token as a WebSocket protocol, where `=` is not allowed."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def opened(text: str) -> PresentedToken:
    raw = decoded(text)
    id_ = int.from_bytes(raw[:_ID_BYTES])
    return PresentedToken(id_, raw[_ID_BYTES:]) if len(raw) > _ID_BYTES and id_ <= MAX_ID else PresentedToken(0, b"")


def decoded(text: str) -> bytes:
    """Return the bytes of a base64 text; empty if it is malformed."""
    if len(text) > 100 or not text.isascii():
        return b""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
    # The decoder ignores stray bits at the end. Accept only the canonical text, or the canonical text with `=` padding, as in
    # older tokens.
    padded = base64.urlsafe_b64encode(raw).decode()
    return raw if text in {padded, padded.rstrip("=")} else b""


_DAY_MS = 86_400_000
_MOST_READ = 512
_MAX_PROGRAM_NAME = 40
_MOST_ADDRESS = 64

# The first match is used: browsers based on Chromium also name Chrome, and Chrome also names Safari.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("DuckDuckGo/", "DuckDuckGo"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Safari/", "Safari"),
)
# The first match is used: Android also names Linux, and iPhones also name Mac OS.
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("macOS", "macOS"),
    ("FreeBSD", "FreeBSD"),
    ("Linux", "Linux"),
)


class TokenUse(msgspec.Struct, frozen=True, array_like=True):
    """The last use of a token: program, address and time. Empty for tokens from before uses were recorded."""

    at: int = 0
    """When the token was last used, in Unix milliseconds. It is written at most once in 24 hours."""
    program: str = ""
    system: str = ""
    made_from: str = ""
    """The IP address (the /64 prefix for IPv6) of the request that created the token."""
    used_from: str = ""

    def is_due(self, now: int) -> bool:
        return now - self.at >= _DAY_MS


class Origin(NamedTuple):
    address: str = ""
    program: str = ""
    system: str = ""

    def first(self, now: int) -> TokenUse:
        """Return the record of use for a token that this request creates: the time, the program and the address of this request."""
        return TokenUse(now, self.program, self.system, self.address, self.address)

    def after(self, before: TokenUse, now: int) -> TokenUse:
        """Return the record that replaces `before` when this request uses the token again.

        If the request names no program, the record keeps the program of `before`.
        """
        program = (self.program, self.system) if self.program else (before.program, before.system)
        return TokenUse(now, *program, before.made_from, self.address)


NOWHERE = Origin()
"""The origin of actions by the server itself."""


class TokenLifetime(NamedTuple):
    """How long a token stays valid without being used."""

    idle_ms: int = 0
    """Milliseconds without a use; 0 for unlimited."""
    since: int = 0
    """When the server began to record token uses, in Unix milliseconds. A token without a recorded use counts as used then."""

    def is_over(self, use: TokenUse, now: int) -> bool:
        """Return whether a token has expired, given its last recorded use.

        The lifetime is extended by a day, because uses within a day after a recorded one are not recorded.
        """
        return self.idle_ms > 0 and now - max(use.at, self.since) >= self.idle_ms + _DAY_MS


FOR_EVER = TokenLifetime()


def origin_of(address: str, user_agent: str) -> Origin:
    return Origin(address[:_MOST_ADDRESS], *_program_of(user_agent[:_MOST_READ]))


@lru_cache(maxsize=1024)
def _program_of(user_agent: str) -> tuple[str, str]:
    """Return the program and the system in a `User-Agent`, each empty if unknown."""
    system = _named(user_agent, _SYSTEMS)
    if user_agent.startswith("Mozilla/"):
        return _named(user_agent, _BROWSERS), system
    name = user_agent.partition("/")[0].partition("(")[0].strip()
    return "".join(filter(str.isprintable, name))[:_MAX_PROGRAM_NAME], system


def _named(user_agent: str, names: tuple[tuple[str, str], ...]) -> str:
    return next((name for mark, name in names if mark in user_agent), "")

"""Bearer tokens: encode an id and a secret as text, record the last use, and compute expiry.

Secrets are long and random; only their hashes are stored. Of the `User-Agent` header only program and system are kept:

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


_DAY_MS = 86_400_000
_MOST_READ = 512
"""Characters of a `User-Agent` that are looked at."""
_MOST_KEPT = 40
"""Characters of the name of a program."""
_MOST_ADDRESS = 64

# The first that stands in the text counts: those who build on Chromium say that they are Chrome, and Chrome that it is Safari.
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
# Android says that it is Linux, and iPhones that they are like Macs.
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
    """The program that uses a token, its address, and when. All of it is empty for tokens from before it was kept."""

    at: int = 0
    """When it was last used, in Unix milliseconds: to the day, as it is written once in 24 hours at most."""
    program: str = ""
    system: str = ""
    made_from: str = ""
    """The address (of IPv6: the /64 network) of the request that it was made by."""
    used_from: str = ""
    """The address that it was last used from."""

    def is_due(self, now: int) -> bool:
        """Return whether a use at this moment is to be written: the last one that was is a day old."""
        return now - self.at >= _DAY_MS


class Origin(NamedTuple):
    """Where a request comes from."""

    address: str = ""
    program: str = ""
    system: str = ""

    def first(self, now: int) -> TokenUse:
        """Return the use of a token that is made by such a request."""
        return TokenUse(now, self.program, self.system, self.address, self.address)

    def after(self, before: TokenUse, now: int) -> TokenUse:
        """Return the use of a token after such a request."""
        program = (self.program, self.system) if self.program else (before.program, before.system)
        return TokenUse(now, *program, before.made_from, self.address)


NOWHERE = Origin()
"""Inside the process."""


class TokenLifetime(NamedTuple):
    """How long tokens last that nobody uses."""

    idle_ms: int = 0
    """Milliseconds; 0: for ever."""
    since: int = 0
    """When the network began to keep the uses of tokens, in Unix milliseconds. Tokens from before count as used then."""

    def is_over(self, use: TokenUse, now: int) -> bool:
        """Return whether a token with this last use has ended. What is written of that may be a day old."""
        return self.idle_ms > 0 and now - max(use.at, self.since) >= self.idle_ms + _DAY_MS


FOR_EVER = TokenLifetime()


def origin_of(address: str, user_agent: str) -> Origin:
    """Return the origin of a request from its address and `User-Agent`, either of which may be empty."""
    return Origin(address[:_MOST_ADDRESS], *_program_of(user_agent[:_MOST_READ]))


@lru_cache(maxsize=1024)
def _program_of(user_agent: str) -> tuple[str, str]:
    """Return the program and the system in a `User-Agent`, each empty where it is not known."""
    system = _named(user_agent, _SYSTEMS)
    if user_agent.startswith("Mozilla/"):
        return _named(user_agent, _BROWSERS), system
    name = user_agent.partition("/")[0].partition("(")[0].strip()
    return "".join(filter(str.isprintable, name))[:_MOST_KEPT], system


def _named(user_agent: str, names: tuple[tuple[str, str], ...]) -> str:
    return next((name for mark, name in names if mark in user_agent), "")

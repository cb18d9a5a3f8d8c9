"""The browser of a person: who is logged in in it, and whether a form came from a page that we gave to it.

Two cookies, both for us alone: the login, and a random key. Each form carries a token made of the key and the login (against CSRF),
so no other site can make one, and a page that was shown to one member is no good for another (as with a page left open).
"""

from __future__ import annotations

import hmac
import re
import secrets
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

from shoal.commands.oauth import BROWSER_MS

_LOGIN, _KEY = "shoal_login", "shoal_form"
_GOOD_KEY = re.compile(r"[A-Za-z0-9_-]{43}")
_MAC_BYTES = 32
_GOOD_TOKEN = re.compile(r"[0-9a-f]{128}")
_OURS = frozenset({"", "none", "same-origin"})
"""Values of `Sec-Fetch-Site` for a form on a page of this server; empty from old browsers, which do not send it."""


class Browser:
    """One request of it."""

    def __init__(self, request: Request, *, secure: bool) -> None:
        # The prefix keeps other hosts of our domain from setting them.
        self._prefix = "__Host-" if secure else ""
        self._secure = secure
        self.login = request.cookies.get(self._prefix + _LOGIN, "")
        """The text of a token, or empty. It is whatever the browser sends: `commands/sessions.py` says whose it is."""
        key = request.cookies.get(self._prefix + _KEY, "")
        self._known = bool(_GOOD_KEY.fullmatch(key))
        self._key = key if self._known else secrets.token_urlsafe(32)
        self._site = request.headers.get("sec-fetch-site", "")

    @property
    def form_token(self) -> str:
        """Return a token that a form must send back, bound to the browser and its login (CSRF).

        It is another each time, masked by random bytes that it begins with, so that the size of a compressed page tells
        nothing of it (the BREACH attack: https://breachattack.com).
        """
        mask = secrets.token_bytes(_MAC_BYTES)
        return (mask + _masked(self._mac(), mask)).hex()

    @property
    def is_new(self) -> bool:
        """Whether it was given no key yet: its first page brings one."""
        return not self._known

    @property
    def name(self) -> str:
        """Return a name of the browser with its login, which tells nothing of them. It is another whenever forms are no good."""
        return sha256(self._mac()).hexdigest()

    def sent(self, form_token: str) -> bool:
        """Whether a form with this token is from a page that this browser was given, as who it is logged in now."""
        if not (self._known and self._site in _OURS and _GOOD_TOKEN.fullmatch(form_token)):
            return False
        token = bytes.fromhex(form_token)
        return hmac.compare_digest(_masked(token[_MAC_BYTES:], token[:_MAC_BYTES]), self._mac())

    def _mac(self) -> bytes:
        return hmac.digest(self._key.encode(), self.login.encode(), sha256)

    def keep(self, response: Response) -> None:
        """The page that goes out has forms made with the key: the browser keeps it."""
        if not self._known:
            self._set(response, _KEY, self._key, None)

    def log_in(self, response: Response, text: str) -> None:
        """The browser is logged in by this token."""
        self._set(response, _LOGIN, text, BROWSER_MS // 1000)

    def log_out(self, response: Response) -> None:
        """End the login of the browser, which also drops everything that it has stored of the member's pages."""
        self._set(response, _LOGIN, "", 0)
        response.headers["Clear-Site-Data"] = '"cache", "storage"'

    def _set(self, response: Response, name: str, value: str, seconds: int | None) -> None:
        response.set_cookie(
            self._prefix + name,
            value,
            max_age=seconds,
            path="/",
            secure=self._secure,
            httponly=True,
            # Not strict: an app sends its people here, and they are to be known when they arrive.
            samesite="lax",
        )


def _masked(data: bytes, mask: bytes) -> bytes:
    """Return bytes with a mask of the same length laid over them, or taken off again."""
    return bytes(one ^ other for one, other in zip(data, mask, strict=True))

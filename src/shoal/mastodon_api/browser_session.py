"""The login cookie of a browser, and the form tokens that protect pages against CSRF.

There are three cookies: the login, a random key, and the action that a visitor began (`web.pending_actions`). A login
with a provider uses further ones (`web.oidc`). A form token is derived from the login and the key, so no other site can
create it. A page rendered for one member contains no valid token for another member of the same browser.
"""

from __future__ import annotations

import hmac
import re
import secrets
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

from shoal.commands.oauth import BROWSER_MS

_LOGIN, _KEY, _PENDING = "shoal_login", "shoal_form", "shoal_pending"
_PENDING_SECONDS = 1_800
REQUESTED = "shoal_oidc"
"""The request to a login provider whose response the browser awaits."""
IDENTITY = "shoal_identity"
"""The user of a login provider without a linked member."""
OWNER = "shoal_owner"
"""The confirmation that the member has just logged in again."""
PROVIDER = "shoal_provider"
"""The login provider whose session ends with the login."""
_GOOD_KEY = re.compile(r"[A-Za-z0-9_-]{43}")
_MAC_BYTES = 32
_GOOD_TOKEN = re.compile(r"[0-9a-f]{128}")
_OURS = frozenset({"", "none", "same-origin"})
"""Values of `Sec-Fetch-Site` in a form that a page of this server sends. Old browsers do not send this header."""


class Browser:
    """The browser session of a request."""

    def __init__(self, request: Request, *, secure: bool) -> None:
        # With this prefix, other hosts of the domain cannot set the cookies.
        self._prefix = "__Host-" if secure else ""
        self._secure = secure
        self.login = request.cookies.get(self._prefix + _LOGIN, "")
        """The text of a token; empty without a login.

        The token is not verified yet: `commands/sessions.py` looks up its member.
        """
        key = request.cookies.get(self._prefix + _KEY, "")
        self._known = bool(_GOOD_KEY.fullmatch(key))
        self._key = key if self._known else secrets.token_urlsafe(32)
        self.pending = request.cookies.get(self._prefix + _PENDING, "")
        """The action to perform after the login: see `web.pending_actions`."""
        self._site = request.headers.get("sec-fetch-site", "")
        self._cookies = request.cookies

    def read(self, name: str) -> str:
        """Return a cookie of `hold`; empty if the browser has none."""
        return self._cookies.get(self._prefix + name, "")

    def hold(self, response: Response, name: str, value: str, seconds: int | None) -> None:
        """Set a cookie for some seconds, or until the browser is closed (None). An empty value deletes the cookie."""
        if value or self.read(name):
            self._set(response, name, value, seconds if value else 0)

    @property
    def form_token(self) -> str:
        """Return a token that a form must send back, bound to the browser and its login (CSRF).

        The result differs on every call: it begins with random bytes, which mask the rest. Otherwise the size of
        compressed pages would leak the token (the BREACH attack: https://breachattack.com).
        """
        mask = secrets.token_bytes(_MAC_BYTES)
        return (mask + _masked(self._mac(), mask)).hex()

    @property
    def is_new(self) -> bool:
        """Whether the browser has no key cookie yet; `keep` sets it."""
        return not self._known

    @property
    def name(self) -> str:
        """Return an opaque identifier of the browser and its login. It changes whenever the form tokens become invalid."""
        return sha256(self._mac()).hexdigest()

    def sent(self, form_token: str) -> bool:
        """Return whether a form token was issued to this browser under its current login."""
        if not (self._known and self._site in _OURS and _GOOD_TOKEN.fullmatch(form_token)):
            return False
        token = bytes.fromhex(form_token)
        return hmac.compare_digest(_masked(token[_MAC_BYTES:], token[:_MAC_BYTES]), self._mac())

    @property
    def sends_itself(self) -> bool:
        """Whether the user caused the request directly, such as by typing the URL (`Sec-Fetch-Site: none`)."""
        return self._site == "none"

    def _mac(self) -> bytes:
        return hmac.digest(self._key.encode(), self.login.encode(), sha256)

    def keep(self, response: Response) -> None:
        """Set the key cookie if the browser does not have it yet, so that forms on the page can be submitted."""
        if not self._known:
            self._set(response, _KEY, self._key, None)

    def log_in(self, response: Response, text: str) -> None:
        self._set(response, _LOGIN, text, BROWSER_MS // 1000)

    def postpone(self, response: Response, action: str) -> None:
        """Store an action in a cookie until the visitor has logged in. An empty text deletes the cookie."""
        if action or self.pending:
            self._set(response, _PENDING, action, _PENDING_SECONDS if action else 0)

    def log_out(self, response: Response) -> None:
        """Log the browser out, and make it delete its cached pages and stored data of this site."""
        self._set(response, _LOGIN, "", 0)
        self.postpone(response, "")
        for name in (IDENTITY, OWNER, PROVIDER):
            self.hold(response, name, "", 0)
        response.headers["Clear-Site-Data"] = '"cache", "storage"'

    def _set(self, response: Response, name: str, value: str, seconds: int | None) -> None:
        response.set_cookie(
            self._prefix + name,
            value,
            max_age=seconds,
            path="/",
            secure=self._secure,
            httponly=True,
            # `samesite` is not strict, because a browser must send the cookie when an app redirects its user to this server.
            samesite="lax",
        )


def _masked(data: bytes, mask: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(data, mask, strict=True))

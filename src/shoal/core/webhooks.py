"""Webhooks: endpoints that receive events, with their secrets, signatures and retries.

Requests are signed as Standard Webhooks 1.0 (standardwebhooks.com) specifies. Endpoints in Mastodon's format also get the signature
of Mastodon's admin webhooks.
"""

from __future__ import annotations

import base64
import hmac
from typing import Final
from urllib.parse import urlsplit

from shoal.core.errors import InvalidInput

MAX_URL: Final = 2_000

_PREFIX = "whsec_"


def check_url(url: str) -> str:
    """Return the URL of an endpoint. Raises `InvalidInput` if it is not an https URL of at most 2,000 printable characters."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme != "https" or not host or parts.username is not None or parts.fragment:
        raise InvalidInput("url: this must be an https URL without user name and fragment", field="url")
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput(f"url: at most {MAX_URL} characters, all printable ASCII without spaces", field="url")
    return url


def signature(secret: str, event_id: str, seconds: int, body: bytes) -> str:
    """Return the signature of a request in version 1: HMAC-SHA256 (RFC 2104) of id, timestamp and body."""
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = b"%b.%d.%b" % (event_id.encode(), seconds, body)
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()

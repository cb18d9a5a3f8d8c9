"""An authenticator app."""

from __future__ import annotations

import time

import pyotp


def code_of(key: str, steps: int = 0) -> str:
    """Return what an app with this key shows, so many half minutes from now."""
    return pyotp.TOTP(key).at(int(time.time()) + 30 * steps)

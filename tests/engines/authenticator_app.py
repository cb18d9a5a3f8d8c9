"""An authenticator app."""

from __future__ import annotations

import time

import pyotp


def code_of(key: str, steps: int = 0) -> str:
    """Return the TOTP code for a key, `steps` periods of 30 seconds from now."""
    return pyotp.TOTP(key).at(int(time.time()) + 30 * steps)

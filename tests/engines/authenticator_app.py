"""An authenticator app."""

from __future__ import annotations

import time

import pyotp

PERIOD = 30
_first_uses: dict[str, int] = {}


def code_of(key: str, steps: int = 0) -> str:
    """Return the TOTP code for a key, `steps` periods of 30 seconds from the first use of the key.

    The clock of the app stands still for a period, so that a period that ends during a test does not turn the code of the
    previous one, which the test has used, into a new code. The server accepts the codes of one period before and after.
    """
    now = int(time.time())
    return pyotp.TOTP(key).at(max(_first_uses.setdefault(key, now), now - PERIOD) + PERIOD * steps)

"""A passkey as a page shows it."""

from __future__ import annotations

from typing import NamedTuple

from shoal.core.credentials import Passkey
from shoal.web.visit import Visit


class PasskeyRow(NamedTuple):
    """A passkey."""

    id: str
    name: str
    made: str
    """The day."""
    used: str
    """The day of the last use; empty: it was never used."""


def passkey_row(visit: Visit, passkey: Passkey) -> PasskeyRow:
    """Return a passkey for the page."""
    used = visit.words.day(passkey.used_at) if passkey.used_at else ""
    return PasskeyRow(passkey.id, passkey.name, visit.words.day(passkey.made_at), used)

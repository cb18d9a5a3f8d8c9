"""Departures: members who asked for their account to be deleted, and what is said of it afterwards."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shoal.core.model import Node

DAY_MS = 86_400_000
RECEIPT_DAYS = 365
"""Days for which a receipt is kept after everything was deleted."""


class Departure(Node, frozen=True, tag="departure"):
    """A member who leaves. It outlives the member, as the receipt: how much there was of what, and when it was deleted."""

    member_id: int
    name: str
    """The user name, which nobody gets again."""
    asked_at: int
    at: int
    """When everything is to be deleted; until then the member may come back."""
    ticket_id: int
    secret_hash: bytes
    """Hash of the secret in the address of the receipt."""
    counts: Mapping[str, int] = msgspec.field(default_factory=dict)
    """How many of each kind there were when the deletion began, and the bytes of files; empty before."""
    begun_at: int = 0
    """When the deletion began; 0: it has not, and the member may come back."""
    done_at: int = 0
    """When the last of it was deleted; 0: it is not done."""

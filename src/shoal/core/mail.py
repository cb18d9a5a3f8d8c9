"""Mail to members: its kinds, and the proofs that links in it carry.

A link proves that whoever opens it reads the mail of an address. Its secret is made when the mail is written, and nothing but the
hash of it is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from shoal.core.model import Node

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS


class MailKind(StrEnum):
    """The subject of a mail. The first four have a link that does something, once."""

    RESET = "reset"
    """Somebody forgot their password: the link sets another."""
    CONFIRM = "confirm"
    """A new member gave this address: the link says that it is theirs."""
    CHANGE = "change"
    """A member wants to be reached at this address: the link makes it theirs."""
    UNDO = "undo"
    """To the address that a member had before: the link brings it back."""
    RENEWED = "renewed"
    """The password was changed."""
    APPROVED = "approved"
    """A moderator let a new member in."""
    NEW_PLACE = "new_place"
    """Somebody logged in from a network that nobody did so from before."""
    SECOND_ON = "second_on"
    """Logins ask for a second factor from now on."""
    SECOND_OFF = "second_off"
    """They ask for none any more."""
    PASSKEY_ADDED = "passkey_added"
    """The member logs in by another passkey, too."""
    PASSKEY_REMOVED = "passkey_removed"
    """A passkey logs in no more."""
    COPIED = "copied"
    """A copy of a passkey was used, and refused."""


PROOF_MS: Mapping[MailKind, int] = {
    MailKind.RESET: _HOUR_MS,
    MailKind.CONFIRM: 7 * _DAY_MS,
    MailKind.CHANGE: _DAY_MS,
    MailKind.UNDO: 7 * _DAY_MS,
}
"""Milliseconds for which the link of a mail is good, by its kind; the other kinds have none."""
TRIED_MS = _DAY_MS
"""Milliseconds after which a mail is given up that could not be sent, if its link is not over before."""


class Proof(Node, frozen=True, tag="proof"):
    """Behind a link in a mail, until it is used or over: who opens it reads the mail of this address."""

    member_id: int
    kind: MailKind
    address: str
    secret_hashes: tuple[bytes, ...]
    """Hashes of the secrets in all its letters: one may be lost on its way, or sent twice."""
    generation: int
    """The member's `generation` when it was asked for: a new password ends links that were asked for before."""
    expires_at: int
    """Unix milliseconds."""
    ticket_id: int


def given_up_at(kind: MailKind, asked_at: int) -> int:
    """Return when a mail that could not be sent is given up, in Unix milliseconds."""
    return asked_at + min(TRIED_MS, PROOF_MS.get(kind, TRIED_MS))

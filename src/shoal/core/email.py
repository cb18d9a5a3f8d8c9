"""Email values: kinds of mail, single-use link tokens, and the address hashes used for contact discovery.

Opening a link proves access to a mailbox; only the hash of the link's secret is stored. A contact hash is HMAC-SHA256 (RFC 2104) of
an address under the salt of the network. The salt is public: it makes hash tables computed for another network useless, but it does
not prevent testing candidate addresses.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.model import Node
from shoal.core.text import normalized_email

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS


class MailKind(StrEnum):
    """A kind of mail. Mails of the kinds `RESET`, `RECOVERY`, `CONFIRM`, `CHANGE` and `UNDO` contain a single-use link."""

    RESET = "reset"
    """Sets another password."""
    RECOVERY = "recovery"
    """Logs in once, on a server without passwords, after the address was restored."""
    CONFIRM = "confirm"
    """Confirms the address of a new member."""
    CHANGE = "change"
    """Sent to a new address: its link makes the address the member's."""
    UNDO = "undo"
    """Sent to the former address: its link restores this address."""
    RENEWED = "renewed"
    APPROVED = "approved"
    NEW_PLACE = "new_place"
    """A login from a new address range."""
    SECOND_ON = "second_on"
    SECOND_OFF = "second_off"
    PASSKEY_ADDED = "passkey_added"
    PASSKEY_REMOVED = "passkey_removed"
    PROVIDER_LINKED = "provider_linked"
    """A login provider was linked."""
    PROVIDER_UNLINKED = "provider_unlinked"
    COPIED = "copied"
    """Notice that a copy of a passkey was used, and refused."""
    WEBHOOK_PAUSED = "webhook_paused"
    """Sent to all admins when the worker paused a webhook."""


EMAIL_TOKEN_MS: Mapping[MailKind, int] = {
    MailKind.RESET: _HOUR_MS,
    MailKind.RECOVERY: _HOUR_MS,
    MailKind.CONFIRM: 7 * _DAY_MS,
    MailKind.CHANGE: _DAY_MS,
    MailKind.UNDO: 7 * _DAY_MS,
}
"""Lifetime of a mail's link in milliseconds, by kind; the other kinds have none."""
TRIED_MS = _DAY_MS
"""Milliseconds after which an unsent mail is abandoned, unless its link expires earlier."""


class EmailToken(Node, frozen=True, tag="proof"):
    """The token of a single-use link in a mail, stored until used or expired. Opening the link proves access to the mailbox."""

    member_id: int
    kind: MailKind
    address: str
    secret_hashes: tuple[bytes, ...]
    """Hashes of the secrets of all mails with this link. There are several if the mail was written again."""
    generation: int
    """The member's `generation` when the mail was requested: a new password invalidates earlier links."""
    expires_at: int
    """Unix milliseconds."""
    ticket_id: int


def given_up_at(kind: MailKind, asked_at: int) -> int:
    """Return when to stop trying to send a mail of this kind, in Unix milliseconds."""
    return asked_at + min(TRIED_MS, EMAIL_TOKEN_MS.get(kind, TRIED_MS))


ALGORITHM = "HMAC-SHA256"
BITS = 256
"""Number of bits of a hash that are compared (all of them)."""
SALT_BYTES = 16
MOST_HASHES = 2_000
_DIGEST = re.compile(r"[0-9a-f]{64}")


class ContactSalt(Node, frozen=True, tag="contact_salt"):
    """The salt with which a server hashes email addresses. It is created once, and never changes."""

    salt: bytes


def hash_address(salt: str, address: str) -> str:
    """Return the hash of an email address, 64 hexadecimal digits, ignoring case and surrounding spaces.

    `salt` is the salt of the server, in hexadecimal. Raises `InvalidInput` for an invalid address or salt.
    """
    try:
        key = bytes.fromhex(salt)
    except ValueError:
        raise InvalidInput("salt: must be hexadecimal digits", field="salt") from None
    return hmac.digest(key, normalized_email(address).encode(), "sha256").hex()


def check_hashes(hashes: Sequence[str]) -> tuple[str, ...]:
    """Return these hashes of email addresses without duplicates.

    Raises `TooLarge` for more than 2,000 hashes, and `InvalidInput` for an invalid hash.
    """
    if len(hashes) > MOST_HASHES:
        raise TooLarge(f"hashes: at most {MOST_HASHES} hashes (got {len(hashes)})", field="hashes")
    for digest in hashes:
        if _DIGEST.fullmatch(digest) is None:
            raise InvalidInput("hashes: each must have 64 lowercase hexadecimal digits", field="hashes")
    return tuple(dict.fromkeys(hashes))

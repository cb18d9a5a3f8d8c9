"""Email values: kinds of mail, single-use link tokens, and the address hashes used for contact discovery.

A link proves access to a mailbox; only the hash of its secret is stored. A contact hash is HMAC-SHA256 (RFC 2104) of an address
under the salt of the network. The salt is public: it makes hash tables computed for another network useless, but it does not
prevent testing candidate addresses.
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


ALGORITHM = "HMAC-SHA256"
BITS = 256
"""Bits of a hash that are compared: all."""
SALT_BYTES = 16
MOST_HASHES = 2_000
"""Addresses that are looked up at once."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


class ContactSalt(Node, frozen=True, tag="contact_salt"):
    """The salt under which a network hashes e-mail addresses. It is made once, and never changes."""

    salt: bytes


def hash_address(salt: str, address: str) -> str:
    """Return the hash of an e-mail address, 64 hexadecimal digits; case and spaces around the address do not matter.

    `salt` is that of the network, in hexadecimal digits. Raises `InvalidInput` for what is no address or no salt.
    """
    try:
        key = bytes.fromhex(salt)
    except ValueError:
        raise InvalidInput("salt: hexadecimal digits", field="salt") from None
    return hmac.digest(key, normalized_email(address).encode(), "sha256").hex()


def check_hashes(hashes: Sequence[str]) -> tuple[str, ...]:
    """Return the hashes, each once. Raises `TooLarge` past 2,000, and `InvalidInput` for what is none."""
    if len(hashes) > MOST_HASHES:
        raise TooLarge(f"hashes: at most {MOST_HASHES}, not {len(hashes)}", field="hashes")
    for digest in hashes:
        if _DIGEST.fullmatch(digest) is None:
            raise InvalidInput("hashes: 64 hexadecimal digits each, in lower case", field="hashes")
    return tuple(dict.fromkeys(hashes))

"""Challenges that passkeys sign: made without being stored, good for five minutes, for one purpose and one member.

    8 bytes of when it was made (Unix ms) | 16 random bytes | 16 bytes of a MAC over these, the purpose and the member

The key of the MAC is the network's, so nobody has a passkey sign today what is to count next week. That a challenge counts once is
for whoever uses it: it goes with the commit of what it proves, as a key that nothing else can take.
"""

from __future__ import annotations

import hmac
import secrets
from enum import StrEnum
from hashlib import blake2b

from shoal.core.model import Node

GOOD_MS = 5 * 60_000
_AHEAD_MS = 120_000
"""Milliseconds by which the clock of another process may be ahead."""
KEY_BYTES = 32
_STAMP_BYTES, _RANDOM_BYTES, _MAC_BYTES = 8, 16, 16
_HEAD_BYTES = _STAMP_BYTES + _RANDOM_BYTES


class ChallengeKey(Node, frozen=True, tag="challenge_key"):
    """The key by which all processes of a network know their challenges. It is made once, and never changes."""

    secret: bytes


class Purpose(StrEnum):
    """The purpose of a challenge."""

    LOG_IN = "log_in"
    """A passkey alone, of a member who is not known before."""
    SECOND = "second"
    """A passkey besides the password."""
    CONFIRM = "confirm"
    """A passkey of a member who is logged in and changes how they log in."""
    ADD = "add"
    """A new passkey."""


def new_challenge(secret: bytes, purpose: Purpose, member_id: int, now: int) -> bytes:
    """Return a challenge, made at a moment in Unix milliseconds; `member_id` is 0 where the member is not known."""
    head = now.to_bytes(_STAMP_BYTES) + secrets.token_bytes(_RANDOM_BYTES)
    return head + _mac(secret, head, purpose, member_id)


def is_good(secret: bytes, challenge: bytes, purpose: Purpose, member_id: int, now: int) -> bool:
    """Return whether this is a challenge of the network for this purpose and member, and not too old."""
    head, mac = challenge[:_HEAD_BYTES], challenge[_HEAD_BYTES:]
    if len(mac) != _MAC_BYTES or not hmac.compare_digest(mac, _mac(secret, head, purpose, member_id)):
        return False
    return now - GOOD_MS < made_at(challenge) <= now + _AHEAD_MS


def made_at(challenge: bytes) -> int:
    """Return when a challenge was made, in Unix milliseconds."""
    return int.from_bytes(challenge[:_STAMP_BYTES])


def _mac(secret: bytes, head: bytes, purpose: Purpose, member_id: int) -> bytes:
    said = head + member_id.to_bytes(8) + purpose.encode()
    return blake2b(said, digest_size=_MAC_BYTES, key=secret).digest()

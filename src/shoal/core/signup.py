"""Sign-up rules: invitations and proof of work.

A sign-up writes to two shards. So a use of an invitation is first *held* (reserved) under the id of the new member; this hold
counts as a use. When the member has been created, the hold becomes a permanent use; when the sign-up is refused, the hold is
removed. If the process dies before either, the hold expires, and the next sign-up with the invitation checks whether the member
exists.

    most 1, used 0:   Ann's sign-up holds 7              used 0, holds [7 "ann"]
                      Ben's sign-up is refused
                      Ann is a member                    used 1, holds []
                or:   the process dies; after expiry, does member 7 exist?   used 1 or 0, holds []

A proof of work is a number that makes PBKDF2-HMAC-SHA256 start with enough zero bits (Back, "Hashcash", 2002). It is bound to one
user name on one server, which can be registered only once, so it needs neither storage nor a secret.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from typing import Literal, NamedTuple

import msgspec

from shoal.core.ids import milliseconds_of
from shoal.core.model import Member, Node, Role
from shoal.core.tokens import text_of

Inviters = Literal["off", "staff", "members"]
"""Who may invite: no member, only moderators and admins, or every member."""

SECRET_BYTES = 16
MOST_USES = 100
LEAST_SECONDS = 3_600
MOST_SECONDS = 30 * 86_400
USUAL_SECONDS = 7 * 86_400
HOLD_MS = 120_000
"""Milliseconds after which a hold expires: longer than any commit takes."""


class Hold(NamedTuple):
    """A use of an invitation that is reserved during a sign-up."""

    member_id: int
    """The id that the new member will have."""
    name: str
    """The requested user name. If several holds have this name, only one of the sign-ups can succeed."""
    until: int
    """Expiry of the hold, in Unix milliseconds."""


class Invitation(Node, frozen=True, tag="invitation"):
    owner_id: int
    secret: bytes
    """The unguessable part of the code, stored unencrypted so that the owner can copy the link again."""
    most: int = 0
    """Maximum number of sign-ups; 0 for unlimited."""
    used: int = 0
    """Number of members who signed up with the invitation."""
    expires_at: int = 0
    """Unix milliseconds; 0 for never."""
    follow: bool = False
    """Whether members who sign up with the invitation follow its owner."""
    holds: tuple[Hold, ...] = ()

    @property
    def code(self) -> str:
        return text_of(self.id, self.secret)

    @property
    def created_at(self) -> int:
        return milliseconds_of(self.id)

    def is_over(self, now: int) -> bool:
        return 0 < self.expires_at <= now

    def is_used_up(self) -> bool:
        return 0 < self.most <= self.used + len({hold.name for hold in self.holds})

    def is_open(self, now: int) -> bool:
        return not self.is_over(now) and not self.is_used_up()

    def admits(self, name: str) -> bool:
        return not self.is_used_up() or any(hold.name == name for hold in self.holds)

    def settled(self, now: int, members: Collection[int]) -> Invitation:
        """Return the invitation without expired holds (uses that are reserved during a sign-up).

        An expired hold counts as a use if its member exists (`members` are the ids of existing members).
        """
        ended = [hold for hold in self.holds if hold.until <= now]
        came = sum(hold.member_id in members for hold in ended)
        return msgspec.structs.replace(
            self, used=self.used + came, holds=tuple(hold for hold in self.holds if hold.until > now)
        )

    def without(self, member_id: int, *, came: bool) -> Invitation:
        """Return the invitation without this member's reserved use, which counts as used if the member has signed up (`came`)."""
        left = tuple(hold for hold in self.holds if hold.member_id != member_id)
        used = self.used + (came and len(left) < len(self.holds))
        return msgspec.structs.replace(self, used=used, holds=left)


class Invited(NamedTuple):
    """How a new member was invited: the reserved member id, the inviter, and whether to follow the inviter."""

    member_id: int
    inviter: Member
    follow: bool


def may_invite(inviters: Inviters, member: Member) -> bool:
    if member.suspended or member.disabled or inviters == "off":
        return False
    return inviters == "members" or member.role is not Role.NONE


ROUNDS = 5_000
MAX_BITS = 20
"""Maximum difficulty in bits: a million attempts on average."""
GOOD_SECONDS = 3_600
"""Lifetime of a proof of work in seconds, from the time in its text."""
_SKEW_SECONDS = 120
"""Seconds by which the clock of the process that issued the time may be ahead."""
_PROOF = re.compile(r"([0-9]{1,12}):([0-9]{1,10})", re.ASCII)


def is_proof(proof: str, domain: str, name: str, bits: int, now: int) -> bool:
    """Return whether a text proves `bits` of work for signing up as `name` on the server `domain`; `now` is in Unix seconds.

    The check takes one hash computation, about 2 ms, unless the text is malformed or too old.
    """
    found = _PROOF.fullmatch(proof)
    if found is None:
        return False
    since, number = int(found[1]), found[2]
    if not now - GOOD_SECONDS <= since <= now + _SKEW_SECONDS:
        return False
    salt = f"shoal:{domain}:{name.strip().lower()}:{since}"
    hashed = hashlib.pbkdf2_hmac("sha256", number.encode(), salt.encode(), ROUNDS, 4)
    return int.from_bytes(hashed) >> (32 - bits) == 0

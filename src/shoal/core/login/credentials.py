"""Credentials of a member: the object behind a login."""

from __future__ import annotations

from shoal.core.login.passkeys import Passkey
from shoal.core.login.second_factor import SecondFactor
from shoal.core.model import Node


class Login(Node, frozen=True, tag="login"):
    """A member's credentials: an e-mail address (may be empty) and an argon2id hash (empty: cannot log in)."""

    member_id: int
    email: str = ""
    password: str = ""
    reason: str = ""
    """Why they want to join, in their own words, where new members need approval."""
    confirmed: bool = False
    """Whether a mail to the address was read: a link that only it had was opened."""
    needs_approval: bool = False
    """Whether a member who is `unconfirmed` waits for moderators too."""
    networks: tuple[bytes, ...] = ()  # hashes of those from which the member logged in, newest first
    kept: tuple[tuple[str, int], ...] = ()
    """Former addresses that can be brought back, oldest first, each with when it becomes free (Unix ms)."""
    voided: tuple[tuple[int, int], ...] = ()
    """Links that bring an address back are void whose ids lie between two of these: a thief who changed the address twice had one
    sent, too."""
    second: SecondFactor | None = None
    """The second factor that is asked for besides the password; None for none."""
    passkeys: tuple[Passkey, ...] = ()
    """Oldest first."""
    confirm_by: int = 0
    """Until when a member who is `unconfirmed` may confirm, where the mail was sent again; Unix milliseconds."""

"""Whose notifications a member wants to see at once, as rules that `fanout/welcome.py` applies."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Treatment(StrEnum):
    """What becomes of the notifications that a rule of a policy applies to."""

    ACCEPT = "accept"
    FILTER = "filter"
    """They are held back until the member accepts the sender."""
    DROP = "drop"


class NoticePolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose notifications a member wants to see at once. Of several rules that apply the strictest counts."""

    not_following: Treatment = Treatment.ACCEPT
    """Of members whom they do not follow."""
    not_followers: Treatment = Treatment.ACCEPT
    """Of members who do not follow them, or have for less than three days."""
    new_accounts: Treatment = Treatment.ACCEPT
    """Of members who joined in the last thirty days, and whom they do not follow."""
    private_mentions: Treatment = Treatment.ACCEPT
    """Direct posts of members whom they do not follow, in threads that the member did not begin."""
    limited_accounts: Treatment = Treatment.ACCEPT
    """Of silenced members whom they do not follow."""


ACCEPT_ALL = NoticePolicy()

"""Rules for the notifications that a member wants to see at once, which `fanout/welcome.py` applies."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Treatment(StrEnum):
    """The effect of a rule on the notifications to which it applies."""

    ACCEPT = "accept"
    FILTER = "filter"
    """Hold them back until the member accepts the sender."""
    DROP = "drop"


class NoticePolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rules for the notifications that a member wants to see at once. If several rules apply, the strictest counts."""

    not_following: Treatment = Treatment.ACCEPT
    """For senders whom the member does not follow."""
    not_followers: Treatment = Treatment.ACCEPT
    """For senders who do not follow the member, or have for less than three days."""
    new_accounts: Treatment = Treatment.ACCEPT
    """For senders who joined in the last thirty days, and whom the member does not follow."""
    private_mentions: Treatment = Treatment.ACCEPT
    """For direct posts of senders whom the member does not follow, in threads that the member did not begin."""
    limited_accounts: Treatment = Treatment.ACCEPT
    """For silenced senders whom the member does not follow."""


ACCEPT_ALL = NoticePolicy()

"""A new member's e-mail address becomes theirs for good, also when the request that registered them died too early."""

from __future__ import annotations

import logging

from shoal.core.events import MemberRegistered
from shoal.fanout.effects import Effects
from shoal.graph.addresses import keep_address
from shoal.graph.contract import KeyTaken

_log = logging.getLogger(__name__)


async def keep(effects: Effects, event: MemberRegistered, mark: int) -> int | None:
    """Where the hold ran out first, and somebody else took the address, the member has their name to log in with."""
    try:
        await keep_address(effects.graph, event.member_id, event.address)
    except KeyTaken:
        _log.warning("the e-mail address of member %d was taken by another before it was theirs", event.member_id)
    return None

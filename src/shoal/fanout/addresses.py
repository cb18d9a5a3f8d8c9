"""An e-mail address becomes a member's for good, also when the request that gave it to them died too early; that of a member who
is gone, or has another, becomes free."""

from __future__ import annotations

import logging

from shoal.core.events import EmailChanged, MemberRegistered, MemberRemoved
from shoal.fanout.effects import Effects
from shoal.graph.addresses import free_address, keep_address
from shoal.graph.contract import KeyTaken

_log = logging.getLogger(__name__)


async def keep(effects: Effects, event: MemberRegistered | EmailChanged, mark: int) -> int | None:
    """Where the hold ran out first, and somebody else took the address, the member has their name to log in with."""
    try:
        await keep_address(effects.graph, event.member_id, event.address)
    except KeyTaken:
        _log.warning("the e-mail address of member %d was taken by another before it was theirs", event.member_id)
        return None
    # One who was rejected meanwhile is gone before their address is freed, so one of the two frees it last.
    if event.member_id not in await effects.graph.obj_get((event.member_id,)):
        await free_address(effects.graph, event.member_id, event.address)
    return None


async def free_former(effects: Effects, event: EmailChanged, mark: int) -> int | None:
    """Somebody else may have an address that its member gave up."""
    if event.freed:
        await free_address(effects.graph, event.member_id, event.freed)
    return None


async def free(effects: Effects, event: MemberRemoved, mark: int) -> int | None:
    """Somebody else may have the address."""
    if event.address:
        await free_address(effects.graph, event.member_id, event.address)
    return None

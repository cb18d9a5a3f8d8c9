"""An e-mail address becomes a member's for good, also when the request that gave it to them died too early; that of a member who
is gone, or has another, becomes free."""

from __future__ import annotations

import logging

from shoal.core.events import EmailChanged, MemberRegistered, MemberRemoved
from shoal.core.ids import milliseconds_of, shard_of
from shoal.fanout.effects import Effects
from shoal.graph.contract import KeyTaken
from shoal.graph.member_lookup import free_address, keep_address, release_address

_log = logging.getLogger(__name__)


async def keep(effects: Effects, event: MemberRegistered | EmailChanged, mark: int) -> int | None:
    """Where the hold ran out first, and somebody else took the address, the member has their name to log in with."""
    if not event.address:
        return None
    try:
        await keep_address(effects.graph, event.member_id, event.address)
    except KeyTaken:
        _log.warning("the e-mail address of member %d was taken by another before it was theirs", event.member_id)
        return None
    # One who was rejected meanwhile is gone before their address is freed, so one of the two frees it last; and who has another
    # address by now does not get this one back by an event that comes late.
    await release_address(effects.graph, event.member_id, event.address, _now(effects, event.member_id))
    return None


async def free_former(effects: Effects, event: EmailChanged, mark: int) -> int | None:
    """Somebody else may have an address that its member gave up."""
    for address in event.freed:
        await release_address(effects.graph, event.member_id, address, _now(effects, event.member_id))
    return None


def _now(effects: Effects, member_id: int) -> int:
    return milliseconds_of(effects.new_id(shard_of(member_id)))


async def free(effects: Effects, event: MemberRemoved, mark: int) -> int | None:
    """Somebody else may have the address."""
    if event.address:
        await free_address(effects.graph, event.member_id, event.address)
    return None

"""Consumers of changed accounts: claim and free email addresses, revoke invitations, and delete revoked tokens.

A member gets an email address even if the request that assigned it crashed. The address of a deleted member, and an address that
was replaced, become free. Tokens and codes from before a password change are deleted page by page.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from shoal.consumers.context import Effects
from shoal.core import events
from shoal.core.ids import shard_of
from shoal.core.model import AuthorizationCode, Member, Token
from shoal.graph.access import page_of
from shoal.graph.contract import Batch, Cursor, KeyTaken, find_object
from shoal.graph.member_lookup import free_address, keep_address, release_address
from shoal.graph.payloads.members import drop_login
from shoal.graph.schema import EXPIRING, LOGGED_IN, OWNS_INVITATION, AssocType

_log = logging.getLogger(__name__)


async def claim_address(effects: Effects, event: events.MemberRegistered | events.EmailChanged, mark: int) -> None:
    """Make the reservation of a member's email address permanent.

    If the reservation expired and another member has the address by now, the member can only log in with the user name.
    """
    if not event.address:
        return
    try:
        await keep_address(effects.graph, event.member_id, event.address)
    except KeyTaken:
        _log.warning("another member took the e-mail address of member %d before confirmation", event.member_id)
        return
    # Release the address again if the member was rejected, or changed the address, before it was made permanent above. A
    # rejection deletes the member first and then releases the address. If that was before the address was made permanent, this
    # call finds the member deleted, and releases the address.
    await release_address(effects.graph, event.member_id, event.address, effects.new_id.now())


async def free_former_address(effects: Effects, event: events.EmailChanged, mark: int) -> None:
    for address in event.freed:
        await release_address(effects.graph, event.member_id, address, effects.new_id.now())


async def free_address_of_deleted(effects: Effects, event: events.MemberRemoved, mark: int) -> None:
    if event.address:
        await free_address(effects.graph, event.member_id, event.address)


_PAGE = 20


async def end_invitations_of_suspended(effects: Effects, event: events.SuspensionChanged, mark: int) -> int | None:
    """Revoke the invitations of a suspended member, one page at a time.

    A member who is deleting the account is suspended too, but may cancel this, so the invitations are kept.
    """
    owner, graph = event.member_id, effects.graph
    member = await find_object(graph, Member, owner)
    if member is None or not member.suspended or member.departure_id:
        return None
    page = await graph.assoc_range(owner, OWNS_INVITATION, Cursor(limit=_PAGE))
    if not page:
        return None
    batch = Batch(shard_of(owner))
    for assoc in page:
        batch.obj_del(assoc.id2)
        batch.assoc_del(owner, OWNS_INVITATION, assoc.id2, effects.new_id(batch.shard))
    await graph.commit(batch)
    return 1 if len(page) == _PAGE else None


_TOKEN_PAGE = 200


async def clear_tokens(effects: Effects, event: events.SessionsEnded, mark: int) -> int | None:
    return await _clear(effects, event, LOGGED_IN, mark) if event.every else None


async def clear_authorization_codes(effects: Effects, event: events.SessionsEnded, mark: int) -> int | None:
    return await _clear(effects, event, EXPIRING, mark) if event.every else None


async def _clear(effects: Effects, event: events.SessionsEnded, atype: AssocType, mark: int) -> int | None:
    """Read the page of tokens and codes that begins at `mark`, and delete those of an earlier `generation`.

    Returns the mark of the next page.
    """
    owner, graph = event.member_id, effects.graph
    page, next_mark = await page_of(effects.graph, owner, atype, mark, _TOKEN_PAGE)
    found = await graph.obj_get([owner, *(assoc.id2 for assoc in page)])
    member = found.get(owner)
    if not isinstance(member, Member):
        return None
    nodes = [node for assoc in page if isinstance(node := found.get(assoc.id2), Token | AuthorizationCode)]
    await drop_tokens(effects, owner, [node.id for node in nodes if node.generation < member.generation])
    return next_mark


async def drop_tokens(effects: Effects, owner: int, ids: Sequence[int]) -> None:
    async def drop(id_: int) -> None:
        batch = Batch(shard_of(owner))
        drop_login(batch, owner, id_, effects.new_id(batch.shard))
        await effects.graph.commit(batch)

    await asyncio.gather(*map(drop, ids))

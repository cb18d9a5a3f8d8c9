"""Commands for invitations: creation and revocation by members and staff, and use at sign-up.

`core.signup` describes how uses are counted.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

from msgspec.structs import replace

from shoal.commands.audit import note
from shoal.commands.context import Claim, Writes, add_node, serialized
from shoal.commands.moderation import check_may_act
from shoal.core.audit import AuditVerb, invitation_target
from shoal.core.errors import InvalidInput, NotAllowed, NotFound, OutcomeUnknown, ShoalError, is_refusal
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Member, Role
from shoal.core.placement import place
from shoal.core.signup import (
    HOLD_MS,
    LEAST_SECONDS,
    MOST_SECONDS,
    MOST_USES,
    SECRET_BYTES,
    USUAL_SECONDS,
    Hold,
    Invitation,
    Invited,
    may_invite,
)
from shoal.core.text import check_user_name
from shoal.core.tokens import fits, hash_of, new_secret, opened
from shoal.graph.access import access_member, get_object, members_by_id, objects_of, own_object
from shoal.graph.cache.coherence import another_request
from shoal.graph.changes import change_object, retry_on_conflict
from shoal.graph.contract import Batch, Cursor, find_object
from shoal.graph.schema import OWNS_INVITATION

_MAX_STORED = 100
"""Invitations kept per member; beyond that, the oldest that are no longer open are deleted."""
_UNKNOWN = "There is no such invitation"
_FIELD = "invite_code"


class Offer(NamedTuple):
    invitation: Invitation
    inviter: Member


async def create(
    writes: Writes, member_id: int, *, uses: int = 1, seconds: int = USUAL_SECONDS, follow: bool = False
) -> Invitation:
    """Create an invitation for a number of uses, valid for `seconds`. If `follow`, new members follow the inviter.

    Moderators and admins may pass 0 for no limit. Raises `NotAllowed` if the member may not invite, and `InvalidInput` for
    numbers out of range and for too many open invitations.
    """
    owner = await access_member(writes.graph, member_id)
    if not may_invite(writes.inviters, owner):
        raise NotAllowed("You cannot invite people to this server")
    _check(owner, uses, seconds)
    shard = shard_of(member_id)

    async def attempt(claim: Claim) -> Invitation:
        stored = await of_member(writes, member_id)
        now = writes.new_id.now()
        if sum(invitation.is_open(now) for invitation in stored) >= writes.limits.invitations:
            raise InvalidInput(f"at most {writes.limits.invitations} open invitations")
        closed = [invitation for invitation in stored if not invitation.is_open(now) and not invitation.holds]

        def build(id_: int) -> tuple[Invitation, Batch]:
            made = Invitation(
                id=id_,
                owner_id=member_id,
                secret=new_secret(SECRET_BYTES),
                most=uses,
                expires_at=milliseconds_of(id_) + seconds * 1_000 if seconds else 0,
                follow=follow,
            )
            batch = Batch(shard)
            claim(batch)
            batch.obj_add(made)
            batch.assoc_add(member_id, OWNS_INVITATION, id_, id_)
            note(writes, batch, AuditVerb.INVITATION_CREATED, invitation_target(made), uses=uses)
            if closed and len(stored) >= _MAX_STORED:
                batch.obj_del(closed[-1].id, closed[-1].version)
                batch.assoc_del(member_id, OWNS_INVITATION, closed[-1].id, id_)
            return made, batch

        return await add_node(writes, shard, build)

    return await serialized(writes, member_id, attempt)


def is_for_staff(writes: Writes, *, uses: int, seconds: int) -> bool:
    """Return whether only moderators and admins may create an invitation with these limits (0: no limit)."""
    return writes.inviters == "staff" or not uses or not seconds


def _check(owner: Member, uses: int, seconds: int) -> None:
    staff = owner.role is not Role.NONE
    if not uses and not staff:
        raise InvalidInput("only moderators and admins can create invitations with unlimited uses", field="max_uses")
    if not seconds and not staff:
        raise InvalidInput("only moderators and admins can create invitations that never expire", field="expires_in")
    if not 0 <= uses <= MOST_USES:
        raise InvalidInput(f"an invitation is for 1 to {MOST_USES} people", field="max_uses")
    if seconds and not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        days = MOST_SECONDS // 86_400
        raise InvalidInput(f"an invitation is valid for an hour to {days} days", field="expires_in")


async def of_member(writes: Writes, member_id: int) -> list[Invitation]:
    """Return up to 100 invitations of a member, newest first, including expired and used ones."""
    listed = await writes.graph.assoc_range(member_id, OWNS_INVITATION, Cursor(limit=_MAX_STORED))
    return await _settled(writes, await objects_of(writes.graph, Invitation, [assoc.id2 for assoc in listed]))


async def end(writes: Writes, member_id: int, invitation_id: int) -> None:
    """Revoke one of the member's invitations. Raises `NotFound` for another member's invitation."""
    await own_object(writes.graph, Invitation, member_id, invitation_id)
    await _end(writes, invitation_id)


async def drop(writes: Writes, member_id: int, invitation_id: int) -> None:
    """Delete an invitation of a member whose account is being deleted."""
    batch = Batch(shard_of(invitation_id))
    _take(writes, batch, member_id, invitation_id)
    await writes.graph.commit(batch)


async def end_as_staff(writes: Writes, member_id: int, invitation_id: int) -> None:
    """Revoke an invitation of the member `member_id`, or of a member with a lower role.

    Raises `NotFound` for an unknown invitation, and `NotAllowed` if the owner's role is not lower.
    """
    invitation = await get_object(writes.graph, Invitation, invitation_id)
    people = await members_by_id(writes.graph, (member_id, invitation.owner_id))
    if member_id not in people:
        raise NotFound("Record not found")
    if invitation.owner_id != member_id and invitation.owner_id in people:
        check_may_act(people[member_id], people[invitation.owner_id])
    await _end(writes, invitation_id)


async def _end(writes: Writes, invitation_id: int) -> None:
    async def attempt() -> None:
        invitation = await get_object(writes.graph, Invitation, invitation_id)
        batch = Batch(shard_of(invitation.id))
        _take(writes, batch, invitation.owner_id, invitation.id, invitation.version)
        note(writes, batch, AuditVerb.INVITATION_ENDED, invitation_target(invitation))
        await writes.graph.commit(batch)

    await retry_on_conflict(attempt)


def _take(writes: Writes, batch: Batch, owner_id: int, invitation_id: int, version: int = 0) -> None:
    batch.obj_del(invitation_id, version)
    batch.assoc_del(owner_id, OWNS_INVITATION, invitation_id, writes.new_id(batch.shard))


async def offered(writes: Writes, code: str) -> Offer:
    """Return the open invitation with this code.

    Raises `InvalidInput` if the code does not exist, the invitation is expired or used up, or its owner may no longer invite.
    """
    offer = await _offer(writes, code)
    if offer.invitation.is_used_up():
        raise _used_up()
    return offer


@asynccontextmanager
async def held(writes: Writes, code: str, name: str) -> AsyncIterator[Invited]:
    """Reserve a use of an invitation while the block creates the member with this user name, and count the use afterwards.

    The block must create the member under the yielded id. If the sign-up is refused, the reservation (hold) is discarded. If
    its outcome is unknown, the hold counts as a use once it has expired and the member exists. Raises `InvalidInput` if the
    code does not exist, the invitation is expired or used up, or its owner may no longer invite.
    """
    # The code that creates the member checks reserved names.
    name = check_user_name(name, reserved=True)
    offer, member_id = await _hold(writes, code, name)
    invited = Invited(member_id, offer.inviter, offer.invitation.follow)
    try:
        yield invited
    except ShoalError as error:
        if is_refusal(error):
            await _release(writes, offer.invitation.id, member_id, came=False)
        raise
    await _release(writes, offer.invitation.id, member_id, came=True)


async def _hold(writes: Writes, code: str, name: str) -> tuple[Offer, int]:
    """Reserve a use of an invitation; return the invitation with its owner, and the id of the future member.

    If two requests need the last use, the second is refused.
    """
    member_id = writes.new_id(place(name).shard)

    async def attempt() -> tuple[Offer, int]:
        nonlocal member_id
        # Read the invitation again: since this request began, another process may have reserved a use of it.
        with another_request():
            offer = await _offer(writes, code)
        invitation = offer.invitation
        if any((hold.member_id, hold.name) == (member_id, name) for hold in invitation.holds):
            # An earlier attempt of this sign-up has succeeded, and its response was lost.
            return offer, member_id
        while any(hold.member_id == member_id for hold in invitation.holds):
            # Another process generated this id for another name.
            member_id = writes.new_id(place(name).shard)
        if not invitation.admits(name):
            raise _used_up()
        hold = Hold(member_id, name, writes.new_id.now() + HOLD_MS)
        batch = Batch(shard_of(invitation.id))
        batch.obj_set(replace(invitation, holds=(*invitation.holds, hold), version=invitation.version + 1))
        await writes.graph.commit(batch)
        return offer, member_id

    async with _lock(writes, opened(code).id):
        try:
            return await retry_on_conflict(attempt)
        except OutcomeUnknown:
            return await retry_on_conflict(attempt)


async def _release(writes: Writes, invitation_id: int, member_id: int, *, came: bool) -> None:
    """End the reservation (hold) of an invitation's use for a new member.

    The hold counts as a use if the member was created (`came`), and is discarded otherwise.
    """

    async def read() -> Invitation:
        with another_request():
            return await get_object(writes.graph, Invitation, invitation_id)

    # If this change fails, the reserved use becomes free when the hold expires. If it fails because the invitation was revoked,
    # nothing is left to change.
    with contextlib.suppress(ShoalError):
        async with _lock(writes, invitation_id):
            await change_object(writes.graph, read, lambda invitation: invitation.without(member_id, came=came))


def _lock(writes: Writes, invitation_id: int) -> AbstractAsyncContextManager[None]:
    """Serialize changes of an invitation within the process, so that they do not conflict."""
    return writes.locks.of((f"invitation {invitation_id}",))


async def _offer(writes: Writes, code: str) -> Offer:
    """Return the invitation with this code and its owner, even if no uses are left."""
    id_, secret = opened(code)
    invitation = await find_object(writes.graph, Invitation, id_)
    if invitation is None or not fits(hash_of(invitation.secret), secret):
        raise InvalidInput(_UNKNOWN, field=_FIELD)
    inviter = await find_object(writes.graph, Member, invitation.owner_id)
    if inviter is None or not may_invite(writes.inviters, inviter) or invitation.is_over(writes.new_id.now()):
        raise InvalidInput("This invitation has expired", field=_FIELD)
    (settled,) = await _settled(writes, [invitation])
    return Offer(settled, inviter)


async def _settled(writes: Writes, invitations: Sequence[Invitation]) -> list[Invitation]:
    """Return invitations without expired reservations (holds). An expired hold counts as a use if its member exists."""
    now = writes.new_id.now()
    ended = [hold.member_id for invitation in invitations for hold in invitation.holds if hold.until <= now]
    came = await members_by_id(writes.graph, ended) if ended else {}
    return [invitation.settled(now, came) for invitation in invitations]


def _used_up() -> InvalidInput:
    return InvalidInput("This invitation is used up", field=_FIELD)

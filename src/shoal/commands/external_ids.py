"""Members by their ids in another product: create, look up, link and unlink.

An external id is a unique key, on a shard made from the id, and an association of the member, on the member's shard. A member is
created in two commits:

1. The key is reserved for the id of the future member, so that no other request creates a member for the external id.
2. The member is created together with the association. The user name decides the shard, so this is another commit.

If a process dies between the two, the key leads to no member. A later request then takes the association (a tombstone remains), so
that commit 2 can no longer succeed, and frees the key. Therefore an external id never has two members.
"""

from __future__ import annotations

import asyncio
import random
from typing import NamedTuple, TypedDict, Unpack

import msgspec
from msgspec import structs

from shoal.commands import blocklists, members
from shoal.commands.audit import note
from shoal.commands.context import Claim, Writes, serialized
from shoal.commands.members import ProfileChange, members_named
from shoal.core.audit import AuditVerb, member_target
from shoal.core.errors import Conflict, Gone, InvalidInput, NotFound, ShoalError, Taken, Unavailable, Unfit, is_refusal
from shoal.core.events import ProfileChanged
from shoal.core.external_ids import (
    MAX_PER_MEMBER,
    ExternalId,
    decode_external_id,
    encode_external_id,
    name_candidates,
)
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Member
from shoal.core.placement import place
from shoal.core.signup import Invited
from shoal.core.text import check_user_name
from shoal.graph.access import access_member, association, get_object
from shoal.graph.cache.coherence import another_request
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import AssocExists, Batch, Cursor, KeyTaken, Reader, find_object
from shoal.graph.schema import EXTERNAL_IDS, external_id_key, user_name_key
from shoal.i18n import language_tag

_ABANDONED_MS = 10_000
"""Age at which a reservation without a member counts as abandoned. Taking over a live one only makes its request start again."""
_PATIENCE_SECONDS = 3.0
"""How long a request pauses in total while another one creates the same member, or takes the user names that it tries."""
_LONGEST_PAUSE = 0.2
_MOST_LISTED = 4 * MAX_PER_MEMBER


class ExternalProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What another product knows about a member. None and "" keep the value of an existing member."""

    user_name: str = ""
    """The proposed user name. A free name like it is assigned when the member is created, and never changes."""
    display_name: str | None = None
    note: str | None = None
    language: str = ""
    """A language tag (BCP 47) or locale. An unknown language is ignored."""


class Registration(TypedDict, total=False):
    """Options of `members.register` for a member who signs up with an external id."""

    email: str
    display_name: str
    language: str
    pending: bool
    reason: str
    network: str
    invited: Invited | None
    confirmed: bool


class Upserted(NamedTuple):
    member: Member
    created: bool


async def find(graph: Reader, external: ExternalId) -> Member | None:
    """Return the member with this external id, in any state; None if there is none."""
    key = external_id_key(external)
    return await find_object(graph, Member, (await graph.key_get((key,))).get(key, 0))


async def of_member(graph: Reader, member_id: int) -> list[ExternalId]:
    """Return the external ids of a member, newest first."""
    listed = await graph.assoc_range(member_id, EXTERNAL_IDS, Cursor(limit=_MOST_LISTED))
    return [decode_external_id(assoc.data) for assoc in listed]


async def upsert(writes: Writes, external: ExternalId, profile: ExternalProfile, *, update: bool = True) -> Upserted:
    """Return the member with this external id, with this profile. If there is none, create one without password and address.

    Concurrent calls create one member. With `update` false, an existing member is returned unchanged.

    Raises:
        Gone: The member is suspended, or is deleting their account.
        InvalidInput: The profile has an invalid value.
        Unavailable: Another process is creating the member, and has not finished after some seconds.
    """
    async with writes.locks.of((f"external id {external.digest}",)):
        # Only pauses count, so that a slow store does not reduce the number of attempts.
        waited, pause = 0.0, 0.01
        while waited < _PATIENCE_SECONDS:
            # Another process may have created the member since this request last read.
            with another_request():
                member, owner = await _holder(writes, external)
                if member is not None:
                    return Upserted(await _updated(writes, member, profile) if update else member, created=False)
                if not owner and (made := await _created(writes, external, profile)) is not None:
                    return Upserted(made, created=True)
            await asyncio.sleep(random.uniform(0.0, pause))  # noqa: S311  # spreads the attempts
            waited, pause = waited + pause / 2, min(2 * pause, _LONGEST_PAUSE)
    raise Unavailable("another request is creating this member: try again in a moment", retry_after=1.0)


async def register(writes: Writes, external: ExternalId, name: str, **more: Unpack[Registration]) -> Member:
    """Create a member with this external id by `members.register`, in the same two commits as `upsert`.

    Raises `Taken` with the field `id` if a member has the external id or is being created, and the errors of `members.register`.
    """
    invited = more.get("invited")
    shard, key = place(check_user_name(name)).shard, external_id_key(external)
    member_id = invited.member_id if invited else writes.new_id(shard)
    async with writes.locks.of((f"external id {external.digest}",)):
        taken = Taken("another member has this external id", field="id")
        _, owner = await _holder(writes, external)
        if owner:
            raise taken
        reserved = Batch(key.shard)
        reserved.key_add(key, member_id)
        try:
            await writes.graph.commit(reserved)
        except KeyTaken:
            raise taken from None

        def extra(batch: Batch) -> None:
            batch.fresh.add(member_id)
            batch.assoc_add(member_id, EXTERNAL_IDS, external.node_id, member_id, encode_external_id(external))

        try:
            return await members.register(writes, name, **more, member_id=member_id, extra=extra)
        except ShoalError as error:
            if is_refusal(error):
                await _free(writes, external, member_id)
            raise


async def link(writes: Writes, member_id: int, external: ExternalId) -> Member:
    """Add an external id to an existing member. Idempotent.

    Raises `Taken` if another member has it, `Unfit` if the member has too many, and `NotFound` or `Gone` for the member.
    """
    key, shard = external_id_key(external), shard_of(member_id)

    async def attempt(claim: Claim) -> Member:
        member = await access_member(writes.graph, member_id)
        owned = await of_member(writes.graph, member_id)
        if external in owned:
            return member
        if len(owned) >= MAX_PER_MEMBER:
            raise Unfit(f"a member has at most {MAX_PER_MEMBER} external ids")
        _, owner = await _holder(writes, external)
        if owner not in {0, member_id}:
            raise Taken("another member has this external id", field="id")
        reserved = Batch(key.shard)
        reserved.key_add(key, member_id)
        await writes.graph.commit(reserved)
        batch = Batch(shard)
        now = writes.new_id(shard)
        batch.assoc_add(member_id, EXTERNAL_IDS, external.node_id, now, encode_external_id(external))
        claim(batch)
        note(writes, batch, AuditVerb.EXTERNAL_ID_LINKED, member_target(member), issuer=external.issuer)
        await writes.commit(batch)
        return member

    return await serialized(writes, member_id, attempt)


async def unlink(writes: Writes, member_id: int, external: ExternalId) -> None:
    """Remove an external id from a member. Raises `NotFound` if the member does not have it."""
    member = await get_object(writes.graph, Member, member_id)
    holder = await find(writes.graph, external)
    if holder is None or holder.id != member_id:
        raise NotFound("Record not found")
    await release(writes, member, external)


async def release(writes: Writes, member: Member, external: ExternalId, *, audited: bool = True) -> None:
    """Remove the association of an external id first, then its key. Idempotent, so that it can be repeated after a crash."""

    async def attempt() -> None:
        if await association(writes.graph, member.id, EXTERNAL_IDS, external.node_id) is None:
            return
        batch = Batch(shard_of(member.id))
        batch.assoc_del(member.id, EXTERNAL_IDS, external.node_id, writes.new_id(batch.shard))
        if audited:
            note(writes, batch, AuditVerb.EXTERNAL_ID_UNLINKED, member_target(member), issuer=external.issuer)
        await writes.graph.commit(batch)

    await retry_on_conflict(attempt)
    await _free(writes, external, member.id)


async def _holder(writes: Writes, external: ExternalId) -> tuple[Member | None, int]:
    """Return the member with this external id and the owner of its key; the owner is 0 if the key is free.

    An abandoned reservation is ended.
    """
    key = external_id_key(external)
    owner = (await writes.graph.key_get((key,))).get(key, 0)
    if not owner:
        return None, 0
    member = await find_object(writes.graph, Member, owner)
    if member is not None or writes.new_id.now() - milliseconds_of(owner) < _ABANDONED_MS:
        return member, owner
    return await _taken_over(writes, external, owner)


async def _taken_over(writes: Writes, external: ExternalId, owner: int) -> tuple[Member | None, int]:
    """End a reservation whose member was not created, and prevent its creation."""
    shard = shard_of(owner)
    fence = Batch(shard)
    fence.assoc_add(owner, EXTERNAL_IDS, external.node_id, writes.new_id(shard), must_be_new=True)
    try:
        await writes.graph.commit(fence)
    except AssocExists:
        # Either the member was created after all, or another request has set the fence.
        with another_request():
            if (member := await find_object(writes.graph, Member, owner)) is not None:
                return member, owner
    batch = Batch(shard)
    # The tombstone keeps the fence in place: the commit that creates the member requires that nothing is stored there.
    batch.assoc_del(owner, EXTERNAL_IDS, external.node_id, writes.new_id(shard))
    await writes.graph.commit(batch)
    await _free(writes, external, owner)
    return None, 0


async def _free(writes: Writes, external: ExternalId, owner: int) -> None:
    key = external_id_key(external)
    batch = Batch(key.shard)
    batch.key_del(key, owner)
    await writes.graph.commit(batch)


async def _created(writes: Writes, external: ExternalId, profile: ExternalProfile) -> Member | None:
    """Create the member; None if another request was faster, with the external id or with the user name."""
    name = await free_name(writes, profile.user_name)
    shard, key = place(name).shard, external_id_key(external)
    ids = writes.new_id(shard), writes.new_id(shard)
    member, login = members.imported(writes.limits, ids, name, profile.display_name or "", profile.note or "", 0)
    member = structs.replace(
        member,
        mentions=await members_named(writes, member.note),
        default_language=language_tag(profile.language),
    )
    reserved = Batch(key.shard)
    reserved.key_add(key, member.id)
    try:
        await writes.graph.commit(reserved)
    except KeyTaken:
        return None
    batch = Batch(shard)
    batch.fresh.update(ids)
    batch.key_add(user_name_key(name), member.id)
    batch.obj_add(member)
    batch.obj_add(login)
    batch.assoc_add(member.id, EXTERNAL_IDS, external.node_id, member.id, encode_external_id(external))
    batch.emit(ProfileChanged(member_id=member.id))
    try:
        await writes.graph.commit(batch)
    except Conflict:
        # The name was taken, an id is in use, or the reservation was taken over.
        await _free(writes, external, member.id)
        return None
    return member


async def _updated(writes: Writes, member: Member, profile: ExternalProfile) -> Member:
    """Change the given values of a profile. Writes nothing if the member has them already."""
    if member.suspended:
        raise Gone("this member is suspended")
    given = ProfileChange(
        display_name=profile.display_name,
        note=profile.note,
        default_language=language_tag(profile.language) or None,
    )
    names = ("display_name", "note", "default_language")
    if all(getattr(given, name) in {None, getattr(member, name)} for name in names):
        return member
    return await members.update_profile(writes, member.id, given)


async def free_name(writes: Writes, proposed: str) -> str:
    """Return a free user name like the proposed one."""
    for base in (proposed, ""):
        names = [name for name in dict.fromkeys(name_candidates(base)) if await _is_allowed(writes, name)]
        taken = await writes.graph.key_get([user_name_key(name) for name in names]) if names else {}
        for name in names:
            if user_name_key(name) not in taken:
                return name
    raise Unavailable("no free user name was found: try again", retry_after=1.0)


async def _is_allowed(writes: Writes, name: str) -> bool:
    try:
        await blocklists.check_name(writes.graph, check_user_name(name))
    except InvalidInput:
        return False
    return True

"""Members by their ids in another product: create, look up, link and unlink.

The key of an external id, on a shard made from the id, refers to a link (`ExternalLink`), which refers to the member and is on the
member's shard, with an association that lists it. A link is made in two commits:

1. The key is reserved for the id of the future link, so that no other request links the external id.
2. The link and its association are stored, for a new member together with the member. The user name decides the shard, so this is
   another commit.

Unlinking deletes the link first, and then the key. Only a link gives access: a key without one is a reservation of a request that
runs or died. A later request ends it: it stores an empty link under that id, so that commit 2 can no longer succeed, and frees the
key. The id of a link is used once, so a delayed request can neither complete nor free what belongs to another. Therefore an
external id never has two members.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack

import msgspec
from msgspec import structs

from shoal.commands import blocklists, members, oauth
from shoal.commands.audit import note
from shoal.commands.authentication import has_password
from shoal.commands.context import Claim, Writes, serialized
from shoal.commands.members import ProfileChange, members_named
from shoal.core.audit import AuditVerb, member_target
from shoal.core.credentials import Login
from shoal.core.email import MailKind
from shoal.core.errors import (
    Conflict,
    Gone,
    InvalidInput,
    NotAllowed,
    NotFound,
    ShoalError,
    Taken,
    Unavailable,
    Unfit,
    is_refusal,
)
from shoal.core.events import MailDue, ProfileChanged
from shoal.core.external_ids import (
    MAX_PER_MEMBER,
    ExternalId,
    ExternalKind,
    ExternalLink,
    ExternalObject,
    name_candidates,
    profile_digest,
)
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Member, ProductToken, Role
from shoal.core.placement import place
from shoal.core.signup import Invited
from shoal.core.text import check_user_name
from shoal.graph.access import access_member, get_object, objects_of, pages_of
from shoal.graph.cache.coherence import another_request
from shoal.graph.changes import change_object, retry_on_conflict
from shoal.graph.contract import Batch, Cursor, IdTaken, KeyTaken, Reader, find_object
from shoal.graph.member_lookup import login_of
from shoal.graph.schema import (
    EXTERNAL_IDS,
    LOGGED_IN,
    AnyNode,
    Key,
    external_id_key,
    external_object_key,
    used_jwt_key,
    user_name_key,
)
from shoal.i18n import language_tag

_ABANDONED_MS = 10_000
"""Age at which a reservation without a link counts as abandoned. Taking over a live one only makes its request start again."""
_PATIENCE_SECONDS = 3.0
"""How long a request pauses in total while another one links the same external id, or takes the user names that it tries."""
_MAX_PAUSE = 0.2
_READ_AT_ONCE = 256
_LINKED_AT_ONCE = 25
"""Objects whose external ids are stored in one commit: two rows each, within the limits of every store."""
_MAX_LISTED = 4 * MAX_PER_MEMBER
_PAGE = 20

T = TypeVar("T")


class ExternalProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What another product knows about a member. None and "" keep the value of an existing member."""

    user_name: str = ""
    """The proposed user name. A free name like it is assigned when the member is created, and never changes."""
    display_name: str | None = None
    note: str | None = None
    language: str = ""
    """A language tag (BCP 47) or locale. An unknown language is ignored."""
    created_at: int = 0
    """When a new member joined the product (Unix ms), in an import; 0 for now."""
    updated_at: int = 0
    """When the product last changed the profile (Unix ms), in an import; 0 if unknown."""


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
    unconfirmed: bool
    confirms: bool


class Upserted(NamedTuple):
    member: Member
    created: bool
    link_id: int
    """The link of the external id to the member (`ExternalLink`), which ends when the external id is unlinked."""


async def find(graph: Reader, external: ExternalId) -> Member | None:
    """Return the member with this external id, in any state; None if there is none."""
    return (await _linked(graph, external)).member


async def of_member(graph: Reader, member_id: int) -> list[ExternalId]:
    """Return the external ids of a member, newest first."""
    return [link.external for link in await _links_of(graph, member_id)]


async def foreign_issuers(graph: Reader, member_id: int) -> frozenset[str]:
    """Return the issuers of a member's external ids that the member did not link themselves."""
    return frozenset(link.issuer for link in await _links_of(graph, member_id) if not link.own)


async def upsert(writes: Writes, external: ExternalId, profile: ExternalProfile, *, update: bool = True) -> Upserted:
    """Return the member with this external id, with this profile. If there is none, create one without password and address.

    Concurrent calls create one member. With `update` false, an existing member is returned unchanged.

    Raises:
        Gone: The member is suspended, or is deleting their account.
        InvalidInput: The profile has an invalid value.
        Unavailable: Another process is linking the external id, and has not finished after some seconds.
    """

    async def attempt() -> Upserted | None:
        link_id, member = await _holder(writes, external)
        if member is not None:
            return Upserted(
                await _updated(writes, member, profile) if update else member, created=False, link_id=link_id
            )
        return None if link_id else await _created(writes, external, profile)

    return await _repeated(writes, external, attempt)


async def register(writes: Writes, external: ExternalId, name: str, **more: Unpack[Registration]) -> Member:
    """Create a member with this external id by `members.register`, in the same two commits as `upsert`.

    Raises `Taken` with the field `id` if a member has the external id or is being created, and the errors of `members.register`.
    """
    shard, key = place(check_user_name(name)).shard, external_id_key(external)
    async with writes.locks.of((f"external id {external.digest}",)):
        taken = Taken("another member has this external id", field="id")
        if (await _holder(writes, external)).link_id:
            raise taken
        link_id = writes.new_id(shard)
        reserved = Batch(key.shard)
        reserved.key_add(key, link_id)
        try:
            await writes.graph.commit(reserved)
        except KeyTaken:
            raise taken from None

        def extra(batch: Batch, member_id: int) -> None:
            _add_link(writes, batch, member_id, external, link_id, own=more.get("unconfirmed", False))

        try:
            return await members.register(writes, name, **more, extra=extra)
        except ShoalError as error:
            if is_refusal(error):
                await _free(writes, external, link_id)
            raise


async def link(
    writes: Writes, member_id: int, external: ExternalId, *, staff: bool = True, own: bool = False
) -> Member:
    """Add an external id to an existing member. Idempotent. With `staff` false, a member with a role is refused.

    `own` means that the member does so themselves: recovering the account unlinks it (`unlink_own`).

    Raises:
        Taken: Another member has the external id.
        Unfit: The member has too many external ids.
        NotAllowed: The member has a role, and `staff` is false.
        NotFound: There is no such member.
        Gone: The member is suspended, or is deleting their account.
        Unavailable: Another process is linking the external id, and has not finished after some seconds.
    """

    async def once(claim: Claim) -> Member | None:
        member = await access_member(writes.graph, member_id)
        if member.role is not Role.NONE and not staff:
            raise NotAllowed(
                "only an operator may link an external id to a member with a role: use shoal member external-ids"
            )
        owned = await _links_of(writes.graph, member_id)
        if any(owned_link.external == external for owned_link in owned):
            return member
        if len(owned) >= MAX_PER_MEMBER:
            raise Unfit(f"a member has at most {MAX_PER_MEMBER} external ids")
        link_id, holder = await _holder(writes, external)
        if holder is not None and holder.id != member_id:
            raise Taken("another member has this external id", field="id")
        if link_id:
            return None
        batch = Batch(shard_of(member_id))
        link_id = _add_link(writes, batch, member_id, external, own=own)
        claim(batch)
        note(writes, batch, AuditVerb.EXTERNAL_ID_LINKED, member_target(member), **_audited(external))
        return member if await _committed(writes, external, link_id, batch) else None

    return await _repeated(writes, external, lambda: serialized(writes, member_id, once))


async def unlink_provider(writes: Writes, member_id: int, issuer: str, title: str, providers: Collection[str]) -> None:
    """Remove a member's external ids of a login provider, revoke the tokens that were exchanged through them, and send a mail.

    `title` names the provider in the mail, and `providers` are the issuers of all login providers. Raises `NotAllowed` if the
    member could no longer log in.
    """

    async def once(claim: Claim) -> list[ExternalLink]:
        member = await access_member(writes.graph, member_id)
        links = [link for link in await _links_of(writes.graph, member_id) if link.issuer == issuer]
        if not links:
            return []
        login = await login_of(writes.graph, member)
        await check_login_remains(writes, member, login, {*providers} - {issuer})
        batch = Batch(shard_of(member_id))
        for link in links:
            _drop_link(writes, batch, member, link)
        if login is not None and login.email:
            asked = writes.new_id(batch.shard)
            batch.emit(MailDue(kind=MailKind.PROVIDER_UNLINKED, asked=asked, member_id=member_id, passkey=title))
        # Of two concurrent removals of the last ways to log in, the second fails, also if it is that of a passkey.
        claim(batch)
        await writes.graph.commit(batch)
        return links

    for link in await serialized(writes, member_id, once):
        await _free(writes, link.external, link.id)
        await _revoke_tokens(writes, member_id, link.id)


async def check_login_remains(writes: Writes, member: Member, login: Login | None, providers: Collection[str]) -> None:
    """Raise `NotAllowed` if a member has no password, no passkey, and no external id of one of these issuers."""
    if login is not None and (login.passkeys or has_password(writes, login)):
        return
    with another_request():
        linked = {link.issuer for link in await _links_of(writes.graph, member.id)}
    if linked.isdisjoint(providers):
        raise NotAllowed("This is your only way to log in. Add a passkey or another provider first.")


async def unlink(writes: Writes, member_id: int, external: ExternalId) -> None:
    """Remove an external id from a member. Raises `NotFound` if the member does not have it."""
    member = await get_object(writes.graph, Member, member_id)
    holder = await find(writes.graph, external)
    if holder is None or holder.id != member_id:
        raise NotFound(f"@{member.name} does not have the external id {external}")
    await release(writes, member, external)


async def release(writes: Writes, member: Member, external: ExternalId, *, audited: bool = True) -> None:
    """Remove an external id from a member, and revoke the tokens that were exchanged through it. Idempotent.

    With `audited` false, for the deletion of an account, the tokens are left to the caller. If the process dies, tokens that are
    not revoked yet stay valid until they expire.
    """

    async def attempt() -> int:
        with another_request():
            links = await _links_of(writes.graph, member.id)
        for link in links:
            if link.external == external:
                batch = Batch(shard_of(member.id))
                _drop_link(writes, batch, member, link, audited=audited)
                await writes.graph.commit(batch)
                return link.id
        return 0

    if link_id := await retry_on_conflict(attempt):
        await _free(writes, external, link_id)
        if audited:
            await _revoke_tokens(writes, member.id, link_id)


async def unlink_own(writes: Writes, batch: Batch, member: Member) -> list[ExternalLink]:
    """Remove with the batch the links that the member made (`ExternalLink.own`). Call `free` with them after its commit."""
    with another_request():
        links = [link for link in await _links_of(writes.graph, member.id) if link.own]
    for link in links:
        _drop_link(writes, batch, member, link)
    return links


async def free(writes: Writes, links: Sequence[ExternalLink]) -> None:
    """Let the external ids of removed links be linked again. If this fails, a later request to link one does it."""
    for link in links:
        await _free(writes, link.external, link.id)


async def members_of(graph: Reader, externals: Iterable[ExternalId]) -> dict[ExternalId, int]:
    """Return the ids of the members with these external ids, in any state. External ids without a member are omitted."""
    return {external: link.member_id for external, link in (await links_to_members(graph, externals)).items()}


async def links_to_members(graph: Reader, externals: Iterable[ExternalId]) -> dict[ExternalId, ExternalLink]:
    """Return the links of these external ids to members. External ids without a member are omitted."""
    links = await _objects_of_keys(graph, {external_id_key(external): external for external in externals})
    return {external: node for external, node in links.items() if isinstance(node, ExternalLink) and node.member_id}


async def objects_of_kind(graph: Reader, kind: str, externals: Iterable[ExternalId]) -> dict[ExternalId, int]:
    """Return the ids of the objects with these external ids, also of deleted ones. External ids without an object are omitted."""
    return {external: node.object_id for external, node in (await links_to_objects(graph, kind, externals)).items()}


async def links_to_objects(
    graph: Reader, kind: str, externals: Iterable[ExternalId]
) -> dict[ExternalId, ExternalObject]:
    """Return the links of these external ids to objects, also to deleted ones. External ids without an object are omitted."""
    nodes = await _objects_of_keys(graph, {external_object_key(kind, external): external for external in externals})
    return {external: node for external, node in nodes.items() if isinstance(node, ExternalObject)}


async def note_import(writes: Writes, link: ExternalLink | ExternalObject, **values: Any) -> None:
    """Store what an import has read of the row of an object, or is applying, in its link."""

    async def read() -> ExternalLink | ExternalObject:
        return await get_object(writes.graph, type(link), link.id)

    await change_object(writes.graph, read, lambda before: structs.replace(before, **values))


async def object_id_of(graph: Reader, kind: ExternalKind, external: ExternalId) -> int:
    """Return the id of the object with this external id. Raises `NotFound` if there is none, and if it was deleted."""
    found = (await objects_of_kind(graph, kind, (external,))).get(external, 0)
    if not await graph.obj_get((found,)):
        raise NotFound("Record not found")
    return found


async def _objects_of_keys(graph: Reader, keys: Mapping[Key, ExternalId]) -> dict[ExternalId, AnyNode]:
    found: dict[ExternalId, AnyNode] = {}
    for part in _parts(list(keys), _READ_AT_ONCE):
        owners = await graph.key_get(part)
        nodes = await graph.obj_get(list(owners.values()))
        found |= {keys[key]: nodes[id_] for key, id_ in owners.items() if id_ in nodes}
    return found


def _parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


async def link_objects(
    writes: Writes,
    kind: str,
    linked: Mapping[ExternalId, int],
    updated: Mapping[ExternalId, int] | None = None,
) -> None:
    """Give objects their external ids. Idempotent: an external id that has an object keeps it.

    `updated` has the times of the last changes of their rows (Unix ms).
    """
    shards: dict[int, dict[Key, tuple[int, int]]] = {}
    for external, object_id in linked.items():
        key = external_object_key(kind, external)
        shards.setdefault(key.shard, {})[key] = object_id, (updated or {}).get(external, 0)

    async def add(part: Mapping[Key, tuple[int, int]]) -> None:
        with another_request():
            taken = await writes.graph.key_get(list(part))
        batch = Batch(next(iter(part)).shard)
        for key, (object_id, moment) in part.items():
            if key not in taken:
                node = ExternalObject(id=writes.new_id(key.shard), object_id=object_id, updated=moment)
                batch.fresh.add(node.id)
                batch.obj_add(node)
                batch.key_add(key, node.id)
        if batch.objects:
            await writes.graph.commit(batch)

    parts = [dict(part) for keys in shards.values() for part in _parts(list(keys.items()), _LINKED_AT_ONCE)]
    async with asyncio.TaskGroup() as tasks:
        for part in parts:
            tasks.create_task(retry_on_conflict(partial(add, part)))


async def use_jwt(writes: Writes, issuer: str, jwt_id: str, expires_at: float) -> None:
    """Record the use of a JWT until it expires (Unix seconds). Raises `NotAllowed` if it was used already."""
    key = used_jwt_key(ExternalId(issuer, jwt_id))
    batch = Batch(key.shard)
    batch.key_add(key, writes.new_id(key.shard), until=int(expires_at * 1000) + 1)
    try:
        await writes.graph.commit(batch)
    except KeyTaken:
        raise NotAllowed("this JWT was exchanged already, and its issuer allows a single use") from None


class _Linked(NamedTuple):
    """The state of an external id: no link and no member (free), a link without member (reserved), or both (linked)."""

    link_id: int
    member: Member | None


async def _linked(graph: Reader, external: ExternalId) -> _Linked:
    key = external_id_key(external)
    link_id = (await graph.key_get((key,))).get(key, 0)
    stored = await find_object(graph, ExternalLink, link_id)
    return _Linked(link_id, await find_object(graph, Member, stored.member_id) if stored is not None else None)


async def _links_of(graph: Reader, member_id: int) -> list[ExternalLink]:
    """Return a member's links, newest first."""
    listed = await graph.assoc_range(member_id, EXTERNAL_IDS, Cursor(limit=_MAX_LISTED))
    return await objects_of(graph, ExternalLink, [assoc.id2 for assoc in listed])


async def _repeated(writes: Writes, external: ExternalId, attempt: Callable[[], Awaitable[T | None]]) -> T:
    """Call `attempt` until it returns a result. None means that another request is faster or still running."""
    async with writes.locks.of((f"external id {external.digest}",)):
        # Only pauses count, so that a slow store does not reduce the number of attempts.
        waited, pause = 0.0, 0.01
        while waited < _PATIENCE_SECONDS:
            # Another process may have linked the external id since this request last read.
            with another_request():
                if (result := await attempt()) is not None:
                    return result
            await asyncio.sleep(random.uniform(0.0, pause))  # noqa: S311  # spreads the attempts
            waited, pause = waited + pause / 2, min(2 * pause, _MAX_PAUSE)
    raise Unavailable("another request is creating or linking this member: try again in a moment", retry_after=1.0)


async def _holder(writes: Writes, external: ExternalId) -> _Linked:
    """Return the state of an external id, after ending an abandoned reservation."""
    found = await _linked(writes.graph, external)
    if not found.link_id or found.member or writes.new_id.now() - milliseconds_of(found.link_id) < _ABANDONED_MS:
        return found
    return await _taken_over(writes, external, found.link_id)


async def _taken_over(writes: Writes, external: ExternalId, link_id: int) -> _Linked:
    """Prevent the commit of a link for which the key is reserved, and free the key."""
    fence = Batch(shard_of(link_id))
    fence.obj_add(ExternalLink(id=link_id))
    try:
        await writes.graph.commit(fence)
    except IdTaken:
        # Either the link was stored after all, or another request has prevented it.
        with another_request():
            found = await _linked(writes.graph, external)
            if found.link_id != link_id or found.member is not None:
                return found
    await _free(writes, external, link_id)
    return _Linked(0, None)


def _add_link(
    writes: Writes,
    batch: Batch,
    member_id: int,
    external: ExternalId,
    link_id: int = 0,
    *,
    own: bool = False,
    updated: int = 0,
    profile: str = "",
) -> int:
    link_id = link_id or writes.new_id(batch.shard)
    batch.fresh.add(link_id)
    batch.obj_add(
        ExternalLink(
            id=link_id,
            member_id=member_id,
            issuer=external.issuer,
            subject=external.id,
            own=own,
            updated=updated,
            profile=profile,
        )
    )
    batch.assoc_add(member_id, EXTERNAL_IDS, link_id, link_id)
    return link_id


def _drop_link(writes: Writes, batch: Batch, member: Member, link: ExternalLink, *, audited: bool = True) -> None:
    batch.obj_del(link, link.version)
    batch.assoc_del(member.id, EXTERNAL_IDS, link.id, writes.new_id(batch.shard))
    if audited:
        note(writes, batch, AuditVerb.EXTERNAL_ID_UNLINKED, member_target(member), **_audited(link.external))


async def _committed(writes: Writes, external: ExternalId, link_id: int, batch: Batch) -> bool:
    """Reserve the key for a link and commit the batch that stores it; return whether both succeeded.

    If nothing was stored, the key is freed. If the outcome is unknown, or the process dies, a later request finds out.
    """
    key = external_id_key(external)
    reserved = Batch(key.shard)
    reserved.key_add(key, link_id)
    try:
        await writes.graph.commit(reserved)
    except KeyTaken:
        return False
    try:
        await writes.graph.commit(batch)
    except ShoalError as error:
        if is_refusal(error):
            await _free(writes, external, link_id)
        if isinstance(error, Conflict):
            return False
        raise
    return True


async def _free(writes: Writes, external: ExternalId, link_id: int) -> None:
    key = external_id_key(external)
    batch = Batch(key.shard)
    batch.key_del(key, link_id)
    await writes.graph.commit(batch)


async def _revoke_tokens(writes: Writes, member_id: int, link_id: int) -> None:
    """Revoke the tokens that were exchanged through a link. It is deleted, so no further ones are issued."""
    async for page in pages_of(writes.graph, member_id, LOGGED_IN, _PAGE):
        for token in await objects_of(writes.graph, ProductToken, [assoc.id2 for assoc in page]):
            if token.link_id == link_id:
                await oauth.revoke_token(writes, token)


def _audited(external: ExternalId) -> dict[str, str]:
    """Return the details of an external id for the audit log: the id itself stays private."""
    return {"issuer": external.issuer, "id_digest": external.short_digest}


def imported(writes: Writes, ids: tuple[int, int], name: str, profile: ExternalProfile) -> tuple[Member, Login]:
    """Return a new member with this profile, and their login. Raises `InvalidInput` for an invalid value."""
    shown, note = profile.display_name or "", profile.note or ""
    member, login = members.imported(writes.limits, ids, name, shown, note, profile.created_at)
    return structs.replace(member, default_language=language_tag(profile.language)), login


async def _created(writes: Writes, external: ExternalId, profile: ExternalProfile) -> Upserted | None:
    """Create the member; None if another request was faster, with the external id or with the user name."""
    name = await free_name(writes, profile.user_name)
    shard = place(name).shard
    ids = writes.new_id(shard), writes.new_id(shard)
    member, login = imported(writes, ids, name, profile)
    member = structs.replace(member, mentions=await members_named(writes, member.note))
    batch = Batch(shard)
    batch.fresh.update(ids)
    batch.key_add(user_name_key(name), member.id)
    batch.obj_add(member)
    batch.obj_add(login)
    digest = profile_digest(member.display_name, member.note) if profile.updated_at else ""
    link_id = _add_link(writes, batch, member.id, external, updated=profile.updated_at, profile=digest)
    batch.emit(ProfileChanged(member_id=member.id))
    created = await _committed(writes, external, link_id, batch)
    return Upserted(member, created=True, link_id=link_id) if created else None


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
    return await members.update_profile(writes.trusted(), member.id, given)


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

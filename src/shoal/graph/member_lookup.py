"""Look up members by user name, email address, or a handle on another network.

User names and email addresses are on separate shards, so every registration needs a second commit. Handles are those that members
declare in their profile fields; they are not verified. An email hash leads only to members who have opted in.
"""

from __future__ import annotations

import contextlib

from shoal.core.credentials import Login
from shoal.core.errors import InvalidInput
from shoal.core.handles import ForeignHandle, handles_in
from shoal.core.model import Member
from shoal.core.text import account_as_typed, check_user_name, normalized_email
from shoal.graph.access import prefetch
from shoal.graph.contract import Batch, Graph, KeyTaken, Reader, find_object
from shoal.graph.schema import DECLARES, MEMBER_COUNTS, Key, email_hash_id, email_key, handle_id, user_name_key

_LEAST_ID = 10**15
"""Lower bound of ids. Every id created from January 2, 2024, on is larger."""
_DIGITS = 19


async def member_called(graph: Reader, name_or_email: str, domain: str = "") -> Member | None:
    """Return a member by user name, with or without a leading `@`, or by email address; None if there is none.

    Surrounding invisible characters are ignored. If `domain` is given, `name@domain` also finds the member with that user name,
    unless a member has this text as email address.
    """
    keys = _keys_of(account_as_typed(name_or_email), domain)
    if not keys:
        return None
    found = await graph.key_get(keys)
    id_ = next((found[key] for key in keys if key in found), None)
    if not id_:
        return None
    await prefetch(graph, (id_,), (((id_,), MEMBER_COUNTS),))
    return await find_object(graph, Member, id_)


def _keys_of(name_or_email: str, domain: str) -> list[Key]:
    name, at, host = name_or_email.removeprefix("@").partition("@")
    keys: list[Key] = []
    if at:
        with contextlib.suppress(InvalidInput):
            # Addresses that were stored before normalization was introduced are in lower case, and otherwise as typed.
            keys += [email_key(address) for address in (name_or_email.lower(), normalized_email(name_or_email))]
    if not at or (domain and host.lower() == domain.lower()):
        with contextlib.suppress(InvalidInput):
            keys.append(user_name_key(check_user_name(name, reserved=True)))
    return keys


async def id_called(graph: Reader, name_or_id: str) -> int | None:
    """Return the id of a member by user name (with or without a leading @), or the given id itself; None if there is no match.

    A deleted member can only be given by id. A number as long as an id is always taken as an id, even if it is the
    user name of a member. Otherwise a member could choose the id of another member as user name, so that looking up that id
    finds the wrong member.
    """
    number = int(name_or_id) if name_or_id.isdecimal() and len(name_or_id) <= _DIGITS else None
    if number is not None and number >= _LEAST_ID:
        return number
    member = await member_called(graph, name_or_id)
    return number if member is None else member.id


async def login_of(graph: Reader, member: Member) -> Login | None:
    return await find_object(graph, Login, member.login_id)


async def keep_address(graph: Graph, member_id: int, address: str) -> None:
    """Make the temporary reservation of an email address permanent.

    Raises `KeyTaken` if the reservation expired and another account has the address.
    """
    key = email_key(address)
    batch = Batch(key.shard)
    batch.key_add(key, member_id)
    await graph.commit(batch)


async def free_address(graph: Graph, member_id: int, address: str) -> None:
    """Release the email address of a deleted member, if that member still owns it."""
    key = email_key(address)
    batch = Batch(key.shard)
    batch.key_del(key, member_id)
    await graph.commit(batch)


async def release_address(graph: Graph, member_id: int, address: str, at: int) -> None:
    """Release an email address, unless it is the member's current one, or is reserved for the member beyond `at` (Unix ms).

    Idempotent, and safe to run late.
    """
    if await _holds(graph, member_id, address, at):
        return
    await free_address(graph, member_id, address)
    if await _holds(graph, member_id, address, at):
        # The member has set this address again concurrently, so reserve it again. If another account has reserved it by now,
        # that account keeps it.
        with contextlib.suppress(KeyTaken):
            await keep_address(graph, member_id, address)


async def _holds(graph: Graph, member_id: int, address: str, at: int) -> bool:
    member = await find_object(graph, Member, member_id)
    login = await login_of(graph, member) if member is not None else None
    if login is None:
        return False
    return login.email == address or any(kept == address and until > at for kept, until in login.kept)


_MOST = 16
"""Maximum number of accounts on other networks that are read from a profile: four for each field."""


def declared_handles(member: Member) -> frozenset[ForeignHandle]:
    found = dict.fromkeys(handle for row in member.fields for handle in handles_in(row.value))
    return frozenset(list(found)[:_MOST])


def declared_ids(member: Member) -> frozenset[int]:
    """Return ids for the accounts on other networks in a profile and, if `findable_by_email`, for the email address's hash."""
    ids = {handle_id(str(handle)) for handle in declared_handles(member)}
    return frozenset(ids | {email_hash_id(member.email_hash)} if member.findable_by_email else ids)


def redeclare(batch: Batch, before: Member, after: Member, now: int) -> None:
    """Update a member's associations with the ids of `declared_ids`, in the commit that changes the profile.

    `now` is an id of the current time.
    """
    had, has = declared_ids(before), declared_ids(after)
    for id_ in has - had:
        batch.assoc_add(after.id, DECLARES, id_, now)
    for id_ in had - has:
        batch.assoc_del(after.id, DECLARES, id_, now)

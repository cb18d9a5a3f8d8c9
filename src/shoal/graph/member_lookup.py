"""Look up members by user name, email address, or a handle on another network.

User names and email addresses are on shards of their own, which makes them a second commit of every registration. Handles are
those declared in profile fields, and are not verified. An email hash leads only to members who opted in.
"""

from __future__ import annotations

import contextlib

from shoal.core.credentials import Login
from shoal.core.errors import InvalidInput
from shoal.core.handles import ForeignHandle, handles_in
from shoal.core.model import Member
from shoal.core.text import check_user_name, normalized_email
from shoal.graph.contract import Batch, Graph, KeyTaken, Reader
from shoal.graph.schema import DECLARES, Key, email_hash_id, email_key, handle_id, user_name_key

_LEAST_ID = 10**15
"""Ids are larger from January 2, 2024, on."""
_DIGITS = 19


async def member_called(graph: Reader, name_or_email: str) -> Member | None:
    """Find a member by user name, with or without an `@` before it, or by e-mail address; None if there is none.

    Spaces around it are ignored.
    """
    try:
        keys = _keys_of(name_or_email.strip())
    except InvalidInput:
        return None
    found = await graph.key_get(keys)
    id_ = next((found[key] for key in keys if key in found), None)
    node = (await graph.obj_get((id_,))).get(id_) if id_ else None
    return node if isinstance(node, Member) else None


def _keys_of(name_or_email: str) -> tuple[Key, ...]:
    name = name_or_email.removeprefix("@")
    if "@" not in name:
        return (user_name_key(check_user_name(name, reserved=True)),)
    # Addresses from before they were normalized are stored as they were typed, in lower case.
    return tuple(email_key(address) for address in (name_or_email.lower(), normalized_email(name_or_email)))


async def id_called(graph: Reader, name_or_id: str) -> int | None:
    """Return the id that is meant by a user name, also with an @ before it, or by an id; None for neither.

    Members who are gone have only their ids. A number as long as ids are is one, whoever has it as a name: else a member hides
    another's entries behind their own.
    """
    number = int(name_or_id) if name_or_id.isdecimal() and len(name_or_id) <= _DIGITS else None
    if number is not None and number >= _LEAST_ID:
        return number
    member = await member_called(graph, name_or_id)
    return number if member is None else member.id


async def login_of(graph: Reader, member: Member) -> Login | None:
    """Return the credentials of a member; None for one who has none."""
    node = (await graph.obj_get((member.login_id,))).get(member.login_id)
    return node if isinstance(node, Login) else None


async def keep_address(graph: Graph, member_id: int, address: str) -> None:
    """Make a held address the member's for good. Raises `KeyTaken` when the hold ran out and somebody else has it."""
    key = email_key(address)
    batch = Batch(key.shard)
    batch.key_add(key, member_id)
    await graph.commit(batch)


async def free_address(graph: Graph, member_id: int, address: str) -> None:
    """Give up the address of a member who is gone; nothing happens when it is somebody else's."""
    key = email_key(address)
    batch = Batch(key.shard)
    batch.key_del(key, member_id)
    await graph.commit(batch)


async def release_address(graph: Graph, member_id: int, address: str, at: int) -> None:
    """Give up an address, unless it is the one that the member has, or one that is kept for them beyond `at` (Unix ms).

    It may be asked for late, and more than once.
    """
    if await _holds(graph, member_id, address, at):
        return
    await free_address(graph, member_id, address)
    if await _holds(graph, member_id, address, at):
        # It became theirs again in that very moment; or somebody else was faster still.
        with contextlib.suppress(KeyTaken):
            await keep_address(graph, member_id, address)


async def _holds(graph: Graph, member_id: int, address: str, at: int) -> bool:
    member = (await graph.obj_get((member_id,))).get(member_id)
    login = await login_of(graph, member) if isinstance(member, Member) else None
    if login is None:
        return False
    return login.email == address or any(kept == address and until > at for kept, until in login.kept)


_MOST = 16
"""Accounts elsewhere that a profile can declare: four a row."""


def declared_handles(member: Member) -> frozenset[ForeignHandle]:
    """Return the accounts elsewhere that a profile names, the first sixteen."""
    found = dict.fromkeys(handle for row in member.fields for handle in handles_in(row.value))
    return frozenset(list(found)[:_MOST])


def declared_ids(member: Member) -> frozenset[int]:
    """Return the ids of all that leads to a member from elsewhere."""
    ids = {handle_id(str(handle)) for handle in declared_handles(member)}
    return frozenset(ids | {email_hash_id(member.email_hash)} if member.findable_by_email else ids)


def redeclare(batch: Batch, before: Member, after: Member, now: int) -> None:
    """Begin and end what leads to a member, in the commit that changes them; `now` is an id of the moment."""
    had, has = declared_ids(before), declared_ids(after)
    for id_ in has - had:
        batch.assoc_add(after.id, DECLARES, id_, now)
    for id_ in had - has:
        batch.assoc_del(after.id, DECLARES, id_, now)

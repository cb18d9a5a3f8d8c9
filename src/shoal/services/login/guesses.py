"""Checks of passwords, codes and passkeys for callers from outside: counted, so that guessing is slow, and logged when they fail.

Wrong passwords are counted for the account, wherever they come from. That alone would let a stranger keep the owner out, so a
network from which the right password came before is counted by itself: there the owner waits only for mistakes that were made
there, and at most for the rest of one window.
"""

from __future__ import annotations

import contextlib
import logging
from hashlib import blake2b
from typing import Protocol

from msgspec.structs import replace

from shoal.core.credentials import BadAnswer, Login, Purpose, Site, is_answer, used
from shoal.core.email import MailKind
from shoal.core.errors import ShoalError, TooMany, Unauthenticated
from shoal.core.events import MailDue
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Member
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch
from shoal.graph.member_lookup import login_of
from shoal.services.audit import note_failed_login
from shoal.services.login import assertions, passwords
from shoal.services.writes import Writes

_log = logging.getLogger("shoal.logins")

_KNOWN = 8
"""Networks that are remembered for a member."""
_LOGGED_CHARACTERS = 64
_WRONG_PASSKEY = "this passkey opens no account here, or it took too long"


class Asker(Protocol):
    """The client that sends a password."""

    @property
    def address(self) -> str:
        """Its address, for the log; empty when it is not known."""

    @property
    def site(self) -> Site:
        """The site on which it asks, as passkeys are for one."""

    @property
    def network(self) -> str:
        """The /24 or /64 of the address; empty when it is not known."""

    async def begin(self, account: str, *, known: bool, code: bool = False) -> None:
        """Count an attempt as a wrong one before it is made, so that simultaneous attempts cannot exceed the maximum.

        `known`: the right password came from this network before. `code`: it is one of a code. Raises `TooMany`.
        """

    async def take_back(self) -> None:
        """Uncount an attempt that was not wrong."""


async def fits(writes: Writes, login: Login | None, name: str, password: str, asker: Asker | None) -> bool:
    """Whether this is the password of the login. Nothing is counted for a caller inside the process, None.

    `name` is what the caller gave. Raises `TooMany`.
    """
    # In NFC, in which the length of a password is checked, four characters may be one.
    stored, given = login.password if login else "", password[: 4 * writes.limits.password_most]
    if asker is not None:
        await _begin(writes, login, account_key(name), name, asker)
    if not await passwords.matches(given, stored):
        await failed(writes, login, name, asker, "wrong password")
        return False
    if asker is None:
        return True
    await asker.take_back()
    # With a second factor the password alone says nothing about where its owner is.
    if login is not None and login.second is None:
        await remember(writes, login, asker)
    return True


async def by_passkey(writes: Writes, answer: str, asker: Asker) -> Member:
    """Return the member of whom this is the answer of a passkey, alone: also one who may not come in.

    Raises `Unauthenticated`, alike for everything that can be wrong, and `TooMany`: answers that prove nothing are counted as wrong
    passwords are, by themselves.
    """
    try:
        member_id = assertions.said_by(answer)
    except BadAnswer:
        raise Unauthenticated(_WRONG_PASSKEY) from None
    node = (await writes.graph.obj_get((member_id,))).get(member_id)
    member = node if isinstance(node, Member) else None
    name = member.name if member else "-"
    before = await login_of(writes.graph, member) if member else None
    await _begin(writes, before, account_key(f"passkey of {member_id}"), name, asker, what="passkeys")
    login = await assertions.use(writes, asker.site, member, answer, Purpose.LOG_IN) if member else None
    if member is None or login is None:
        await failed(writes, before, name, asker, "wrong passkey")
        raise Unauthenticated(_WRONG_PASSKEY)
    await asker.take_back()
    await remember(writes, login, asker)
    return member


async def code_counts(
    writes: Writes, member: Member, code: str, asker: Asker | None, purpose: Purpose = Purpose.SECOND
) -> bool:
    """Whether this is a code of the member's second factor, or the answer of a passkey of theirs, made for this purpose.

    It is used up by that. True where they have no second factor. Wrong ones are counted as wrong passwords are, by themselves.
    Raises `TooMany`.
    """
    if asker is not None:
        await _begin(
            writes, await login_of(writes.graph, member), str(member.id), member.name, asker, code=True, what="codes"
        )

    async def attempt() -> Login | None:
        login = await login_of(writes.graph, member)
        if login is None or login.second is None:
            return login
        now = milliseconds_of(writes.new_id(shard_of(login.id)))
        after = used(login.second, code, now)
        if after is None:
            return None
        batch = Batch(shard_of(login.id))
        kept = replace(login, second=after, version=login.version + 1)
        batch.obj_set(kept)
        await writes.graph.commit(batch)
        return kept

    if asker is not None and is_answer(code):
        login = await assertions.use(writes, asker.site, member, code, purpose)
    else:
        login = await retry_on_conflict(attempt)
    if login is None:
        await failed(writes, await login_of(writes.graph, member), member.name, asker, "wrong code")
        return False
    if asker is not None:
        await asker.take_back()
        if login.second is not None:
            await remember(writes, login, asker)
    return True


async def _begin(
    writes: Writes,
    login: Login | None,
    account: str,
    name: str,
    asker: Asker,
    *,
    code: bool = False,
    what: str = "passwords",
) -> None:
    mark = _mark_from(login, asker)
    try:
        await asker.begin(account, known=login is not None and mark in login.networks, code=code)
    except TooMany:
        await failed(writes, login, name, asker, f"too many wrong {what}")
        raise


def networks_after(login: Login, asker: Asker | None) -> tuple[bytes, ...]:
    """The networks that are still known once the password was replaced: that of the member who did it, alone.

    With a second factor none is: the password says nothing about where its owner is.
    """
    if login.second is not None:
        return ()
    return networks_of(login.id, asker.network if asker is not None else "")


def networks_of(login_id: int, network: str) -> tuple[bytes, ...]:
    """The marks of a network; none for an empty one."""
    return (_mark(login_id, network),) if network else ()


async def remember(writes: Writes, login: Login, asker: Asker) -> None:
    """Remember from where a member logged in who has proved who they are, and tell them of a new place.

    Best effort: without it the next login from there is counted with everybody's.
    """
    mark = _mark_from(login, asker)
    if not mark or mark in login.networks:
        return
    batch = Batch(shard_of(login.id))
    batch.obj_set(replace(login, networks=(mark, *login.networks)[:_KNOWN], version=login.version + 1))
    if login.networks and login.email:
        asked = writes.new_id(batch.shard)
        batch.emit(MailDue(kind=MailKind.NEW_PLACE, asked=asked, member_id=login.member_id, place=asker.address))
    with contextlib.suppress(ShoalError):
        await writes.graph.commit(batch)


def _mark_from(login: Login | None, asker: Asker) -> bytes:
    return _mark(login.id, asker.network) if login is not None and asker.network else b""


def _mark(login_id: int, network: str) -> bytes:
    """Return the stored mark of a network. Marks are keyed by login, so those of two members cannot be compared."""
    return blake2b(network.encode(), digest_size=8, key=login_id.to_bytes(8)).digest()


def account_key(name: str) -> str:
    """Return the key under which an attempt is counted: a hash of the name or address that was given.

    It does not depend on whose name it is: else a stranger could find out which address belongs to whom, or to nobody.
    """
    return blake2b(name.strip().lower().encode("utf-8", "replace"), digest_size=12).hexdigest()


async def failed(writes: Writes, login: Login | None, name: str, asker: Asker | None, why: str) -> None:
    """Write a failed log-in into the log of the server and into the audit log. `name` is what was typed."""
    if asker is not None:
        _log.warning("login failed: reason=%r name=%r address=%s", why, name[:_LOGGED_CHARACTERS], asker.address or "-")
    network = asker.network if asker is not None else ""
    await note_failed_login(writes, login.member_id if login is not None else 0, name, network, why)

"""Joining: everything that signing up by an app and on a page have in common."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

import msgspec

from shoal.api.context import Context, Front
from shoal.api.http.errors import Blank, NotAccepted, SeveralErrors
from shoal.api.http.limits.ratelimit import address_of, network_key
from shoal.api.login.guesses import hashing
from shoal.commands import blocklists, invitations, members
from shoal.core.blocklists import IpSeverity
from shoal.core.errors import InvalidInput, NotAllowed, Taken, TooLarge
from shoal.core.model import Member
from shoal.core.signup import Invited, is_proof
from shoal.core.text import check_email, check_user_name
from shoal.graph.schema import email_key, user_name_key
from shoal.settings import Settings


class Joining(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a sign-up, as typed."""

    username: str
    email: str
    password: str
    agreement: bool
    language: str = ""
    reason: str = ""
    """Why somebody wants to join: kept where new members wait for approval."""
    invite_code: str = ""
    """The code of an invitation; empty: they were not invited."""
    proof: str = ""
    """The proof that a machine worked for it (`core.login.proof_of_work`); empty: there is none."""


def needs_approval(context: Context, *, invited: bool = False, proven: bool = True) -> bool:
    """Return whether a new member from this network waits for approval. Raises `NotAllowed` where nobody may join.

    Those who are `invited` may join where others may not, and need no approval except because of their network. Others need it
    also where work is asked for that was not `proven`.
    """
    front = context.deps
    if not (front.settings.registrations or invited):
        raise NotAllowed("This server takes no new members")
    severity = front.ip_guard.severity(context.request.scope)
    if severity is not None and severity.rank >= IpSeverity.SIGN_UP_BLOCK.rank:
        raise NotAllowed("This server takes no new members from your network")
    unproven = front.settings.signup_work > 0 and not proven
    return ((front.settings.approval or unproven) and not invited) or severity is not None


def asks_confirmation(settings: Settings) -> bool:
    """Return whether members get a mail by which they confirm their address."""
    return bool(settings.mail) and settings.email_confirmation != "none"


async def join(context: Context, asked: Joining) -> Member:
    """Create a member, who is `pending` where they wait for approval.

    Raises `NotAllowed` where nobody may join, `InvalidInput` for an invitation that is not good (any more), and `SeveralErrors`
    with every error found, each with its field.
    """
    front = context.deps
    if asked.invite_code:
        await invitations.offered(front.writes, asked.invite_code)
    pending = needs_approval(context, invited=bool(asked.invite_code), proven=bool(asked.proof))
    client = address_of(context.request.scope)
    await _check(front, asked, client, pending=pending)
    if asked.proof and front.settings.signup_work:
        await _check_proof(front, asked)
    confirms = asks_confirmation(front.settings)
    async with hashing(context.request.scope), _use(front, asked) as invited:
        return await members.register(
            front.writes,
            asked.username,
            password=asked.password,
            email=asked.email,
            language=asked.language,
            pending=pending,
            reason=asked.reason if pending else "",
            unconfirmed=confirms and front.settings.email_confirmation == "required",
            confirms=confirms,
            network=network_key(client) if client else "",
            invited=invited,
        )


def _use(front: Front, asked: Joining) -> AbstractAsyncContextManager[Invited | None]:
    """Hold a use of the invitation while the member is made; None where somebody joins without one."""
    if not asked.invite_code:
        return nullcontext()
    return invitations.held(front.writes, asked.invite_code, asked.username)


async def _check_proof(front: Front, asked: Joining) -> None:
    """Raise `InvalidInput` for a proof that is wrong or too old: whoever sends one would rather try again than wait."""
    domain, bits, now = front.at.netloc, front.settings.signup_work, time.time_ns() // 1_000_000_000
    if not await asyncio.to_thread(is_proof, asked.proof, domain, asked.username, bits, now):
        raise InvalidInput(f"proof: not one of {bits} bits for this name, or older than an hour", field="proof")


async def _check(front: Front, asked: Joining, client: str, *, pending: bool) -> None:
    wrong: list[InvalidInput] = []
    name = _checked(wrong, "username", asked.username, check_user_name)
    try:
        if name:
            await blocklists.check_name(front.graph, name)
    except InvalidInput as error:
        wrong.append(error)
        name = ""
    email = _checked(wrong, "email", asked.email, check_email)
    _checked(wrong, "password", asked.password, lambda text: members.check_password(front.writes, text))
    if not asked.agreement:
        wrong.append(NotAccepted("Service agreement must be accepted", field="agreement"))
    if pending and len(asked.reason) > (most := front.writes.limits.reason):
        wrong.append(TooLarge(f"Reason is too long (maximum is {most} characters)", field="reason"))
    try:
        if email:
            await blocklists.check_email(front.writes, email, client)
    except InvalidInput as error:
        # Whether the address is taken is not revealed.
        wrong.append(error)
        email = ""
    keys = {
        field: key(text)
        for field, text, key in (("username", name, user_name_key), ("email", email, email_key))
        if text
    }
    taken = await front.graph.key_get(list(keys.values())) if keys else {}
    wrong += [
        Taken(f"{field.title()} has already been taken", field=field) for field, key in keys.items() if key in taken
    ]
    if wrong:
        raise SeveralErrors(wrong)


def _checked(wrong: list[InvalidInput], field: str, text: str, check: Callable[[str], str]) -> str:
    """Return the value as it will be stored. An invalid one is noted among the errors, and empty here."""
    if not text.strip():
        wrong.append(Blank(f"{field.title()} can't be blank", field=field))
        return ""
    try:
        return check(text)
    except InvalidInput as error:
        wrong.append(error)
        return ""

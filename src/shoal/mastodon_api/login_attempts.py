"""Password checks of HTTP requests, limited by account and address range, and limits on requested mails.

Each function below `Attempt` calls the command of the same name and raises its errors. While the password of a request
is hashed, the request holds no slot of the admission limit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Scope

from shoal.commands import account_deletions, authentication, credentials, members, passkeys, second_factor
from shoal.commands.account_deletions import Farewell
from shoal.commands.authentication import OwnerProof, account_key
from shoal.core.credentials import Purpose, Site, is_answer, site_of
from shoal.core.errors import TooMany, TooManyMails
from shoal.core.external_ids import ExternalId
from shoal.core.model import Member
from shoal.http.middleware import outside
from shoal.http.rate_limits import Limiter, RateKey, RateWindow, address_of, address_prefix
from shoal.mastodon_api.context import Context


@asynccontextmanager
async def hashing(scope: Scope) -> AsyncIterator[None]:
    """Hold a slot for password hashing during the block, and release the request's slot in the `Gate`.

    Raises `Unavailable` if no slot for hashing is free.
    """
    with authentication.hashing_slot():
        async with outside(scope):
            yield


class LockedOut(TooMany):
    """There were too many wrong passwords for an account, from any addresses. Someone other than its owner may have sent them."""


class Attempt:
    """An attempt to log in from one IP address. Implements `Asker` of `commands/authentication.py`."""

    def __init__(self, limiter: Limiter, address: str, site: Site) -> None:
        self._limiter = limiter
        self.site = site
        self._counted: list[tuple[RateKey, RateWindow]] = []
        self.address = address
        self.network = address_prefix(address) if address else ""

    async def begin(self, account: str, *, known: bool, code: bool = False) -> None:
        """Count this attempt as a wrong one before the password or code is checked. Raises `TooMany` if the limit is reached."""
        if self.network:
            await self._take(RateKey("network_guesses", self.network))
        limit_class = "code_guesses" if code else "account_guesses"
        await self._take(RateKey(limit_class, f"{account}@{self.network}" if known else account))

    async def take_back(self) -> None:
        """Undo the counts of `begin`, because the attempt was successful."""
        while self._counted:
            await self._limiter.give_back(*self._counted.pop())

    async def _take(self, key: RateKey) -> None:
        window = await self._limiter.take(key)
        if window is None:
            return
        if window.wait:
            refusal = LockedOut if key.limit_class == "account_guesses" else TooMany
            raise refusal("Too many wrong passwords", retry_after=window.wait)
        self._counted.append((key, window))


async def log_in(context: Context, name: str, password: str) -> Member:
    async with hashing(context.request.scope):
        return await members.log_in(context.app.writes, name, password, _attempt(context))


async def knows_password(context: Context, name: str, password: str) -> Member:
    """Return the member with a name and password, without asking for the second factor."""
    async with hashing(context.request.scope):
        return await members.knows_password(context.app.writes, name, password, _attempt(context))


async def code_counts(context: Context, member: Member, code: str, purpose: Purpose = Purpose.SECOND) -> bool:
    return await authentication.code_counts(context.app.writes, member, code, _attempt(context), purpose)


async def welcomed(context: Context, member: Member) -> Member:
    """Return a member whom a login provider authenticated. As after a password, their address prefix is remembered."""
    writes, attempt = context.app.writes, _attempt(context)
    await members.welcomed(writes, member, attempt)
    login = await members.login_of(writes, member)
    if login is not None and login.second is None:
        await authentication.remember(writes, login, attempt)
    return member


async def is_owner(context: Context, member: Member, password: OwnerProof) -> bool:
    async with hashing(context.request.scope):
        return await authentication.is_owner(context.app.writes, member, password, _attempt(context))


async def confirms_by_passkey(context: Context, member: Member, answer: str) -> bool:
    """Return whether a text is a response of one of the member's passkeys, whose device verified them, in place of the password."""
    writes, attempt = context.app.writes, _attempt(context)
    return is_answer(answer) and await authentication.code_counts(writes, member, answer, attempt, Purpose.OWNER)


async def by_passkey(context: Context, answer: str) -> Member:
    return await members.by_passkey(context.app.writes, answer, _attempt(context))


async def turn_on_by_passkey(context: Context, member_id: int, password: OwnerProof, answer: str) -> list[str]:
    async with hashing(context.request.scope):
        return await second_factor.turn_on_by_passkey(
            context.app.writes, member_id, password, answer, _attempt(context)
        )


async def add_passkey(
    context: Context, member_id: int, name: str, answer: str, password: OwnerProof, code: str
) -> None:
    async with hashing(context.request.scope):
        await passkeys.add(context.app.writes, member_id, name, answer, password, code, _attempt(context))


async def remove_passkey(context: Context, member_id: int, id_: str, password: OwnerProof, code: str) -> None:
    async with hashing(context.request.scope):
        providers = context.app.providers.issuers
        await passkeys.remove(context.app.writes, member_id, id_, password, code, _attempt(context), providers)


async def turn_on(context: Context, member_id: int, password: OwnerProof, key: str, code: str) -> list[str]:
    async with hashing(context.request.scope):
        return await second_factor.turn_on(context.app.writes, member_id, password, key, code, _attempt(context))


async def turn_off(context: Context, member_id: int, password: OwnerProof, code: str) -> None:
    required = context.app.settings.staff_second_factor
    async with hashing(context.request.scope):
        await second_factor.turn_off(
            context.app.writes, member_id, password, code, _attempt(context), required=required
        )


async def new_codes(context: Context, member_id: int, code: str) -> list[str]:
    return await second_factor.new_codes(context.app.writes, member_id, code, _attempt(context))


async def change_password(context: Context, member_id: int, current: OwnerProof, password: str) -> None:
    async with hashing(context.request.scope):
        await credentials.change_password(context.app.writes, member_id, current, password, _attempt(context))


async def ask_email_change(context: Context, member_id: int, password: OwnerProof, address: str, language: str) -> None:
    """Send a confirmation mail to a new address. Raises `TooManyMails` and the errors of `credentials.ask_change`."""
    await count_mail(context, member_id=member_id)
    async with hashing(context.request.scope):
        await credentials.ask_change(context.app.writes, member_id, password, address, language, _attempt(context))


async def reset_password(context: Context, proof: str, password: str) -> Member:
    async with hashing(context.request.scope):
        return await credentials.reset_password(context.app.writes, proof, password, _attempt(context))


async def count_mail(context: Context, account: str = "", member_id: int = 0) -> None:
    """Count a requested mail by address range and by account. Raises `TooManyMails`.

    The account is `member_id` or, if that is 0, the text `account` that the caller typed.
    """
    address = address_of(context.request.scope)
    # `account_key` hashes the typed account, so the key cannot equal the id of a member.
    keys = [RateKey("account_mails", str(member_id) if member_id else account_key(account))]
    if address:
        keys.insert(0, RateKey("network_mails", address_prefix(address)))
    for key in keys:
        window = await context.app.limiter.take(key)
        if window is not None and window.wait:
            raise TooManyMails("Too many e-mails requested; try again later", retry_after=window.wait)


async def count_login(context: Context) -> None:
    """Count a request for a token by address. Raises `TooMany`."""
    await _count(context, RateKey("login", address_of(context.request.scope)))


async def count_exchange(context: Context, app_id: int, external: ExternalId) -> None:
    """Count a token exchange by app and external id. Raises `TooMany`."""
    await _count(context, RateKey("exchange", f"{app_id} {external.digest}"))


async def _count(context: Context, key: RateKey) -> None:
    window = await context.app.limiter.take(key)
    if window is not None and window.wait:
        raise TooMany("Too many requests", retry_after=window.wait)


async def leave(context: Context, member_id: int, password: OwnerProof) -> Farewell:
    async with hashing(context.request.scope):
        return await account_deletions.leave(context.app.writes, member_id, password, _attempt(context))


async def come_back(context: Context, name: str, password: str) -> Member:
    async with hashing(context.request.scope):
        return await account_deletions.come_back(context.app.writes, name, password, _attempt(context))


def _attempt(context: Context) -> Attempt:
    return Attempt(
        context.app.limiter, address_of(context.request.scope), site_of(context.app.at.root, context.app.settings.title)
    )

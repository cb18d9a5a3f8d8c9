"""Answers of passkeys are checked and used up, in one commit: the challenge, and what the login knows of the passkey."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from shoal.core.credentials import (
    Assertion,
    BadAnswer,
    Login,
    Passkey,
    Purpose,
    Site,
    asking_options,
    check_assertion,
    is_copy,
    read_assertion,
)
from shoal.core.email import MailKind
from shoal.core.errors import Conflict
from shoal.core.events import MailDue
from shoal.core.ids import shard_of
from shoal.core.model import Member
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, KeyTaken
from shoal.graph.member_lookup import login_of
from shoal.services.login import challenges
from shoal.services.writes import Writes

_log = logging.getLogger("shoal.logins")


def said_by(text: str) -> int:
    """Return the member whom the answer of a device is of, as it says; 0 for none. Raises `BadAnswer` for a malformed one."""
    return read_assertion(text).member_id


async def options(writes: Writes, site: Site, purpose: Purpose, member: Member | None = None) -> dict[str, object]:
    """Return what a browser asks a device with: for any passkey of the site, or for those of a member."""
    challenge = await challenges.make(writes, purpose, member.id if member else 0)
    login = await login_of(writes.graph, member) if member else None
    return asking_options(site, challenge, login.passkeys if login else (), verified=purpose is Purpose.LOG_IN)


async def use(writes: Writes, site: Site, member: Member, text: str, purpose: Purpose) -> Login | None:
    """Return the login after a passkey of the member has signed for this purpose; None where that counts for nothing.

    A challenge counts once, whoever sends it at the same moment. Of a copy of a passkey its owner is told by mail.
    """
    try:
        found = read_assertion(text)
    except BadAnswer:
        return None
    whose = 0 if purpose is Purpose.LOG_IN else member.id
    if not await challenges.fits(writes, found.challenge, purpose, whose):
        return None

    async def attempt() -> Login | None:
        login = await login_of(writes.graph, member)
        passkey = _passkey_of(login, found)
        if login is None or passkey is None:
            return None
        try:
            check_assertion(site, passkey, found, verified=purpose is Purpose.LOG_IN)
        except BadAnswer:
            return None
        copied = is_copy(passkey, found)
        after = login if copied else _used(login, passkey, found, writes.new_id.now())
        batch = Batch(shard_of(member.id))
        batch.obj_set(replace(after, version=login.version + 1))
        challenges.use_up(writes, batch, found.challenge)
        if copied and login.email:
            asked = writes.new_id(batch.shard)
            batch.emit(MailDue(kind=MailKind.COPIED, asked=asked, member_id=member.id, passkey=passkey.name))
        await writes.graph.commit(batch)
        if copied:
            _log.warning("login failed: reason='copied passkey' name=%r", member.name)
        return None if copied else replace(after, version=login.version + 1)

    try:
        return await retry_on_conflict(attempt, _overtaken)
    except KeyTaken:
        return None


def _passkey_of(login: Login | None, found: Assertion) -> Passkey | None:
    known = login.passkeys if login else ()
    return next((one for one in known if one.credential == found.credential), None)


def _used(login: Login, passkey: Passkey, found: Assertion, now: int) -> Login:
    after = replace(passkey, count=found.signatures, used_at=now)
    return replace(login, passkeys=tuple(after if one is passkey else one for one in login.passkeys))


def _overtaken(conflict: Conflict) -> bool:
    return not isinstance(conflict, KeyTaken)

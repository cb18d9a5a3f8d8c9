"""Commands to enable, disable and reset the second factor of a login: an authenticator app or a passkey.

`authentication` and `sessions` verify the codes at login.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from shoal.commands import authentication, sessions
from shoal.commands.audit import note
from shoal.commands.authentication import Asker, OwnerProof
from shoal.commands.context import Writes
from shoal.core.audit import AuditVerb, member_target
from shoal.core.credentials import Login, Purpose, SecondFactor, is_answer, key_of, new_recovery_codes, used
from shoal.core.email import MailKind
from shoal.core.errors import InvalidInput, NotAllowed, SecondFactorNeeded
from shoal.core.events import MailDue
from shoal.core.ids import shard_of
from shoal.core.model import Member, Role
from shoal.graph.access import access_member
from shoal.graph.changes import change_object, retry_on_conflict
from shoal.graph.contract import Batch
from shoal.graph.member_lookup import login_of

_WRONG_CODE = "code: wrong or expired code, or a used recovery code"
_ON = "Two-factor authentication is already on"
_OFF = "Two-factor authentication is off"


async def turn_on(
    writes: Writes, member_id: int, password: OwnerProof, key: str, code: str, asker: Asker | None = None
) -> list[str]:
    """Turn on two-factor login with an authenticator app, and return ten recovery codes, which are shown only once.

    For a moderator or admin this ends all sessions, because none of them was started with a code. `key` is the result of
    `core.second_factor.new_key` that was given to the authenticator app, and `code` is the current code of the app. Raises
    `InvalidInput` for a wrong password or code, `NotAllowed` if the second factor is already on, and `TooMany` if the `asker`
    is rate-limited.
    """
    now = writes.new_id.now()
    begun = used(SecondFactor(key=key_of(key)), code, now) if key_of(key) else None
    if begun is None:
        raise InvalidInput(_WRONG_CODE, field="code")
    await _check_password(writes, member_id, password, asker)
    codes, hashes = new_recovery_codes()
    await _change(writes, member_id, replace(begun, recovery=hashes, since=now), AuditVerb.SECOND_FACTOR_ENABLED)
    return codes


async def turn_on_by_passkey(
    writes: Writes, member_id: int, password: OwnerProof, answer: str, asker: Asker
) -> list[str]:
    """Turn on two-factor login with the member's passkeys, and return ten recovery codes.

    `answer` is a passkey response of the member. Otherwise as for `turn_on`, including the errors.
    """
    await _check_password(writes, member_id, password, asker)
    member = await access_member(writes.graph, member_id)
    if not is_answer(answer) or not await authentication.code_counts(writes, member, answer, asker, Purpose.CONFIRM):
        raise InvalidInput(_WRONG_CODE, field="code")
    codes, hashes = new_recovery_codes()
    now = writes.new_id.now()
    await _change(writes, member_id, SecondFactor(key=b"", recovery=hashes, since=now), AuditVerb.SECOND_FACTOR_ENABLED)
    return codes


async def turn_off(
    writes: Writes,
    member_id: int,
    password: OwnerProof,
    code: str,
    asker: Asker | None = None,
    *,
    required: bool = False,
) -> None:
    """Turn the second factor off.

    Raises `SecondFactorNeeded` for a moderator or admin if the server requires one (`required`), `InvalidInput` for a wrong
    password or code, `NotAllowed` if it is already off, and `TooMany` if the `asker` is rate-limited.
    """
    member = await access_member(writes.graph, member_id)
    if required and member.role is not Role.NONE:
        raise SecondFactorNeeded
    await _check_password(writes, member_id, password, asker)
    await _check_code(writes, member, code, asker)
    await _change(writes, member_id, None, AuditVerb.SECOND_FACTOR_DISABLED)


async def new_codes(writes: Writes, member_id: int, code: str, asker: Asker | None = None) -> list[str]:
    """Replace the recovery codes, and return ten new ones.

    Raises `InvalidInput` for a wrong code, `NotAllowed` if the second factor is off, and `TooMany` if the `asker` is rate-limited.
    """
    if await state(writes, member_id) is None:
        raise NotAllowed(_OFF)
    member = await access_member(writes.graph, member_id)
    await _check_code(writes, member, code, asker)
    codes, hashes = new_recovery_codes()

    def renewed(login: Login) -> Login:
        if login.second is None:
            raise NotAllowed(_OFF)
        return replace(login, second=replace(login.second, recovery=hashes))

    def extra(batch: Batch, *_: Login) -> None:
        note(writes, batch, AuditVerb.SECOND_FACTOR_CODES_RENEWED, member_target(member))

    await change_object(writes.graph, lambda: _login(writes, member_id), renewed, extra)
    return codes


async def reset(writes: Writes, member_id: int) -> None:
    """Turn a member's second factor off, at the request of an operator who has identified the member.

    Raises `NotAllowed` if the second factor is already off.
    """
    await _change(writes, member_id, None, AuditVerb.SECOND_FACTOR_RESET)


class SecondWays(NamedTuple):
    """The kinds of second factor that a member has set up, not counting recovery codes."""

    app: bool
    passkeys: bool


async def ways(writes: Writes, member_id: int) -> SecondWays:
    login = await _login(writes, member_id)
    return SecondWays(login.second is not None and login.second.key != b"", bool(login.passkeys))


async def state(writes: Writes, member_id: int) -> SecondFactor | None:
    return (await _login(writes, member_id)).second


async def check_owner(writes: Writes, member_id: int, password: OwnerProof, code: str, asker: Asker | None) -> None:
    """Check the password of a member and, if enabled, a second-factor code or passkey response.

    Raises `InvalidInput` if one of them is wrong, and `TooMany` if the `asker` is rate-limited.
    """
    await _check_password(writes, member_id, password, asker)
    member = await access_member(writes.graph, member_id)
    if member.second_factor:
        await _check_code(writes, member, code, asker)


def check_staff(member: Member, *, required: bool) -> None:
    """Raise `SecondFactorNeeded` for a moderator or admin without a second factor if the server requires one (`required`)."""
    if member.unguarded(required=required):
        raise SecondFactorNeeded


async def _change(writes: Writes, member_id: int, factor: SecondFactor | None, verb: AuditVerb) -> None:
    ended = await sessions.all_ended(writes, member_id)

    async def attempt() -> None:
        member, login = await access_member(writes.graph, member_id), await _login(writes, member_id)
        if (login.second is None) == (factor is None):
            raise NotAllowed(_OFF if factor is None else _ON)
        batch = Batch(shard_of(member_id))
        batch.obj_set(replace(login, second=factor, version=login.version + 1))
        ends = factor is not None and member.role is not Role.NONE
        generation = member.generation + ends
        batch.obj_set(
            replace(member, second_factor=factor is not None, generation=generation, version=member.version + 1)
        )
        if ends:
            batch.emit(ended)
        note(writes, batch, verb, member_target(member))
        if login.email:
            kind = MailKind.SECOND_OFF if factor is None else MailKind.SECOND_ON
            batch.emit(MailDue(kind=kind, asked=writes.new_id(batch.shard), member_id=member_id))
        await writes.graph.commit(batch)

    await retry_on_conflict(attempt)


async def _check_password(writes: Writes, member_id: int, password: OwnerProof, asker: Asker | None) -> None:
    member = await access_member(writes.graph, member_id)
    if not await authentication.is_owner(writes, member, password, asker):
        raise InvalidInput("the current password is wrong", field="current_password")


async def _check_code(writes: Writes, member: Member, code: str, asker: Asker | None) -> None:
    if not await authentication.code_counts(writes, member, code, asker, Purpose.CONFIRM):
        raise InvalidInput(_WRONG_CODE, field="code")


async def _login(writes: Writes, member_id: int) -> Login:
    found = await login_of(writes.graph, await access_member(writes.graph, member_id))
    if found is None:
        raise NotAllowed("this member has no login credentials")
    return found

"""Another password for a member: set by an operator, or by the member, who knows the present one."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from shoal.core.audit import AuditVerb, member_target
from shoal.core.email import MailKind
from shoal.core.errors import Conflict, InvalidInput, NotFound
from shoal.core.events import MailDue
from shoal.core.ids import shard_of
from shoal.core.model import Member
from shoal.graph.access import access_member
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch
from shoal.services import members
from shoal.services.audit import note
from shoal.services.login import guesses, passwords, sessions
from shoal.services.login.guesses import Asker
from shoal.services.writes import Writes

_WRONG_CURRENT = "the current password is wrong"


async def set_password(writes: Writes, member_id: int, password: str) -> None:
    """Replace the password. Every token and authorization code of the member is invalid from then on."""
    if await members.login_of(writes, await access_member(writes.graph, member_id)) is None:
        raise Conflict("this member has no login")
    secret = await passwords.hashed(members.check_password(writes, password))
    await replace_password(writes, member_id, secret, AuditVerb.PASSWORD_SET)


async def change_password(
    writes: Writes, member_id: int, current: str, password: str, asker: Asker | None = None
) -> None:
    """Replace the password as `set_password`, for a member who knows the present one.

    Raises `InvalidInput` if they do not.

    Wrong passwords count as those of `log_in` do.
    """
    members.check_password(writes, password, field="new_password")
    member = await access_member(writes.graph, member_id)
    login = await members.login_of(writes, member)
    fits = await guesses.fits(writes, login, member.name, current, asker)
    if login is None or not fits:
        raise InvalidInput(_WRONG_CURRENT, field="current_password")
    secret = await passwords.hashed(password)
    networks = guesses.networks_after(login, asker)
    await replace_password(writes, member_id, secret, AuditVerb.PASSWORD_CHANGED, login.password, networks)


async def replace_password(
    writes: Writes,
    member_id: int,
    secret: str,
    verb: AuditVerb,
    known: str = "",
    networks: tuple[bytes, ...] = (),
    beside: Callable[[Batch, Member], None] = lambda _batch, _member: None,
) -> None:
    """Change the password and the generation in one commit, with whatever else belongs to it, and tell the member by mail.

    A member's own change holds only while the `known` hash stands.
    """
    ended = await sessions.all_ended(writes, member_id)

    async def attempt() -> None:
        member = (await writes.graph.obj_get((member_id,))).get(member_id)
        if not isinstance(member, Member):
            raise NotFound("Record not found")
        login = await members.login_of(writes, member)
        if login is None or known not in ("", login.password):
            raise InvalidInput(_WRONG_CURRENT, field="current_password")
        batch = Batch(shard_of(member.id))
        batch.obj_set(replace(login, password=secret, networks=networks, version=login.version + 1))
        batch.obj_set(replace(member, generation=member.generation + 1, version=member.version + 1))
        batch.emit(ended)
        beside(batch, member)
        note(writes, batch, verb, member_target(member))
        if login.email:
            batch.emit(MailDue(kind=MailKind.RENEWED, asked=writes.new_id(batch.shard), member_id=member.id))
        await writes.graph.commit(batch)

    await retry_on_conflict(attempt)

"""Members who leave: they ask for it, may come back for some days, and have a receipt of what was deleted.

In those days a member is hidden as one who is suspended, and nothing of theirs is touched: who comes back finds everything as it
was, but for their logins and their role. The object of the departure stands on the agenda; `clearing` does what it says.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from shoal.core.audit import AuditVerb, member_target
from shoal.core.errors import InvalidInput, NotAllowed, NotFound
from shoal.core.events import ProfileChanged, SuspensionChanged
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import DAY_MS, Departure, Member, Role
from shoal.core.tokens import fits, hash_of, new_secret, opened, text_of
from shoal.graph.access import access_member
from shoal.graph.changes import put_on, retry_on_conflict, take_off
from shoal.graph.contract import Batch
from shoal.graph.schema import EVERYBODY, SERVES
from shoal.services import members
from shoal.services.audit import note
from shoal.services.login import guesses, sessions
from shoal.services.login.apps import check_welcome
from shoal.services.login.guesses import Asker
from shoal.services.writes import Writes, add_node

_SECRET_BYTES = 16
_BEGUN = "This account is being deleted"


class Farewell(NamedTuple):
    """A departure, and the text that opens its receipt: nobody can be told it again."""

    departure: Departure
    receipt: str


async def leave(writes: Writes, member_id: int, password: str, asker: Asker | None = None) -> Farewell:
    """Begin to leave: hide the member, end all their logins, and delete everything when the days to come back are over.

    Raises `InvalidInput` for a wrong password, and `TooMany` where wrong passwords are counted.
    """
    member = await access_member(writes.graph, member_id)
    if not await guesses.fits(writes, await members.login_of(writes, member), member.name, password, asker):
        raise InvalidInput("the password is wrong", field="password")
    return await dismiss(writes, member_id, writes.limits.leaving_days)


async def dismiss(writes: Writes, member_id: int, days: int) -> Farewell:
    """Have a member leave, as `leave`, without their password: for operators who are asked to. With 0 days it begins at once.

    Of a member who leaves already the day is moved. Raises `NotFound`, also for one who waits for approval, and `NotAllowed` when
    the deletion has begun.
    """
    secret, shard = new_secret(_SECRET_BYTES), shard_of(member_id)

    async def attempt() -> Farewell:
        member = await _access(writes, member_id)
        before = await departure_of(writes, member)
        if before is not None and before.begun_at:
            raise NotAllowed(_BEGUN)

        def build(id_: int) -> tuple[Departure, Batch]:
            now = milliseconds_of(id_)
            made = Departure(
                id=id_,
                member_id=member_id,
                name=member.name,
                asked_at=before.asked_at if before is not None else now,
                at=now + days * DAY_MS,
                ticket_id=id_,
                secret_hash=hash_of(secret),
            )
            batch = Batch(shard)
            if before is not None:
                batch.obj_del(before.id, before.version)
                take_off(batch, before.ticket_id, id_)
            batch.obj_add(made)
            put_on(batch, made.ticket_id, made.at, made.id)
            _hide(batch, member, made, id_)
            batch.emit(ended)
            note(writes, batch, AuditVerb.DELETION_REQUESTED, member_target(member), days=days)
            return made, batch

        ended = await sessions.all_ended(writes, member_id)
        made = await add_node(writes, shard, build)
        return Farewell(made, text_of(made.id, secret))

    return await retry_on_conflict(attempt)


async def come_back(writes: Writes, name_or_email: str, password: str, asker: Asker | None = None) -> Member:
    """Undo `leave`, before the deletion has begun: everything is as it was, but for logins and a role.

    Raises as `members.log_in`, and `NotAllowed` for a member who does not leave, whose deletion has begun, or whom moderators
    keep out.
    """
    member = await members.by_password(writes, name_or_email, password, asker)
    return await keep(writes.by(writes.actor.proved(member)), member.id)


async def keep(writes: Writes, member_id: int) -> Member:
    """Undo a departure, without a password. Raises `NotFound`, and `NotAllowed` as `come_back`."""

    async def attempt() -> Member:
        member = await _access(writes, member_id)
        departure = await departure_of(writes, member)
        if departure is None:
            check_welcome(member)
            raise NotAllowed("This account is not to be deleted")
        if departure.begun_at:
            raise NotAllowed(_BEGUN)
        if member.disabled:
            check_welcome(member)
        batch = Batch(shard_of(member_id))
        now = writes.new_id(batch.shard)
        batch.obj_del(departure.id, departure.version)
        take_off(batch, departure.ticket_id, now)
        back = replace(member, departure_id=0, suspended=False, version=member.version + 1)
        batch.obj_set(back)
        _tell(batch, member_id)
        note(writes, batch, AuditVerb.DELETION_CANCELLED, member_target(member))
        await writes.graph.commit(batch)
        return back

    return await retry_on_conflict(attempt)


async def receipt(writes: Writes, text: str) -> Departure:
    """Return the departure that this text opens. Raises `NotFound` for any other text."""
    id_, secret = opened(text)
    node = (await writes.graph.obj_get((id_,))).get(id_) if len(secret) == _SECRET_BYTES else None
    if not isinstance(node, Departure) or not fits(node.secret_hash, secret):
        raise NotFound("Record not found")
    return node


async def departure_of(writes: Writes, member: Member) -> Departure | None:
    """Return the departure of a member; None for one who stays."""
    if not member.departure_id:
        return None
    node = (await writes.graph.obj_get((member.departure_id,))).get(member.departure_id)
    return node if isinstance(node, Departure) else None


async def _access(writes: Writes, member_id: int) -> Member:
    """Return a member, also one who is suspended or leaves already. Raises `NotFound`, also for one who waits for approval."""
    node = (await writes.graph.obj_get((member_id,))).get(member_id)
    if not isinstance(node, Member) or node.pending:
        raise NotFound("Record not found")
    return node


def _hide(batch: Batch, member: Member, departure: Departure, now: int) -> None:
    """Hide a member with the batch, and make all that they logged in with worthless."""
    gone = replace(
        member,
        departure_id=departure.id,
        suspended=True,
        # One whom moderators suspended does not come back by leaving.
        disabled=member.disabled or (member.suspended and not member.departure_id),
        role=Role.NONE,
        generation=member.generation + 1,
        version=member.version + 1,
    )
    batch.obj_set(gone)
    if member.role is not Role.NONE:
        batch.assoc_del(member.id, SERVES, EVERYBODY, now)
    _tell(batch, member.id)


def _tell(batch: Batch, member_id: int) -> None:
    batch.emit(ProfileChanged(member_id=member_id))
    batch.emit(SuspensionChanged(member_id=member_id))

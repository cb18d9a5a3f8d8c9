"""Links in mails: by one a forgotten password is replaced, an address confirmed, changed, or brought back.

A link works once, and for a while; a look at its page does nothing, as programs that check mail look at every link.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from shoal.core.bearer import fits, opened
from shoal.core.contacts import hash_address
from shoal.core.errors import Conflict, Gone, InvalidInput
from shoal.core.events import EmailChanged, MailDue, ProfileChanged, SessionsEnded, SuspensionChanged
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.mail import MailKind, Proof
from shoal.core.model import Member
from shoal.core.placement import place
from shoal.core.text import check_email, check_text
from shoal.graph.access import access_member
from shoal.graph.addresses import free_address, keep_address
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, Cursor
from shoal.graph.payloads.agenda import take_off
from shoal.graph.payloads.declared import redeclare
from shoal.graph.schema import LOGGED_IN
from shoal.services import members, moderation
from shoal.services.login import guesses, passwords, renewals
from shoal.services.login.contact_salt import contact_salt
from shoal.services.login.guesses import Asker
from shoal.services.writes import Writes

MAX_ACCOUNT = 300
"""Characters of a user name or e-mail address as typed."""
_TOLD = 1_000
_OVER = "This link is over, or was used before"


class Proven(NamedTuple):
    """A proof that is good, with the member it is of."""

    proof: Proof
    member: Member


async def forgot(writes: Writes, name_or_email: str, language: str = "") -> None:
    """Have a mail sent to whoever has this user name or e-mail address, by which they choose a new password.

    It is looked for later, so neither the answer nor its time tells whether there is anybody. `language` is the code of the
    mail's language; empty: the member's. Raises `InvalidInput` for an empty text.
    """
    account = check_text(name_or_email.strip(), field="username", maximum=MAX_ACCOUNT)
    if not account:
        raise InvalidInput("username: this must not be empty", field="username")
    batch = Batch(place(account).shard)
    at = milliseconds_of(writes.new_id(batch.shard))
    batch.emit(MailDue(kind=MailKind.RESET, at=at, account=account, language=language))
    await writes.graph.commit(batch)


async def proven(writes: Writes, text: str, *kinds: MailKind) -> Proven:
    """Return what a link of one of these kinds proves. Raises `Gone` for any that is not good (any more)."""
    id_, secret = opened(text)
    proof = (await writes.graph.obj_get((id_,))).get(id_) if id_ else None
    if not isinstance(proof, Proof) or not fits(proof.secret_hash, secret) or proof.kind not in kinds:
        raise Gone(_OVER)
    member = (await writes.graph.obj_get((proof.member_id,))).get(proof.member_id)
    now = milliseconds_of(writes.new_id(shard_of(proof.id)))
    if not isinstance(member, Member) or now >= proof.expires_at:
        raise Gone(_OVER)
    if proof.kind is MailKind.UNDO:
        # A new password does not end it: a thief who sets one must not keep the owner from having the address back.
        login = await members.login_of(writes, member)
        if login is None or login.voided[0] < proof.id < login.voided[1]:
            raise Gone(_OVER)
    elif proof.generation != member.generation:
        raise Gone(_OVER)
    return Proven(proof, member)


async def reset_password(writes: Writes, text: str, password: str) -> Member:
    """Replace a forgotten password, by the link of a mail. Every token and code of the member is invalid from then on.

    Raises `Gone` for a link that is not good (any more), `TooShort` or `TooLarge` for a password that nobody may have.
    """
    proof, member = await proven(writes, text, MailKind.RESET)
    secret = await passwords.hashed(members.check_password(writes, password))

    def used(batch: Batch, now: Member) -> None:
        # Of two that come at once with different links, the second finds a password that is newer than its own.
        if now.generation != proof.generation:
            raise Gone(_OVER)
        _use(writes, batch, proof)

    await renewals.replace_password(writes, member.id, secret, beside=used)
    return await access_as_is(writes, member.id)


async def access_as_is(writes: Writes, member_id: int) -> Member:
    """Return a member in any state. Raises `Gone` when there is none."""
    node = (await writes.graph.obj_get((member_id,))).get(member_id)
    if not isinstance(node, Member):
        raise Gone(_OVER)
    return node


async def ask_confirmation(writes: Writes, member: Member, language: str = "") -> None:
    """Have the mail sent (again) whose link confirms a member's address."""
    _emit_later(batch := Batch(shard_of(member.id)), writes, MailKind.CONFIRM, member.id, language=language)
    await writes.graph.commit(batch)


async def ask_change(
    writes: Writes, member_id: int, password: str, address: str, language: str = "", asker: Asker | None = None
) -> None:
    """Have a mail sent to another address, whose link makes it the member's.

    Raises `InvalidInput` for a wrong password or a malformed address, and `Taken` for one that is somebody's already, which signing
    up tells too.
    """
    address = check_email(address)
    member = await access_member(writes.graph, member_id)
    login = await members.login_of(writes, member)
    if not await guesses.fits(writes, login, member.name, password, asker):
        raise InvalidInput("the password is wrong", field="password")
    await members.check_free(writes, address, member_id)
    batch = Batch(shard_of(member_id))
    _emit_later(batch, writes, MailKind.CHANGE, member_id, address=address, language=language)
    await writes.graph.commit(batch)


async def confirm(writes: Writes, text: str) -> Member:
    """Do what the link of a mail to an address says: the address is the member's, and was shown to be.

    A member who waited for that alone is in. Raises `Gone`, and `Taken` when somebody else has the address by now.
    """
    proof, member = await proven(writes, text, MailKind.CONFIRM, MailKind.CHANGE)
    if proof.kind is MailKind.CHANGE:
        return await _give(writes, proof, undoable=True)

    async def attempt() -> Member:
        await _check_unused(writes, proof)
        now = await access_as_is(writes, member.id)
        login = await members.login_of(writes, now)
        if login is None or login.email != proof.address:
            raise Gone(_OVER)
        batch = Batch(shard_of(now.id))
        batch.obj_set(replace(login, confirmed=True, needs_approval=False, version=login.version + 1))
        after = now
        if now.unconfirmed:
            waits = login.needs_approval
            kept_out = waits or bool(now.departure_id)
            after = replace(now, unconfirmed=False, pending=waits, suspended=kept_out, version=now.version + 1)
            batch.obj_set(after)
            batch.emit(ProfileChanged(member_id=now.id))
            if not kept_out:
                batch.emit(SuspensionChanged(member_id=now.id))
        _use(writes, batch, proof)
        await writes.graph.commit(batch)
        return after

    return await retry_on_conflict(attempt)


async def undo_change(writes: Writes, text: str, language: str = "") -> Member:
    """Bring an address back that somebody else may have replaced.

    Everybody is logged out, and a mail is sent to choose a password by. Raises `Gone`.
    """
    proof, _ = await proven(writes, text, MailKind.UNDO)
    return await _give(writes, proof, undoable=False, language=language)


async def set_email(writes: Writes, member_id: int, address: str) -> Member:
    """Give a member another address, or none (""), without a mail: for operators who are asked to.

    Raises `InvalidInput` for a malformed address, `Taken`, `NotFound`, and `Conflict` for a member without a login.
    """
    address = check_email(address) if address else ""
    member = await access_member(writes.graph, member_id)
    if await members.login_of(writes, member) is None:
        raise Conflict("this member has no login")
    return await _change(writes, member_id, address, None, undoable=False, language="")


async def _give(writes: Writes, proof: Proof, *, undoable: bool, language: str = "") -> Member:
    return await _change(writes, proof.member_id, proof.address, proof, undoable=undoable, language=language)


async def _change(
    writes: Writes, member_id: int, address: str, proof: Proof | None, *, undoable: bool, language: str
) -> Member:
    """Make an address the member's; the one before it is kept for the undo, or becomes free."""
    shard = shard_of(member_id)
    if address:
        await members.hold_address(writes, address, member_id, milliseconds_of(writes.new_id(shard)))
    salt = await contact_salt(writes)
    tokens = await writes.graph.assoc_range(member_id, LOGGED_IN, Cursor(limit=_TOLD))
    theft = proof is not None and proof.kind is MailKind.UNDO

    async def attempt() -> tuple[Member, str]:
        if proof is not None:
            await _check_unused(writes, proof)
        member = await access_as_is(writes, member_id)
        login = await members.login_of(writes, member)
        if login is None:
            raise Gone(_OVER)
        before, batch = login.email if login.email != address else "", Batch(shard)
        email_hash = hash_address(salt, address) if member.email_hash and address else ""
        changed = replace(login, email=address, confirmed=proof is not None, version=login.version + 1)
        if proof is not None and theft:
            now = writes.new_id(shard)
            changed = replace(changed, networks=(), voided=(min(proof.id, login.voided[0] or proof.id), now))
        after = replace(member, email_hash=email_hash, generation=member.generation + theft, version=member.version + 1)
        batch.obj_set(changed)
        batch.obj_set(after)
        redeclare(batch, member, after, writes.new_id(shard))
        batch.emit(EmailChanged(member_id=member_id, address=address, freed="" if undoable else before))
        if undoable and before:
            _emit_later(batch, writes, MailKind.UNDO, member_id, address=before)
        if theft:
            batch.emit(SessionsEnded(member_id=member_id, token_ids=tuple(one.id2 for one in tokens), every=True))
            _emit_later(batch, writes, MailKind.RESET, member_id, language=language)
        if proof is not None:
            _use(writes, batch, proof)
        await writes.graph.commit(batch)
        return after, before

    member, before = await retry_on_conflict(attempt)
    # The event does both too, later, should this fail.
    await _settle(writes, member_id, address, "" if undoable else before)
    return member


async def _settle(writes: Writes, member_id: int, address: str, freed: str) -> None:
    if address:
        await keep_address(writes.graph, member_id, address)
    if freed:
        await free_address(writes.graph, member_id, freed)


async def end(writes: Writes, proof: Proof) -> None:
    """End a proof whose time is over. An address that could be brought back becomes free; who never confirmed theirs is gone."""
    node = (await writes.graph.obj_get((proof.member_id,))).get(proof.member_id)
    member = node if isinstance(node, Member) else None
    if proof.kind is MailKind.UNDO:
        await _free_unless_used(writes, member, proof)
    batch = Batch(shard_of(proof.id))
    _use(writes, batch, proof)
    await writes.graph.commit(batch)
    if proof.kind is MailKind.CONFIRM and member is not None and member.unconfirmed:
        await moderation.reject(writes, member.id)


async def _free_unless_used(writes: Writes, member: Member | None, proof: Proof) -> None:
    login = await members.login_of(writes, member) if member is not None else None
    if login is not None and login.email == proof.address:
        return
    await free_address(writes.graph, proof.member_id, proof.address)
    again = await members.login_of(writes, member) if member is not None else None
    if again is not None and again.email == proof.address:
        # It was brought back in the very moment.
        await keep_address(writes.graph, proof.member_id, proof.address)


async def _check_unused(writes: Writes, proof: Proof) -> None:
    if proof.id not in await writes.graph.obj_get((proof.id,)):
        raise Gone(_OVER)


def _use(writes: Writes, batch: Batch, proof: Proof) -> None:
    batch.obj_del(proof.id, proof.version)
    take_off(batch, proof.ticket_id, writes.new_id(batch.shard))


def _emit_later(
    batch: Batch, writes: Writes, kind: MailKind, member_id: int, *, address: str = "", language: str = ""
) -> None:
    at = milliseconds_of(writes.new_id(batch.shard))
    batch.emit(MailDue(kind=kind, at=at, member_id=member_id, address=address, language=language))

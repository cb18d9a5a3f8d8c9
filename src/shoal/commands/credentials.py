"""Change passwords and email addresses, directly or through links in mails (email tokens).

A link resets a forgotten password, or confirms, changes or restores an email address. A link works once and expires. Opening
its page changes nothing, because mail scanners open every link.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from shoal.commands import authentication, blocklists, external_ids, members, moderation, relationships, sessions
from shoal.commands.audit import note
from shoal.commands.authentication import Asker, OwnerProof
from shoal.commands.context import Writes
from shoal.commands.members import contact_salt
from shoal.core.audit import AuditVerb, member_target
from shoal.core.credentials import Login
from shoal.core.email import EMAIL_TOKEN_MS, EmailToken, MailKind, hash_address
from shoal.core.errors import Conflict, Gone, InvalidInput, NotAllowed, NotFound, ShoalError
from shoal.core.events import EmailChanged, MailDue, ProfileChanged, SuspensionChanged
from shoal.core.external_ids import ExternalLink
from shoal.core.ids import floor_at, milliseconds_of, shard_of
from shoal.core.model import Member
from shoal.core.placement import place
from shoal.core.text import check_email, check_text
from shoal.core.tokens import fits, opened
from shoal.graph.access import access_member, get_object
from shoal.graph.changes import retry_on_conflict, take_off
from shoal.graph.contract import Batch, find_object
from shoal.graph.member_lookup import keep_address, redeclare, release_address

_WRONG_CURRENT = "the current password is wrong"


async def set_password(writes: Writes, member_id: int, password: str) -> None:
    """Replace the password, which invalidates every token and authorization code of the member."""
    if await members.login_of(writes, await access_member(writes.graph, member_id)) is None:
        raise Conflict("this member has no login credentials")
    secret = await authentication.hashed(members.check_password(writes, password))
    await replace_password(writes, member_id, secret, AuditVerb.PASSWORD_SET)


async def change_password(
    writes: Writes, member_id: int, current: OwnerProof, password: str, asker: Asker | None = None
) -> None:
    """Replace the password, given the current one. Every token and authorization code of the member becomes invalid.

    Raises `InvalidInput` if the current password is wrong, and `TooMany` if the `asker` is rate-limited.
    """
    members.check_password(writes, password, field="new_password")
    member = await access_member(writes.graph, member_id)
    login = await members.login_of(writes, member)
    fits = await authentication.is_owner(writes, member, current, asker)
    if login is None or not fits:
        raise InvalidInput(_WRONG_CURRENT, field="current_password")
    secret = await authentication.hashed(password)
    networks = authentication.prefixes_after(login, asker)
    await replace_password(writes, member_id, secret, AuditVerb.PASSWORD_CHANGED, login.password, networks)


async def replace_password(
    writes: Writes,
    member_id: int,
    secret: str,
    verb: AuditVerb,
    known: str = "",
    networks: tuple[bytes, ...] = (),
    extra: Callable[[Batch, Member], None] = lambda _batch, _member: None,
    *,
    mailbox: str = "",
) -> None:
    """Change the password and invalidate all credentials in one commit, and notify the member by mail.

    A new `Member.generation` invalidates the credentials. `extra` may add changes to the commit. If `known` is given, the
    password is only changed if the stored hash still equals `known`. `mailbox` is an address whose mails
    the caller can read.
    """
    ended = await sessions.all_ended(writes, member_id)

    async def attempt() -> list[ExternalLink]:
        member = await get_object(writes.graph, Member, member_id)
        login = await members.login_of(writes, member)
        if login is None or known not in ("", login.password):
            raise InvalidInput(_WRONG_CURRENT, field="current_password")
        batch, unlinked = Batch(shard_of(member.id)), list[ExternalLink]()
        changed = replace(login, password=secret, networks=networks, version=login.version + 1)
        if login.email == mailbox != "" and not login.confirmed and login.second is None:
            # Another person may have signed up with this address, so the passkeys and providers may be theirs. With a second
            # factor, the password alone gives no access to that person's account.
            changed = replace(changed, passkeys=(), confirmed=not member.unconfirmed)
            unlinked = await external_ids.unlink_own(writes, batch, member)
        batch.obj_set(changed)
        batch.obj_set(replace(member, generation=member.generation + 1, version=member.version + 1))
        batch.emit(ended)
        extra(batch, member)
        note(writes, batch, verb, member_target(member))
        if login.email:
            batch.emit(MailDue(kind=MailKind.RENEWED, asked=writes.new_id(batch.shard), member_id=member.id))
        await writes.graph.commit(batch)
        return unlinked

    unlinked = await retry_on_conflict(attempt)
    with contextlib.suppress(ShoalError):
        await external_ids.free(writes, unlinked)


MAX_ACCOUNT = 300
"""Characters of a user name or email address as typed."""
_MAX_UNDOABLE = 4
"""Maximum number of former addresses, and of spans of time with voided links, that are kept per member for undo links."""
_UNDO_MS = EMAIL_TOKEN_MS[MailKind.UNDO]
_TOO_OFTEN = "This address was changed too often; try again in a week"
_OVER = "This link has expired or was already used"
_VERBS = {
    MailKind.CHANGE: AuditVerb.EMAIL_CHANGED,
    MailKind.UNDO: AuditVerb.EMAIL_RESTORED,
    None: AuditVerb.EMAIL_SET,
}
"""Audit verbs by the kind of email token (None for an operator's change)."""


class Proven(NamedTuple):
    proof: EmailToken
    member: Member


async def forgot(writes: Writes, name_or_email: str, language: str = "") -> None:
    """Send a mail with a password reset link to the member with this user name or email address.

    The account is looked up later, so neither the response nor its timing reveals whether it exists. `language` is the language
    of the mail; if it is empty, the member's language is used. Raises `InvalidInput` for an empty text.
    """
    account = check_text(name_or_email.strip(), field="username", maximum=MAX_ACCOUNT)
    if not account:
        raise InvalidInput("username: this must not be empty", field="username")
    batch = Batch(place(account).shard)
    batch.emit(MailDue(kind=MailKind.RESET, asked=writes.new_id(batch.shard), account=account, language=language))
    await writes.graph.commit(batch)


async def proven(writes: Writes, text: str, *kinds: MailKind) -> Proven:
    """Return the email token of a link.

    Raises `Gone` if the token is unknown, used, expired, or of a kind that is not in `kinds`.
    """
    id_, secret = opened(text)
    proof = await find_object(writes.graph, EmailToken, id_)
    if proof is None or not any(fits(hash_, secret) for hash_ in proof.secret_hashes) or proof.kind not in kinds:
        raise Gone(_OVER)
    member = await find_object(writes.graph, Member, proof.member_id)
    now = writes.new_id.now()
    if member is None or now >= proof.expires_at:
        raise Gone(_OVER)
    login = await members.login_of(writes, member)
    if login is None or _is_over(proof, member, login):
        raise Gone(_OVER)
    return Proven(proof, member)


def _is_over(proof: EmailToken, member: Member, login: Login) -> bool:
    """Return whether the token is void because of something that happened after it was sent, such as a password change."""
    match proof.kind:
        case MailKind.UNDO:
            # A new password does not void the undo link: otherwise a thief who sets a new password could keep the owner from
            # undoing a change.
            ended = False
        case MailKind.RESET | MailKind.RECOVERY:
            ended = proof.generation != member.generation or login.email != proof.address
        case _:
            ended = proof.generation != member.generation
    return ended or any(since <= proof.id < until for since, until in login.voided)


async def notify_linked(writes: Writes, member: Member, provider: str) -> None:
    """Send a member a mail about a login provider that was linked to their account. Best effort.

    Former addresses that can still be restored get it too, because a thief may have changed the address.
    """
    login = await members.login_of(writes, member)
    if login is None:
        return
    batch, now = Batch(shard_of(member.id)), writes.new_id.now()
    addresses = [login.email, *(address for address, until in login.kept if until > now)]
    for to in filter(None, addresses):
        asked = writes.new_id(batch.shard)
        batch.emit(
            MailDue(kind=MailKind.PROVIDER_LINKED, asked=asked, member_id=member.id, address=to, passkey=provider)
        )
    if login.email:
        with contextlib.suppress(ShoalError):
            await writes.graph.commit(batch)


async def reset_password(writes: Writes, text: str, password: str, asker: Asker | None = None) -> Member:
    """Set a new password by a reset link from a mail. Every token and code of the member becomes invalid.

    If this is the first proof that the address is the member's, and the member has no second factor, passkeys and external ids
    that they linked themselves are removed.

    Raises `Gone` for an invalid link, and `TooShort` or `TooLarge` for a password of the wrong length.
    """
    proof, member = await proven(writes, text, MailKind.RESET)
    secret = await authentication.hashed(members.check_password(writes, password))

    def used(batch: Batch, now: Member) -> None:
        # Of two concurrent resets with different links, the second finds a newer generation than its own.
        if now.generation != proof.generation:
            raise Gone(_OVER)
        _use(writes, batch, proof)

    login = await members.login_of(writes, member)
    networks = authentication.prefixes_after(login, asker) if login is not None else ()
    theirs = writes.by(writes.actor.proved(member))
    verb = AuditVerb.PASSWORD_RESET
    await replace_password(theirs, member.id, secret, verb, networks=networks, extra=used, mailbox=proof.address)
    return await _access_as_is(writes, member.id)


async def recover(writes: Writes, text: str) -> Member:
    """Use up the link of a recovery mail, and return its member, who may log in. Raises `Gone` for an invalid link."""

    async def attempt() -> Member:
        proof, member = await proven(writes, text, MailKind.RECOVERY)
        batch = Batch(shard_of(member.id))
        _use(writes, batch, proof)
        await writes.graph.commit(batch)
        return member

    return await retry_on_conflict(attempt)


async def _access_as_is(writes: Writes, member_id: int) -> Member:
    """Return a member in any state, even suspended. Raises `Gone` if there is none."""
    member = await find_object(writes.graph, Member, member_id)
    if member is None:
        raise Gone(_OVER)
    return member


async def ask_confirmation(writes: Writes, member: Member, language: str = "") -> None:
    """Send the confirmation mail, for the first time or again. The link in this mail is valid for the full lifetime."""

    async def attempt() -> None:
        now = await _access_as_is(writes, member.id)
        login = await members.login_of(writes, now)
        batch = Batch(shard_of(member.id))
        asked = _emit(batch, writes, MailKind.CONFIRM, now, language=language)
        if login is not None and now.unconfirmed:
            until = milliseconds_of(asked) + EMAIL_TOKEN_MS[MailKind.CONFIRM]
            batch.obj_set(replace(login, confirm_by=until, version=login.version + 1))
        await writes.graph.commit(batch)

    await retry_on_conflict(attempt)


async def ask_change(
    writes: Writes, member_id: int, password: OwnerProof, address: str, language: str = "", asker: Asker | None = None
) -> None:
    """Send a mail to a new address, with a link that makes it the member's address.

    Raises `InvalidInput` for a wrong password or a malformed address, `Disallowed` for a blocked domain, `Taken` for an address
    in use (as signing up does), and `NotAllowed` if the member changed it too often.
    """
    address = check_email(address)
    member = await access_member(writes.graph, member_id)
    login = await members.login_of(writes, member)
    if not await authentication.is_owner(writes, member, password, asker):
        raise InvalidInput("the password is wrong", field="password")
    await blocklists.check_email(writes, address, asker.address if asker is not None else "")
    await members.check_free(writes, address, member_id)
    now = writes.new_id.now()
    if login is not None and sum(until > now for _, until in login.kept) >= _MAX_UNDOABLE:
        raise NotAllowed(_TOO_OFTEN)
    batch = Batch(shard_of(member_id))
    _emit(batch, writes, MailKind.CHANGE, member, address=address, language=language)
    await writes.graph.commit(batch)


async def confirm(writes: Writes, text: str) -> Member:
    """Apply the confirmation or change link of a mail: the address becomes the member's confirmed address.

    A member who waited only for this confirmation is admitted. Raises `Gone` for an invalid link, `Taken` if another member has
    the address by now, and `NotAllowed` if the member changed it too often.
    """
    if (await proven(writes, text, MailKind.CONFIRM, MailKind.CHANGE)).proof.kind is MailKind.CHANGE:
        return await _change(writes, await _change_of(writes, text, MailKind.CHANGE))

    async def attempt() -> Member:
        proof, member = await proven(writes, text, MailKind.CONFIRM)
        login = await members.login_of(writes, member)
        if login is None or login.email != proof.address:
            raise Gone(_OVER)
        batch = Batch(shard_of(member.id))
        batch.obj_set(replace(login, confirmed=True, needs_approval=False, version=login.version + 1))
        after = member
        if member.unconfirmed:
            waits = login.needs_approval
            hidden = waits or bool(member.departure_id)
            after = replace(member, unconfirmed=False, pending=waits, suspended=hidden, version=member.version + 1)
            batch.obj_set(after)
            batch.emit(ProfileChanged(member_id=member.id))
            if not hidden:
                batch.emit(SuspensionChanged(member_id=member.id))
                if after.follows_inviter:
                    await relationships.follow_inviter(writes, batch, after)
        _use(writes, batch, proof)
        await writes.graph.commit(batch)
        return after

    return await retry_on_conflict(attempt)


async def undo_change(writes: Writes, text: str, language: str = "") -> Member:
    """Restore the address that was replaced by a change, which may have been made by a thief.

    This invalidates the password and all passkeys, unlinks the external ids that the member linked, logs out every session, and
    sends a mail to reset the password, or to log in on a server without passwords. Raises `Gone` for an invalid link.
    """
    return await _change(writes, await _change_of(writes, text, MailKind.UNDO, language))


async def set_email(writes: Writes, member_id: int, address: str) -> Member:
    """Set a member's address without a mail, for operators. An empty `address` removes it.

    Links that would restore another address become invalid. Raises `InvalidInput` for a malformed address, `Taken` for an address
    in use, `NotFound` for an unknown member, and `Conflict` for a member without a login.
    """
    address = check_email(address) if address else ""
    member = await access_member(writes.graph, member_id)
    if await members.login_of(writes, member) is None:
        raise Conflict("this member has no login credentials")

    async def state() -> tuple[EmailToken | None, Member]:
        return None, await _access_as_is(writes, member_id)

    return await _change(writes, _Change(member_id, address, state))


class _Change(NamedTuple):
    """A requested change of an email address. `state` reads the token and the member again for each attempt to commit."""

    member_id: int
    address: str
    state: Callable[[], Awaitable[tuple[EmailToken | None, Member]]]
    language: str = ""


async def _change_of(writes: Writes, text: str, kind: MailKind, language: str = "") -> _Change:
    proof, member = await proven(writes, text, kind)

    async def state() -> tuple[EmailToken | None, Member]:
        return await proven(writes, text, kind)

    return _Change(member.id, proof.address, state, language)


class _Moved(NamedTuple):
    """The result of changing a login's email address: the login, addresses that become free, and the former address to notify."""

    login: Login
    freed: tuple[str, ...]
    notified: str = ""


async def _change(writes: Writes, requested: _Change) -> Member:
    """Change the email address of a member. The former address stays reserved for an undo link, or becomes free for others."""
    member_id, address = requested.member_id, requested.address
    shard = shard_of(member_id)
    if address:
        await members.hold_address(writes, address, member_id, writes.new_id.now())
    salt = await contact_salt(writes)
    ended = await sessions.all_ended(writes, member_id)

    async def attempt() -> tuple[Member, tuple[str, ...], list[ExternalLink]]:
        proof, member = await requested.state()
        login = await members.login_of(writes, member)
        if login is None:
            raise Gone(_OVER)
        batch, now = Batch(shard), writes.new_id(shard)
        theft = proof is not None and proof.kind is MailKind.UNDO
        moved = _moved(login, address, proof, now)
        email_hash = hash_address(salt, address) if member.email_hash and address else ""
        after = replace(
            member,
            email_hash=email_hash,
            generation=member.generation + theft,
            second_factor=moved.login.second is not None,
            version=member.version + 1,
        )
        batch.obj_set(moved.login)
        batch.obj_set(after)
        redeclare(batch, member, after, now)
        batch.emit(EmailChanged(member_id=member_id, address=address, freed=moved.freed))
        actor = writes.actor if proof is None else writes.actor.proved(member)
        theirs, unlinked = writes.by(actor), list[ExternalLink]()
        note(theirs, batch, _VERBS[proof.kind if proof is not None else None], member_target(member))
        if moved.notified:
            batch.emit(MailDue(kind=MailKind.UNDO, asked=now, member_id=member_id, address=moved.notified))
        if theft:
            batch.emit(ended)
            # A thief may also have linked a login provider, which suffices to log in.
            unlinked = await external_ids.unlink_own(theirs, batch, member)
            kind = MailKind.RESET if writes.limits.passwords else MailKind.RECOVERY
            _emit(batch, writes, kind, after, address=address, language=requested.language)
        if proof is not None:
            _use(writes, batch, proof)
        await writes.graph.commit(batch)
        return after, moved.freed, unlinked

    member, freed, unlinked = await retry_on_conflict(attempt)
    # If this call fails, the consumer of `EmailChanged` repeats it later: the change is committed.
    with contextlib.suppress(ShoalError):
        await _settle(writes, member_id, address, freed)
    with contextlib.suppress(ShoalError):
        await external_ids.free(writes, unlinked)
    return member


def _moved(login: Login, address: str, proof: EmailToken | None, now: int) -> _Moved:
    """Return the login with `address` as its email address. `now` is a new id, which contains the current time.

    A change that the member confirms by a mailed link (`proof`) can be undone for a while. Three kinds of changes cannot be
    undone: an undo, a change to an address that an undo link can restore, and a change by an operator. The first two also void
    the undo links created since the former change that replaced `address`; a change by an operator voids all undo links.
    Earlier undo links stay valid, so a thief who switches between several addresses cannot void the owner's link. Raises
    `NotAllowed` if the address changed too often.
    """
    at = milliseconds_of(now)
    if any(until - _UNDO_MS >= at for _, until in login.kept):
        # Changes are ordered by time. If two are within a millisecond, or clocks differ, the second one is refused.
        raise Conflict("the address was changed concurrently; try again")
    kept = {other: until for other, until in login.kept if until > at}
    ended = [other for other, until in login.kept if until <= at]
    voided = tuple(span for span in login.voided if milliseconds_of(span[1]) + _UNDO_MS > at)
    before = login.email if login.email not in ("", address) else ""
    changed = replace(login, email=address, confirmed=proof is not None, version=login.version + 1)
    if proof is not None and proof.kind is MailKind.CHANGE:
        if len(kept) >= _MAX_UNDOABLE or len(voided) >= _MAX_UNDOABLE:
            raise NotAllowed(_TOO_OFTEN)
        if address not in kept:
            kept |= {before: at + _UNDO_MS} if before else {}
            freed = tuple(other for other in ended if other != address and other not in kept)
            return _Moved(replace(changed, kept=tuple(kept.items()), voided=voided), freed, before)
        end = kept[address]
    elif proof is not None:
        # A thief who knew the password may have added a passkey long before the change. A passkey suffices to log in, so all
        # passkeys are removed.
        end = proof.expires_at
        second = login.second
        if second is not None and (second.since >= end - _UNDO_MS or not second.key):
            second = None
        changed = replace(changed, password="", networks=(), second=second, passkeys=())
    else:
        end = 0
    stays = {other: until for other, until in kept.items() if until < end and other != address}
    freed = tuple(other for other in (*ended, *kept, before) if other and other != address and other not in stays)
    since = floor_at(end - _UNDO_MS) if end else 1
    return _Moved(replace(changed, kept=tuple(stays.items()), voided=(*voided, (since, now))), freed)


async def _settle(writes: Writes, member_id: int, address: str, freed: Sequence[str]) -> None:
    now = writes.new_id.now()
    if address:
        await keep_address(writes.graph, member_id, address)
        await release_address(writes.graph, member_id, address, now)
    for former in freed:
        await release_address(writes.graph, member_id, former, now)


async def end(writes: Writes, proof: EmailToken) -> None:
    """Delete an expired email token.

    If it is an undo token, the address that it would restore becomes free. If it is a confirmation token of a member who is still
    unconfirmed, the member is deleted.
    """
    if proof.kind is MailKind.UNDO:
        await release_address(writes.graph, proof.member_id, proof.address, proof.expires_at)
    if proof.kind is MailKind.CONFIRM:
        await _end_unconfirmed(writes, proof)
    batch = Batch(shard_of(proof.id))
    _use(writes, batch, proof)
    await writes.graph.commit(batch)


async def _end_unconfirmed(writes: Writes, proof: EmailToken) -> None:
    member = await find_object(writes.graph, Member, proof.member_id)
    if member is None or not member.unconfirmed:
        return
    # The member may be approved or deleted concurrently. If the confirmation mail was sent again, the account stays until the
    # token of the last mail expires.
    with contextlib.suppress(NotAllowed, NotFound):
        await moderation.reject(writes, member.id, unconfirmed_at=proof.expires_at)


def _use(writes: Writes, batch: Batch, proof: EmailToken) -> None:
    batch.obj_del(proof.id, proof.version)
    take_off(batch, proof.ticket_id, writes.new_id(batch.shard))


def _emit(
    batch: Batch, writes: Writes, kind: MailKind, member: Member, *, address: str = "", language: str = ""
) -> int:
    """Emit the event for a mail whose link becomes invalid when the password changes. Return a new id, which contains the time."""
    asked = writes.new_id(batch.shard)
    batch.emit(
        MailDue(
            kind=kind,
            asked=asked,
            member_id=member.id,
            generation=member.generation,
            address=address,
            language=language,
        )
    )
    return asked

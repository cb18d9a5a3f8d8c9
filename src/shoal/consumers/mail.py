"""Write and send due mail, concurrently with later jobs.

The secret of a link is generated here, and its hash is committed before the mail is sent. If the job runs twice, it sends two mails
with different secrets for one token, and both links are valid until one is used.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from msgspec.structs import replace

from shoal.consumers.context import Effects
from shoal.core import events
from shoal.core.credentials import Login
from shoal.core.email import EMAIL_TOKEN_MS, EmailToken, MailKind, given_up_at
from shoal.core.ids import IdMaker, milliseconds_of, shard_of
from shoal.core.model import Member
from shoal.core.tokens import hash_of, new_secret, text_of
from shoal.graph.changes import put_on, retry_on_conflict
from shoal.graph.contract import Batch, Graph, IdTaken, find_object
from shoal.graph.member_lookup import login_of, member_called, release_address
from shoal.mail import messages
from shoal.mail.messages import About
from shoal.mail.sender import MailSender

_log = logging.getLogger("shoal.mail")

_SECRET_BYTES = 16
_LETTERS = 4
"""Maximum number of valid secrets per email token. There is more than one if its mail is written repeatedly."""


class Whom(NamedTuple):
    member: Member
    login: Login
    to: str


async def send(effects: Effects, event: events.MailDue, mark: int) -> asyncio.Future[None] | None:
    """Start sending a mail. It is dropped if mail is not configured, or after a day of failures."""
    mail_sender = effects.mail_sender
    if mail_sender is None:
        await _give_up(effects, event)
        return None
    if effects.new_id.now() >= given_up_at(event.kind, milliseconds_of(event.asked)):
        _log.warning("giving up on mail (%s) to member %d", event.kind, event.member_id)
        await _give_up(effects, event)
        return None
    return mail_sender.begin(event.asked, lambda: _send(effects, mail_sender, event))


async def _give_up(effects: Effects, event: events.MailDue) -> None:
    """Handle a mail that will never be sent.

    The address that an undo mail would have restored is released. The email token for an unconfirmed member is created without
    the mail: when it expires, after the full confirmation period, the account is deleted.
    """
    if event.kind is MailKind.UNDO:
        await _release(effects, event)
    elif event.kind is MailKind.CONFIRM:
        whom = await _recipient_of(effects.graph, event)
        if whom is not None and whom.member.unconfirmed:
            await prove(effects.graph, effects.new_id, event, whom)


async def _release(effects: Effects, event: events.MailDue) -> None:
    """Release the address that the link of an undo mail would restore, if this mail was not sent.

    If it was sent, its token exists, and the address is released when the token expires.
    """
    if event.asked not in await effects.graph.obj_get((event.asked,)):
        end = milliseconds_of(event.asked) + EMAIL_TOKEN_MS[MailKind.UNDO]
        await release_address(effects.graph, event.member_id, event.address, end)


async def _send(effects: Effects, mail_sender: MailSender, event: events.MailDue) -> None:
    whom = await _recipient_of(effects.graph, event)
    if whom is None:
        if event.kind is MailKind.UNDO:
            await _release(effects, event)
        return
    proof = await prove(effects.graph, effects.new_id, event, whom) if event.kind in EMAIL_TOKEN_MS else ""
    name, address = whom.member.name, whom.login.email
    at, passkey = milliseconds_of(event.asked), event.passkey
    about = About(event.kind, whom.to, name, at, proof, address, event.place, passkey, event.webhook, event.pause)
    letter = messages.write(mail_sender.stationery, about, event.language or whom.member.default_language)
    await mail_sender.deliver(event.asked, letter)


async def _recipient_of(graph: Graph, event: events.MailDue) -> Whom | None:
    """Return the recipient of a mail; None if there is no recipient or address, or if the mail is no longer needed."""
    if event.member_id:
        member = await find_object(graph, Member, event.member_id)
    else:
        member = await member_called(graph, event.account)
    login = await login_of(graph, member) if member is not None else None
    if member is None or login is None:
        return None
    to = event.address or login.email
    if not to or _is_obsolete(event, member, login):
        return None
    return Whom(member, login, to)


def _is_obsolete(event: events.MailDue, member: Member, login: Login) -> bool:
    """Return whether the mail has become unnecessary: its purpose is achieved, or a new password invalidated its link."""
    match event.kind:
        case MailKind.CONFIRM:
            # The confirmation mail of an unconfirmed member is never obsolete: it creates the token whose expiry deletes the
            # account.
            return login.confirmed or (event.generation != member.generation and not member.unconfirmed)
        case MailKind.CHANGE:
            return login.email == event.address or event.generation != member.generation
    return False


async def prove(graph: Graph, new_id: IdMaker, event: events.MailDue, whom: Whom) -> str:
    """Store the email token of a mail, or replace the secret of the existing one, and return the text for the link."""
    secret, shard = new_secret(_SECRET_BYTES), shard_of(whom.member.id)
    id_ = event.asked if shard_of(event.asked) == shard else new_id(shard)
    refused = 0

    async def attempt() -> str:
        nonlocal id_, refused
        token = (await graph.obj_get((id_,))).get(id_)
        if token is None and refused == id_:
            # No object has this id, but the commit failed with `IdTaken`: the id is in use for a ticket of the schedule.
            id_ = new_id(shard)
        batch = Batch(shard)
        if token is None:
            proof = _proof(event, whom, id_, hash_of(secret))
            batch.obj_add(proof)
            put_on(batch, proof.ticket_id, proof.expires_at, id_)
        elif isinstance(token, EmailToken) and (token.member_id, token.kind) == (whom.member.id, event.kind):
            hashes = (*token.secret_hashes[1 - _LETTERS :], hash_of(secret))
            batch.obj_set(replace(token, secret_hashes=hashes, version=token.version + 1))
        else:
            id_ = new_id(shard)
            raise IdTaken(token.id)
        try:
            await graph.commit(batch)
        except IdTaken as error:
            refused = error.id
            raise
        return text_of(id_, secret)

    return await retry_on_conflict(attempt)


def _proof(event: events.MailDue, whom: Whom, id_: int, secret_hash: bytes) -> EmailToken:
    return EmailToken(
        id=id_,
        member_id=whom.member.id,
        kind=event.kind,
        address=whom.to,
        secret_hashes=(secret_hash,),
        generation=event.generation if event.member_id else whom.member.generation,
        expires_at=milliseconds_of(event.asked) + EMAIL_TOKEN_MS[event.kind],
        ticket_id=id_,
    )

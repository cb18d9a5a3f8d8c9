"""Mail that is due is written and sent, beside the jobs that follow.

The secret of a link is made here, and its hash committed before the letter is handed over: a second run writes a second letter with
a link of its own, and both are good.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from shoal.core.bearer import hash_of, new_secret, text_of
from shoal.core.errors import Conflict, InvalidInput
from shoal.core.events import MailDue
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.mail import PROOF_MS, MailKind, Proof, given_up_at
from shoal.core.model import Login, Member
from shoal.core.text import check_email, check_user_name
from shoal.fanout.effects import Effects
from shoal.graph.addresses import free_address
from shoal.graph.contract import Batch, Graph, IdTaken
from shoal.graph.payloads.agenda import put_on
from shoal.graph.schema import Key, email_key, user_name_key
from shoal.mail import letters
from shoal.mail.letters import About
from shoal.mail.postman import Postman

_log = logging.getLogger("shoal.mail")

_SECRET_BYTES = 16
_TRIES = 16


class _Whom(NamedTuple):
    member: Member
    login: Login
    to: str


async def send(effects: Effects, event: MailDue, mark: int) -> asyncio.Future[None] | None:
    """Begin to send a mail. It is given up where no mail is set up, or when it could not be sent for a day."""
    postman = effects.postman
    now = milliseconds_of(effects.new_id(shard_of(event.member_id)))
    if postman is None or now >= given_up_at(event.kind, event.at):
        if postman is not None:
            _log.warning("a mail (%s) to member %d is given up", event.kind, event.member_id)
        if event.kind is MailKind.UNDO:
            # Nobody can have it back without the mail.
            await free_address(effects.graph, event.member_id, event.address)
        return None
    return postman.begin(lambda: _send(effects, postman, event))


async def _send(effects: Effects, postman: Postman, event: MailDue) -> None:
    whom = await _whom(effects.graph, event)
    if whom is None:
        return
    proof = await _prove(effects, event.kind, whom) if event.kind in PROOF_MS else ""
    name, address = whom.member.name, whom.login.email
    about = About(event.kind, whom.to, name, event.at, proof, address, event.place)
    await postman.deliver(letters.write(postman.stationery, about, event.language or whom.member.default_language))


async def _whom(graph: Graph, event: MailDue) -> _Whom | None:
    """Return whom the mail is for, and where it goes; None when there is nobody, or no need any more."""
    id_ = event.member_id or await _owner(graph, event.account)
    member = (await graph.obj_get((id_,))).get(id_) if id_ else None
    login = (await graph.obj_get((member.login_id,))).get(member.login_id) if isinstance(member, Member) else None
    if not isinstance(member, Member) or not isinstance(login, Login):
        return None
    to = event.address or login.email
    if not to or (event.kind is MailKind.CONFIRM and login.confirmed):
        return None
    return _Whom(member, login, to)


async def _owner(graph: Graph, account: str) -> int:
    """Return the id of the member who has this user name or e-mail address; 0 for nobody."""
    try:
        key: Key = (
            email_key(check_email(account))
            if "@" in account
            else user_name_key(check_user_name(account, reserved=True))
        )
    except InvalidInput:
        return 0
    return (await graph.key_get((key,))).get(key, 0)


async def _prove(effects: Effects, kind: MailKind, whom: _Whom) -> str:
    """Commit a proof, and return the text that its link carries."""
    secret, shard = new_secret(_SECRET_BYTES), shard_of(whom.member.id)
    for _ in range(_TRIES):
        id_ = effects.new_id(shard)
        proof = Proof(
            id=id_,
            member_id=whom.member.id,
            kind=kind,
            address=whom.to,
            secret_hash=hash_of(secret),
            generation=whom.member.generation,
            expires_at=milliseconds_of(id_) + PROOF_MS[kind],
            ticket_id=effects.new_id(shard),
        )
        batch = Batch(shard)
        batch.obj_add(proof)
        put_on(batch, proof.ticket_id, proof.expires_at, id_)
        try:
            await effects.graph.commit(batch)
        except IdTaken:
            continue
        return text_of(id_, secret)
    raise Conflict("no free id was found")

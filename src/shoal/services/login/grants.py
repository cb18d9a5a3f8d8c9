"""Authorization codes: a member lets an app in, and the app exchanges the code, once, for a token.

A code is bound to the app, the address it was sent to and, with PKCE, to a secret of the app's. What was used is kept until it
would have ended anyway: who exchanges it again is told no, and the token of the first exchange ends too, as one of the two
must have stolen the code (RFC 6749, 4.1.2).
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from shoal.core.audit import AuditVerb, member_target
from shoal.core.errors import Conflict, Unauthenticated
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Grant, Member, Token
from shoal.core.tokens import NOWHERE, Origin, fits, hash_of, new_secret, opened, text_of
from shoal.graph.contract import Batch
from shoal.graph.schema import EXPIRING
from shoal.services.audit import note
from shoal.services.login.apps import NewToken, put_token, revoke_token, use
from shoal.services.login.expiring_credentials import drop_expired, expired
from shoal.services.writes import Writes, add_node

LIFE_MS = 10 * 60_000
"""How long a code is good for."""

# With the id a multiple of three bytes, so that the text has no padding.
_CODE_BYTES = 25
_TOKEN_BYTES = 24
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")

_REFUSED = (
    "The provided authorization grant is invalid, expired, revoked, does not match the redirection URI used in the "
    "authorization request, or was issued to another client."
)


async def issue(
    writes: Writes, member: Member, app_id: int, scopes: Sequence[str], redirect_uri: str, challenge: str = ""
) -> str:
    """A code by which this app gets a token of the member with these scopes. `challenge` is that of PKCE, S256.

    The audit log has this, and not the exchange: an app may send that from a server of its own, whose address is not the member's.
    """
    await use(writes, app_id)
    secret = new_secret(_CODE_BYTES)
    shard = shard_of(member.id)
    old = await expired(writes, member.id)
    theirs = writes.by(writes.actor.proved(member))

    def build(id_: int) -> tuple[Grant, Batch]:
        grant = Grant(
            id=id_,
            app_id=app_id,
            member_id=member.id,
            scopes=tuple(scopes),
            redirect_uri=redirect_uri,
            challenge=challenge,
            secret_hash=hash_of(secret),
            generation=member.generation,
            expires_at=milliseconds_of(id_) + LIFE_MS,
        )
        batch = Batch(shard)
        batch.obj_add(grant)
        batch.assoc_add(member.id, EXPIRING, id_, id_)
        drop_expired(batch, member.id, old, id_)
        note(theirs, batch, AuditVerb.APP_AUTHORIZED, member_target(member), app=str(app_id))
        return grant, batch

    grant = await add_node(writes, shard, build)
    return text_of(grant.id, secret)


async def exchange(
    writes: Writes, app_id: int, code: str, redirect_uri: str, verifier: str, origin: Origin = NOWHERE
) -> NewToken:
    """The token that the code is good for. Raises `Unauthenticated`, the same for each thing that is wrong."""
    grant = await _grant(writes, app_id, code)
    if grant.token_id:
        await _take_back(writes, grant.token_id)
        raise Unauthenticated(_REFUSED)
    if not (grant.redirect_uri == redirect_uri and _proves(verifier, grant.challenge)):
        raise Unauthenticated(_REFUSED)
    await _check_member(writes, grant)
    shard, secret = shard_of(grant.member_id), new_secret(_TOKEN_BYTES)

    def build(id_: int) -> tuple[Token, Batch]:
        batch = Batch(shard)
        token = put_token(batch, id_, secret, app_id, grant.member_id, grant.scopes, grant.generation, origin)
        # Of two exchanges at once one finds that the grant is not what it was.
        batch.obj_set(msgspec.structs.replace(grant, token_id=id_, version=grant.version + 1))
        return token, batch

    try:
        token = await add_node(writes, shard, build)
    except Conflict:
        raise Unauthenticated(_REFUSED) from None
    return NewToken(token, text_of(token.id, secret))


async def _grant(writes: Writes, app_id: int, code: str) -> Grant:
    id_, secret = opened(code)
    node = (await writes.graph.obj_get((id_,))).get(id_) if len(secret) == _CODE_BYTES else None
    if not isinstance(node, Grant) or not fits(node.secret_hash, secret) or node.app_id != app_id:
        raise Unauthenticated(_REFUSED)
    return node


async def _check_member(writes: Writes, grant: Grant) -> None:
    """Refuse a code that has ended, or whose member changed their password or was shut out since."""
    member = (await writes.graph.obj_get((grant.member_id,))).get(grant.member_id)
    if (
        milliseconds_of(writes.new_id(shard_of(grant.id))) >= grant.expires_at
        or not isinstance(member, Member)
        or member.generation != grant.generation
        or member.suspended
        or member.disabled
    ):
        raise Unauthenticated(_REFUSED)


def _proves(verifier: str, challenge: str) -> bool:
    """PKCE (RFC 7636). A verifier where there was no challenge is refused: somebody may have taken the challenge away."""
    if not challenge:
        return not verifier
    digest = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=")
    return bool(_VERIFIER.fullmatch(verifier)) and hmac.compare_digest(digest, challenge.encode())


async def _take_back(writes: Writes, token_id: int) -> None:
    node = (await writes.graph.obj_get((token_id,))).get(token_id)
    if isinstance(node, Token):
        await revoke_token(writes, node)

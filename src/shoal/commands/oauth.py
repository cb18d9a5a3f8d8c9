"""OAuth: client apps, access tokens and authorization codes.

An authorization code is bound to the app, the redirect address and, with PKCE, a secret of the app. A used code is kept until
it expires: a second exchange is refused and revokes the token of the first, because one of the two callers must have stolen
the code (RFC 6749, section 4.1.2).

Adding a code or browser session deletes some of the member's expired codes and sessions, so they do not accumulate.

The use of a token is recorded once a day, in the background (`TokenUses`); a failure loses only that record. Recording a use also
revokes the member's tokens that were unused for too long.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import re
import secrets
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple

from msgspec.structs import asdict, replace

from shoal.commands.audit import note
from shoal.commands.context import Writes, add_node
from shoal.core.audit import AuditVerb, member_target
from shoal.core.errors import Conflict, InvalidInput, InvalidToken, Leaving, NotAllowed, Unauthenticated, Unconfirmed
from shoal.core.events import SessionsEnded
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import HALFWAY, App, AuthorizationCode, Member, ProductToken, Token
from shoal.core.placement import SHARDS
from shoal.core.text import check_text
from shoal.core.tokens import NOWHERE, Origin, TokenUse, decoded, fits, hash_of, new_secret, opened, text_of
from shoal.graph.access import access_member, objects_of
from shoal.graph.changes import change_object, put_on, retry_on_conflict, take_off
from shoal.graph.contract import Batch, Cursor, Reader, find_object
from shoal.graph.payloads.members import drop_login
from shoal.graph.schema import AGENDA, DUE_ON, EXPIRING, LOGGED_IN
from shoal.tasks import cancel

_log = logging.getLogger("shoal.logins")

BROWSER_MS = 14 * 86_400_000
"""Milliseconds that a browser stays logged in."""
HALFWAY_MS = 10 * 60_000
"""Milliseconds between a correct password and the second-factor code."""

_LOOKED_AT = 20
_DROPPED_AT_ONCE = 8
"""Expired credentials deleted in the commit that adds one: a DynamoDB transaction has at most 100 items, and each takes six."""


async def expired(writes: Writes, member_id: int) -> list[int]:
    """Return some of the member's expired tokens and codes, which the caller deletes when it adds a new one.

    The oldest and the newest are checked: a login that still lacks the second factor expires long before older sessions do.
    """
    graph = writes.graph
    oldest = await graph.assoc_range(member_id, EXPIRING, Cursor(limit=_LOOKED_AT, oldest_first=True))
    if not oldest:
        return []
    newest = await graph.assoc_range(member_id, EXPIRING, Cursor(limit=_LOOKED_AT)) if len(oldest) == _LOOKED_AT else []
    ids = list(dict.fromkeys([assoc.id2 for assoc in (*oldest, *newest)]))
    now = writes.new_id.now()
    found = await graph.obj_get(ids)
    return [id_ for id_ in ids if has_expired(found.get(id_), now)][:_DROPPED_AT_ONCE]


def has_expired(node: object, now: int) -> bool:
    """Return whether a token or code has expired by `now` (Unix ms). None counts as expired."""
    if isinstance(node, AuthorizationCode):
        return now >= node.expires_at
    if not isinstance(node, Token):
        return True
    lifetime = HALFWAY_MS if HALFWAY in node.scopes else BROWSER_MS
    return now >= (node.expires_at or milliseconds_of(node.id) + lifetime)


SECRET_BYTES = 24

UNUSED_MS = 86_400_000
"""Milliseconds for which an unused app is kept: any client can register apps."""

_UNKNOWN = "Client authentication failed due to unknown client, or no client authentication included"


class RegisteredApp(NamedTuple):
    """A client app and its secret, which is shown only once."""

    app: App
    secret: str


class Expiry(NamedTuple):
    """The end of a token for which a JWT of another product was exchanged."""

    at: int
    """When the token expires, in Unix milliseconds."""
    link_id: int
    """The link of the external id (`ExternalLink`), which must exist when the token is stored, and whose deletion revokes it."""


class NewToken(NamedTuple):
    token: Token
    text: str


class Bearer(NamedTuple):
    """A valid token and the member it belongs to; `member` is None for a token of the app alone."""

    token: Token
    member: Member | None


async def register(
    writes: Writes,
    name: str,
    *,
    redirect_uris: Sequence[str] = (),
    scopes: Sequence[str] = ("read",),
    website: str = "",
) -> RegisteredApp:
    """Register a client app on a random shard. The app is deleted after a day if no code or token was issued to it."""
    secret = new_secret(SECRET_BYTES)
    limits = writes.limits
    name = check_text(name, field="client_name", maximum=limits.app_name)
    if not name:
        raise InvalidInput("client_name: this must not be empty", field="client_name")
    website = check_text(website, field="website", maximum=limits.app_website)
    shard = secrets.randbelow(SHARDS)

    def build(id_: int) -> tuple[App, Batch]:
        app = App(
            id=id_,
            name=name,
            redirect_uris=tuple(redirect_uris),
            scopes=tuple(scopes),
            website=website,
            secret_hash=hash_of(secret),
            ticket_id=id_,
        )
        batch = Batch(shard)
        batch.obj_add(app)
        put_on(batch, app.ticket_id, milliseconds_of(id_) + UNUSED_MS, id_)
        return app, batch

    return RegisteredApp(await add_node(writes, shard, build), base64.urlsafe_b64encode(secret).decode())


async def keep_app(writes: Writes, app_id: int) -> None:
    """Keep the app permanently, because a code or token is about to be issued.

    Raises `Unauthenticated` if the app was just deleted.
    """
    app = await find_object(writes.graph, App, app_id)
    if app is None or app.kept:
        return

    async def read() -> App:
        now = await find_object(writes.graph, App, app_id)
        if now is None:
            raise Unauthenticated(_UNKNOWN)
        return now

    await change_object(
        writes.graph,
        read,
        lambda now: now if now.kept else replace(now, ticket_id=0, kept=True),
        lambda batch, before, _: take_off(batch, before.ticket_id, writes.new_id(batch.shard)),
    )


async def plan_end(writes: Writes, app_id: int) -> None:
    """Schedule the deletion of an app in a day, unless it has been used (`kept`) or its deletion is scheduled already."""

    async def attempt() -> None:
        app = await find_object(writes.graph, App, app_id)
        if app is None or app.kept:
            return
        planned = await writes.graph.assoc_get(app.ticket_id, (DUE_ON,), (AGENDA,)) if app.ticket_id else {}
        if planned.get(DUE_ON):
            return
        batch = Batch(shard_of(app_id))
        ticket = writes.new_id(batch.shard)
        batch.obj_set(replace(app, ticket_id=ticket, version=app.version + 1))
        put_on(batch, ticket, milliseconds_of(ticket) + UNUSED_MS, app_id)
        await writes.graph.commit(batch)

    await retry_on_conflict(attempt)


async def drop_unused(writes: Writes, app: App) -> None:
    """Delete an unused app. Raises `Conflict` if it was used concurrently."""
    batch = Batch(shard_of(app.id))
    batch.obj_del(app.id, app.version)
    take_off(batch, app.ticket_id, writes.new_id(batch.shard))
    await writes.graph.commit(batch)


async def check_app(graph: Reader, app_id: int, secret: str) -> App:
    """Return the app with this id and secret. Raises `Unauthenticated` if there is none."""
    app = await find_object(graph, App, app_id)
    if app is None or not fits(app.secret_hash, decoded(secret)):
        raise Unauthenticated(_UNKNOWN)
    return app


async def issue_token(
    writes: Writes,
    app_id: int,
    member_id: int,
    scopes: Sequence[str],
    *,
    generation: int | None = None,
    origin: Origin = NOWHERE,
    expiry: Expiry | None = None,
    **details: str,
) -> NewToken:
    """Issue a token of a member, or of the app alone if `member_id` is 0. `details` are added to its entry in the audit log.

    A caller that checked a password passes the `generation` of the member at that time, so that a concurrent password change
    invalidates this token too; None means the current generation.

    Raises `NotFound` if the link of the `expiry` was deleted.
    """
    if generation is not None:
        member = await find_object(writes.graph, Member, member_id)
    else:
        member = await access_member(writes.graph, member_id) if member_id else None
        generation = member.generation if member is not None else 0
    await keep_app(writes, app_id)
    # Tokens without an end are not listed as expiring, so they add no read.
    old = await expired(writes, member_id) if expiry else []

    def extra(batch: Batch, id_: int) -> None:
        for login in old:
            drop_login(batch, member_id, login, id_)
        if member is not None:
            theirs = writes.by(writes.actor.proved(member))
            note(theirs, batch, AuditVerb.LOGIN_SUCCEEDED, member_target(member), app=str(app_id), **details)

    return await add_token(writes, app_id, member_id, scopes, generation, origin, extra, expiry)


async def add_token(
    writes: Writes,
    app_id: int,
    member_id: int,
    scopes: Sequence[str],
    generation: int,
    origin: Origin,
    extra: Callable[[Batch, int], None],
    expiry: Expiry | None = None,
) -> NewToken:
    """Create a token for the client `origin`.

    `extra` is called with the batch and the id of the token, to add changes to the commit.
    """
    secret, shard = new_secret(SECRET_BYTES), shard_of(member_id or app_id)

    def build(id_: int) -> tuple[Token, Batch]:
        token = Token(
            id=id_,
            app_id=app_id,
            member_id=member_id,
            scopes=tuple(scopes),
            secret_hash=hash_of(secret),
            generation=generation,
            use=origin.first(milliseconds_of(id_)),
        )
        batch = Batch(shard)
        if expiry is not None:
            token = ProductToken(**asdict(token), expires_at=expiry.at, link_id=expiry.link_id)
            batch.expect(expiry.link_id)
        batch.obj_add(token)
        if HALFWAY not in token.scopes:
            batch.assoc_add(member_id or app_id, LOGGED_IN, id_, id_)
        if not app_id or expiry is not None:
            batch.assoc_add(member_id, EXPIRING, id_, id_)
        extra(batch, id_)
        return token, batch

    token = await add_node(writes, shard, build)
    return NewToken(token, text_of(token.id, secret))


async def check_token(writes: Writes, text: str) -> Bearer:
    """Return the token with this text and its member, with one read each. Raises `InvalidToken` if the token is not valid."""
    id_, secret = opened(text)
    graph = writes.graph
    token = (await graph.obj_get((id_,))).get(id_) if len(secret) == SECRET_BYTES else None
    if not isinstance(token, Token) or not fits(token.secret_hash, secret):
        raise InvalidToken
    if token.is_expired(writes.new_id.now(), writes.lifetime):
        raise InvalidToken
    if not token.member_id:
        return Bearer(token, None)
    member = (await graph.obj_get((token.member_id,))).get(token.member_id)
    if not isinstance(member, Member) or token.generation != member.generation:
        raise InvalidToken
    return Bearer(token, member)


def check_welcome(member: Member) -> None:
    """Raise `NotAllowed` if the member may not log in."""
    if member.departure_id and not member.disabled:
        raise Leaving("You asked for this account to be deleted")
    if member.suspended or member.disabled:
        if member.unconfirmed:
            raise Unconfirmed("Your login is missing a confirmed e-mail address")
        if member.pending:
            raise NotAllowed("Your login is currently pending approval")
        raise NotAllowed("Your login is currently disabled")


async def revoke_token(writes: Writes, token: Token) -> None:
    """Revoke a token. If two callers revoke it concurrently, only one writes an audit entry."""

    async def attempt() -> None:
        found = await writes.graph.obj_get((token.id, token.member_id))
        now, member = found.get(token.id), found.get(token.member_id)
        if not isinstance(now, Token):
            return
        batch = Batch(shard_of(token.member_id or token.app_id))
        drop_login(batch, now.member_id or now.app_id, now.id, writes.new_id(batch.shard), now.version)
        if token.member_id:
            batch.emit(SessionsEnded(member_id=token.member_id, token_ids=(token.id,)))
        if isinstance(member, Member) and HALFWAY not in token.scopes:
            note(writes, batch, AuditVerb.SESSION_ENDED, member_target(member), session=str(token.id))
        await writes.graph.commit(batch)

    await retry_on_conflict(attempt)


LIFE_MS = 10 * 60_000
"""Lifetime of a code."""

# With the id, a code has 33 bytes, a multiple of three, so its base64 text has no padding.
_CODE_BYTES = 25
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")

_REFUSED = (
    "The provided authorization grant is invalid, expired, revoked, does not match the redirection URI used in the "
    "authorization request, or was issued to another client."
)


async def issue_code(
    writes: Writes, member: Member, app_id: int, scopes: Sequence[str], redirect_uri: str, challenge: str = ""
) -> str:
    """Issue an authorization code for these scopes. `challenge` is the PKCE challenge (S256).

    The audit log records this step and not the exchange, because an app may exchange the code from its own server, whose address
    is not the member's.
    """
    await keep_app(writes, app_id)
    secret = new_secret(_CODE_BYTES)
    shard = shard_of(member.id)
    old = await expired(writes, member.id)
    theirs = writes.by(writes.actor.proved(member))

    def build(id_: int) -> tuple[AuthorizationCode, Batch]:
        grant = AuthorizationCode(
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
        for login in old:
            drop_login(batch, member.id, login, id_)
        note(theirs, batch, AuditVerb.APP_AUTHORIZED, member_target(member), app=str(app_id))
        return grant, batch

    grant = await add_node(writes, shard, build)
    return text_of(grant.id, secret)


async def exchange_code(
    writes: Writes, app_id: int, code: str, redirect_uri: str, verifier: str, origin: Origin = NOWHERE
) -> NewToken:
    """Exchange an authorization code for a token. Raises `Unauthenticated`, with one message for every reason."""
    grant = await _grant(writes, app_id, code)
    if grant.token_id:
        if (stolen := await find_object(writes.graph, Token, grant.token_id)) is not None:
            await revoke_token(writes, stolen)
        raise Unauthenticated(_REFUSED)
    if not (grant.redirect_uri == redirect_uri and _proves(verifier, grant.challenge)):
        raise Unauthenticated(_REFUSED)
    await _check_member(writes, grant)

    def extra(batch: Batch, token_id: int) -> None:
        # If there are two concurrent exchanges, the second one conflicts, because the code has changed.
        batch.obj_set(replace(grant, token_id=token_id, version=grant.version + 1))

    try:
        return await add_token(writes, app_id, grant.member_id, grant.scopes, grant.generation, origin, extra)
    except Conflict:
        raise Unauthenticated(_REFUSED) from None


async def _grant(writes: Writes, app_id: int, code: str) -> AuthorizationCode:
    id_, secret = opened(code)
    grant = await find_object(writes.graph, AuthorizationCode, id_) if len(secret) == _CODE_BYTES else None
    if grant is None or not fits(grant.secret_hash, secret) or grant.app_id != app_id:
        raise Unauthenticated(_REFUSED)
    return grant


async def _check_member(writes: Writes, grant: AuthorizationCode) -> None:
    """Raise `Unauthenticated` if a code has expired, or if its member was locked out or changed the password since."""
    member = await find_object(writes.graph, Member, grant.member_id)
    if (
        writes.new_id.now() >= grant.expires_at
        or member is None
        or member.generation != grant.generation
        or member.suspended
        or member.disabled
    ):
        raise Unauthenticated(_REFUSED)


def _proves(verifier: str, challenge: str) -> bool:
    """Check PKCE (RFC 7636). A verifier without a challenge is refused: an attacker may have removed the challenge."""
    if not challenge:
        return not verifier
    digest = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=")
    return bool(_VERIFIER.fullmatch(verifier)) and hmac.compare_digest(digest, challenge.encode())


_PAUSE_SECONDS = 1.0
"""Delay before uses are written, so that the store can commit several uses together."""
_MOST_PENDING = 10_000
"""Maximum number of pending uses. A use beyond that is recorded at a later request with the token."""
_AT_ONCE = 32
_UNUSED_LOOKED_AT = 20
"""Number of the member's oldest tokens that are checked for disuse."""


class TokenUses:
    """A recorder that writes the uses of tokens in the background. No startup call is needed.

    In a reader process, `tell` passes uses to the owner process. Until the owner has written a use, this may happen for every
    request with the token.
    """

    def __init__(self, writes: Writes, tell: Callable[[int, Origin], None] | None = None) -> None:
        self.writes = writes
        self._tell = tell
        self._pending: dict[int, tuple[Token, TokenUse]] = {}
        self._task: asyncio.Task[None] | None = None

    def note(self, token: Token, origin: Callable[[], Origin]) -> None:
        """Record that a token is being used, without waiting for the write.

        Most calls write nothing, as a use is recorded once a day.
        """
        now = self.writes.new_id.now()
        if not token.use.is_due(now) or token.id in self._pending or len(self._pending) >= _MOST_PENDING:
            return
        if self._tell is not None:
            self._tell(token.id, origin())
            return
        self._pending[token.id] = token, origin().after(token.use, now)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="shoal-token-uses")

    async def flush(self) -> None:
        while self._pending:
            uses = [self._pending.pop(id_) for id_ in list(self._pending)[:_AT_ONCE]]
            await asyncio.gather(*(self._write(token, use) for token, use in uses))

    async def close(self) -> None:
        await cancel(self._task)

    async def _run(self) -> None:
        while self._pending:
            await asyncio.sleep(_PAUSE_SECONDS)
            await self.flush()

    async def _write(self, token: Token, use: TokenUse) -> None:
        try:
            await self._store(token, use)
        except Exception as error:  # noqa: BLE001 (a token revoked concurrently, or an unavailable store)
            _log.debug("recording that an access token was used failed: %s", error)

    async def _store(self, token: Token, use: TokenUse) -> None:
        graph, owner = self.writes.graph, token.member_id or token.app_id
        listed = await graph.assoc_range(owner, LOGGED_IN, Cursor(limit=_UNUSED_LOOKED_AT, oldest_first=True))
        batch = Batch(shard_of(owner))
        batch.obj_set(replace(token, use=use, version=token.version + 1))
        for other in await objects_of(graph, Token, [assoc.id2 for assoc in listed if assoc.id2 != token.id]):
            if other.is_expired(use.at, self.writes.lifetime):
                drop_login(batch, owner, other.id, self.writes.new_id(batch.shard))
        await graph.commit(batch)

"""Server keys: named secrets with scopes, by which the backend of another product calls the API.

A server key is an app with tokens of its own: one, or two while a replaced secret is still valid. App, tokens, name and list entry
are on one shard, so each change is one commit. Only hashes of the secrets are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from shoal.commands.audit import note
from shoal.commands.context import Writes, add_node
from shoal.commands.oauth import SECRET_BYTES
from shoal.core.audit import AuditTarget, AuditVerb, TargetKind
from shoal.core.errors import InvalidInput, NotFound, Taken, Unfit
from shoal.core.events import SessionsEnded
from shoal.core.ids import milliseconds_of, now_ms, shard_of
from shoal.core.model import App, ProductToken, Token
from shoal.core.text import check_text
from shoal.core.tokens import TokenUse, hash_of, new_secret, text_of
from shoal.core.webhooks import MAX_WEBHOOKS, Pause, Webhook
from shoal.graph.access import count_of, objects_of
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, Cursor, KeyTaken, Reader, find_object
from shoal.graph.payloads.members import drop_login
from shoal.graph.schema import EVERYBODY, LOGGED_IN, SERVER_KEYS, WEBHOOKS, server_key_key

MAX_KEYS = 100
MAX_NAME = 100
MAX_GRACE_SECONDS = 30 * 86_400
"""Maximum of the time for which a replaced secret stays valid."""
DEFAULT_GRACE_SECONDS = 86_400

_SHARD = shard_of(EVERYBODY)
_MAX_TOKENS = 8


class KeyDetails(NamedTuple):
    """A server key, without its secret. Times are in Unix milliseconds."""

    name: str
    scopes: tuple[str, ...]
    created_at: int
    used_at: int
    """Time of the last use, at most a day earlier than the true one; 0 for never."""
    used_from: str
    """The IP address of the last recorded use."""
    replaced_until: int
    """When the replaced secret expires; 0 if there is none."""


class NewKey(NamedTuple):
    """A server key with its new secret, which cannot be read again."""

    name: str
    secret: str


async def create(writes: Writes, name: str, scopes: Sequence[str]) -> NewKey:
    """Create a server key with these scopes, which the caller has checked.

    Raises `Taken` for a name in use, `InvalidInput` for an empty or long name, and `Unfit` if there are too many keys.
    """
    name = check_text(name, field="name", maximum=MAX_NAME)
    if not name:
        raise InvalidInput("name: this must not be empty", field="name")
    # Concurrent additions may exceed the limit slightly, which is harmless.
    if await count_of(writes.graph, EVERYBODY, SERVER_KEYS) >= MAX_KEYS:
        raise Unfit(f"there are {MAX_KEYS} server keys already, which is the maximum")
    secret = new_secret(SECRET_BYTES)
    token_ids: list[int] = []

    def build(id_: int) -> tuple[App, Batch]:
        app = App(id=id_, name=name, scopes=tuple(scopes), kept=True, server_key=True)
        batch = Batch(_SHARD)
        batch.key_add(server_key_key(name), id_)
        batch.obj_add(app)
        batch.assoc_add(EVERYBODY, SERVER_KEYS, id_, id_)
        token_ids[:] = [_add_token(writes, batch, app, secret)]
        note(writes, batch, AuditVerb.SERVER_KEY_CREATED, _target(app), scopes=" ".join(scopes))
        return app, batch

    try:
        await add_node(writes, _SHARD, build)
    except KeyTaken as error:
        raise Taken(f"name: there is a server key {name!r} already", field="name") from error
    return NewKey(name, text_of(token_ids[0], secret))


async def keys(graph: Reader) -> list[KeyDetails]:
    """Return all server keys, newest first."""
    listed = await graph.assoc_range(EVERYBODY, SERVER_KEYS, Cursor(limit=2 * MAX_KEYS))
    apps = await objects_of(graph, App, [assoc.id2 for assoc in listed])
    return [await details(graph, app) for app in apps]


async def details(graph: Reader, app: App) -> KeyDetails:
    tokens, now = await _tokens(graph, app.id), now_ms()
    last = max((token.use for token in tokens), key=lambda use: use.at, default=TokenUse())
    return KeyDetails(
        name=app.name,
        scopes=app.scopes,
        created_at=milliseconds_of(app.id),
        used_at=last.at,
        used_from=last.used_from,
        replaced_until=max((token.expires_at for token in tokens if token.expires_at > now), default=0),
    )


async def rotate(writes: Writes, name: str, grace_seconds: int = DEFAULT_GRACE_SECONDS) -> NewKey:
    """Create a new secret of a key. The current secret stays valid for `grace_seconds`, and any earlier one becomes invalid now.

    Raises `NotFound` for an unknown key, and `InvalidInput` for an invalid time.
    """
    if not 0 <= grace_seconds <= MAX_GRACE_SECONDS:
        raise InvalidInput(f"grace: 0 to {MAX_GRACE_SECONDS} seconds (got {grace_seconds})", field="grace")
    secret = new_secret(SECRET_BYTES)

    async def attempt() -> NewKey:
        app = await _named(writes.graph, name)
        tokens = await _tokens(writes.graph, app.id)
        kept = tokens[:1] if grace_seconds else []
        batch = Batch(_SHARD)
        # The new version makes concurrent rotations conflict.
        batch.obj_set(replace(app, version=app.version + 1))
        token_id = _add_token(writes, batch, app, secret)
        for token in kept:
            until = writes.new_id.now() + grace_seconds * 1_000
            batch.obj_set(replace(token, expires_at=until, version=token.version + 1))
        _drop(writes, batch, app, tokens[len(kept) :])
        note(writes, batch, AuditVerb.SERVER_KEY_ROTATED, _target(app), grace=grace_seconds)
        await writes.graph.commit(batch)
        return NewKey(app.name, text_of(token_id, secret))

    return await retry_on_conflict(attempt)


async def delete(writes: Writes, name: str) -> None:
    """Delete a key, whose secrets become invalid, and pause its webhooks permanently. Raises `NotFound` for an unknown key."""

    async def attempt() -> None:
        app = await _named(writes.graph, name)
        batch = Batch(_SHARD)
        batch.obj_del(app.id, app.version)
        batch.key_del(server_key_key(app.name), app.id)
        batch.assoc_del(EVERYBODY, SERVER_KEYS, app.id, writes.new_id(_SHARD))
        _drop(writes, batch, app, await _tokens(writes.graph, app.id))
        listed = await writes.graph.assoc_range(EVERYBODY, WEBHOOKS, Cursor(limit=2 * MAX_WEBHOOKS))
        for webhook in await objects_of(writes.graph, Webhook, [assoc.id2 for assoc in listed]):
            if webhook.key_id == app.id:
                batch.obj_set(replace(webhook, paused=Pause.NO_KEY, version=webhook.version + 1))
        note(writes, batch, AuditVerb.SERVER_KEY_DELETED, _target(app))
        await writes.graph.commit(batch)

    await retry_on_conflict(attempt)


def _add_token(writes: Writes, batch: Batch, app: App, secret: bytes) -> int:
    id_ = writes.new_id(_SHARD)
    batch.fresh.add(id_)
    token = ProductToken(id=id_, app_id=app.id, scopes=app.scopes, secret_hash=hash_of(secret), server_key=True)
    batch.obj_add(token)
    batch.assoc_add(app.id, LOGGED_IN, id_, id_)
    return id_


def _drop(writes: Writes, batch: Batch, app: App, tokens: Sequence[Token]) -> None:
    for token in tokens:
        drop_login(batch, app.id, token.id, writes.new_id(_SHARD), token.version)
    if tokens:
        batch.emit(SessionsEnded(member_id=0, token_ids=tuple(token.id for token in tokens)))


async def _named(graph: Reader, name: str) -> App:
    key = server_key_key(name)
    app = await find_object(graph, App, (await graph.key_get((key,))).get(key, 0))
    if app is None:
        raise NotFound(f"there is no server key {name!r}")
    return app


async def _tokens(graph: Reader, app_id: int) -> list[ProductToken]:
    """Return the tokens of a key, newest first."""
    listed = await graph.assoc_range(app_id, LOGGED_IN, Cursor(limit=_MAX_TOKENS))
    return await objects_of(graph, ProductToken, [assoc.id2 for assoc in listed])


def _target(app: App) -> AuditTarget:
    return AuditTarget(TargetKind.SERVER_KEY, app.id, app.name)

"""Client apps and their tokens. Secrets are random and long; only their hashes are kept."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from shoal.core.errors import Unauthenticated
from shoal.core.ids import shard_of
from shoal.core.model import App, Token
from shoal.core.placement import SHARDS
from shoal.core.text import check_text
from shoal.graph.contract import Batch, Reader
from shoal.graph.schema import LOGGED_IN
from shoal.services.writes import Writes, add_node

_SECRET_BYTES = 24


class NewApp(NamedTuple):
    """An app and the secret that is shown this once."""

    app: App
    secret: str


class NewToken(NamedTuple):
    """A token and the text that its bearer shows."""

    token: Token
    text: str


async def register(
    writes: Writes,
    name: str,
    *,
    redirect_uris: Sequence[str] = (),
    scopes: Sequence[str] = ("read",),
    website: str = "",
) -> NewApp:
    """A new client app, on a shard by chance."""
    secret = secrets.token_bytes(_SECRET_BYTES)
    limits = writes.limits
    name = check_text(name, field="client_name", maximum=limits.app_name)
    website = check_text(website, field="website", maximum=limits.app_website)
    shard = secrets.randbelow(SHARDS)

    def build(id_: int) -> tuple[App, Batch]:
        app = App(
            id=id_,
            name=name,
            redirect_uris=tuple(redirect_uris),
            scopes=tuple(scopes),
            website=website,
            secret_hash=_hash(secret),
        )
        batch = Batch(shard)
        batch.obj_add(app)
        return app, batch

    return NewApp(await add_node(writes, shard, build), base64.urlsafe_b64encode(secret).decode())


async def check_app(graph: Reader, app_id: int, secret: str) -> App:
    """The app with this id and secret. Raises `Unauthenticated`."""
    node = (await graph.obj_get((app_id,))).get(app_id)
    if not isinstance(node, App) or not _fits(node.secret_hash, _decoded(secret)):
        raise Unauthenticated(
            "Client authentication failed due to unknown client, or no client authentication included"
        )
    return node


async def issue_token(writes: Writes, app_id: int, member_id: int, scopes: Sequence[str]) -> NewToken:
    """A new token: of a member, or of the app alone when `member_id` is 0."""
    secret = secrets.token_bytes(_SECRET_BYTES)
    owner = member_id or app_id
    shard = shard_of(owner)

    def build(id_: int) -> tuple[Token, Batch]:
        token = Token(id=id_, app_id=app_id, member_id=member_id, scopes=tuple(scopes), secret_hash=_hash(secret))
        batch = Batch(shard)
        batch.obj_add(token)
        batch.assoc_add(owner, LOGGED_IN, id_, id_)
        return token, batch

    token = await add_node(writes, shard, build)
    return NewToken(token, base64.urlsafe_b64encode(token.id.to_bytes(8) + secret).decode())


async def check_token(graph: Reader, text: str) -> Token:
    """The token that this text is of: one read. Raises `Unauthenticated`."""
    raw = _decoded(text)
    id_ = int.from_bytes(raw[:8])
    if len(raw) == 8 + _SECRET_BYTES and id_ < 1 << 63:
        node = (await graph.obj_get((id_,))).get(id_)
        if isinstance(node, Token) and _fits(node.secret_hash, raw[8:]):
            return node
    raise Unauthenticated("The access token is invalid")


async def revoke_token(writes: Writes, token: Token) -> None:
    """The token is worth nothing from now on."""
    owner = token.member_id or token.app_id
    batch = Batch(shard_of(owner))
    batch.obj_del(token.id)
    batch.assoc_del(owner, LOGGED_IN, token.id, writes.new_id(batch.shard))
    await writes.graph.commit(batch)


def _hash(secret: bytes) -> bytes:
    return sha256(secret).digest()


def _fits(stored: bytes, secret: bytes) -> bool:
    return hmac.compare_digest(stored, _hash(secret))


def _decoded(text: str) -> bytes:
    """The bytes that were shown; none, when they are not even well-formed."""
    if len(text) > 100 or not text.isascii():
        return b""
    try:
        return base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""

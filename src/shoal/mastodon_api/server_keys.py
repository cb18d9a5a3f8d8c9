"""The server key of a request, as described to its holder. Mastodon has no equivalent."""

from __future__ import annotations

import msgspec

from shoal.commands import server_keys
from shoal.mastodon_api.context import Context, Router
from shoal.mastodon_api.entities.serializers import moment
from shoal.mastodon_api.oauth import app_of

router = Router(auth="server", limit_class="server")


class ServerKeyEntity(msgspec.Struct, kw_only=True):
    """A server key, without its secret."""

    name: str
    scopes: list[str]
    created_at: str
    last_used_at: str | None
    """The time of the last use, at most a day earlier than the true one; null if no use was recorded."""
    replaced_until: str | None
    """When the secret that the last rotation replaced expires; null if there is none."""


@router.get("/api/shoal/v1/server_key", answer=ServerKeyEntity)
async def show_key(context: Context, _params: None) -> object:
    """Show the server key that makes the request."""
    key = await server_keys.details(context.app.graph, await app_of(context.app, context.caller.app_id))
    return ServerKeyEntity(
        name=key.name,
        scopes=list(key.scopes),
        created_at=moment(key.created_at),
        last_used_at=moment(key.used_at) if key.used_at else None,
        replaced_until=moment(key.replaced_until) if key.replaced_until else None,
    )

"""Client programs and their tokens as they stand on the wire of the Mastodon API."""

from __future__ import annotations

import msgspec


class Application(msgspec.Struct, kw_only=True):
    """A client program, for anybody who has a token of it."""

    id: str
    name: str
    website: str | None
    scopes: list[str]
    redirect_uris: list[str]
    redirect_uri: str
    vapid_key: str = ""


class CredentialApplication(Application, kw_only=True):
    """A client program with its secret, once."""

    client_id: str
    client_secret: str
    client_secret_expires_at: int = 0


class Token(msgspec.Struct):
    """A bearer token; `created_at` in Unix seconds."""

    access_token: str
    token_type: str
    scope: str
    created_at: int

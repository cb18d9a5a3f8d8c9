"""Tokens: for a member's password, for an app alone; and their end. Errors are those of RFC 6749 and 7009."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request

from shoal.api import present, scopes
from shoal.api.calls import Context
from shoal.api.errors import OAuthRefused
from shoal.api.front import Front
from shoal.api.replies import Reply
from shoal.core.errors import InvalidInput, Unauthenticated
from shoal.core.ids import MAX_ID
from shoal.core.model import App
from shoal.services import apps, members

_Word = Annotated[str, Meta(max_length=2_000)]
_NO_STORE = (("Cache-Control", "no-store"), ("Pragma", "no-cache"))


class TokenRequest(msgspec.Struct, frozen=True):
    """What a client asks a token with; what a grant needs and is not there is told in OAuth's own words."""

    grant_type: _Word = ""
    client_id: _Word = ""
    client_secret: _Word = ""
    scope: _Word = ""
    username: _Word = ""
    password: _Word = ""


class Revocation(msgspec.Struct, frozen=True):
    """Which token ends, and whose it is."""

    token: _Word = ""
    client_id: _Word = ""
    client_secret: _Word = ""


async def token(context: Context, params: TokenRequest) -> object:
    """A new token for each time it is asked for."""
    front: Front = context.deps
    grant = _GRANTS.get(params.grant_type)
    if not params.grant_type:
        raise OAuthRefused("invalid_request", "Missing required parameter: grant_type")
    if grant is None or (params.grant_type == "password" and not front.settings.password_grant):
        raise OAuthRefused(
            "unsupported_grant_type", "The authorization grant type is not supported by the authorization server"
        )
    app = await _client(front, context.request, params)
    asked = _scopes(params.scope, app)
    member_id = await grant(front, params)
    made = await apps.issue_token(front.writes, app.id, member_id, asked)
    return Reply(present.token(*made), headers=_NO_STORE)


async def _by_password(front: Front, params: TokenRequest) -> int:
    if not params.username or not params.password:
        raise OAuthRefused("invalid_request", "Missing required parameter: username and password")
    try:
        return (await members.log_in(front.writes, params.username, params.password)).id
    except Unauthenticated as error:
        raise OAuthRefused("invalid_grant", str(error)) from None


async def _by_app_alone(_front: Front, _params: TokenRequest) -> int:
    return 0


_GRANTS: dict[str, Callable[[Front, TokenRequest], Awaitable[int]]] = {
    "password": _by_password,
    "client_credentials": _by_app_alone,
}
"""Each says whose token it will be: a member's, or nobody's (0)."""


async def revoke(context: Context, params: Revocation) -> object:
    """The token ends. One that is unknown has ended already; one of another app's is not the caller's to end."""
    front: Front = context.deps
    app = await _client(front, context.request, params)
    if not params.token:
        raise OAuthRefused("invalid_request", "Missing required parameter: token")
    try:
        found = await apps.check_token(front.graph, params.token)
    except Unauthenticated:
        return {}
    if found.app_id != app.id:
        raise OAuthRefused("unauthorized_client", "You are not authorized to revoke this token", status=403)
    await apps.revoke_token(front.writes, found)
    return {}


async def _client(front: Front, request: Request, params: TokenRequest | Revocation) -> App:
    """The app, by what stands in the body or in HTTP Basic."""
    id_text, secret = params.client_id, params.client_secret
    if not id_text:
        id_text, secret = _basic(request.headers.get("authorization", ""))
    digits = id_text.isascii() and id_text.isdigit() and len(id_text) < 20
    try:
        return await apps.check_app(front.graph, min(int(id_text), MAX_ID) if digits else 0, secret)
    except Unauthenticated as error:
        raise OAuthRefused("invalid_client", str(error), status=401) from None


def _basic(header: str) -> tuple[str, str]:
    kind, _, encoded = header.partition(" ")
    if kind.lower() != "basic":
        return "", ""
    try:
        name, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return name, secret


def _scopes(asked: str, app: App) -> tuple[str, ...]:
    try:
        return scopes.check_subset(scopes.parse(asked), app.scopes)
    except InvalidInput as error:
        raise OAuthRefused("invalid_scope", str(error)) from None

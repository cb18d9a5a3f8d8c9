"""Tokens: for a code, for a member's password, for an app alone; and their end. Errors are those of RFC 6749 and 7009."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import unquote_plus

import msgspec
from msgspec import Meta
from starlette.requests import Request

from shoal.api import rows
from shoal.api.context import Context, Front
from shoal.api.entities import presenter
from shoal.api.entities.clients import Token
from shoal.api.http import scopes
from shoal.api.http.authentication import origin_of_request
from shoal.api.http.errors import OAuthRefused
from shoal.api.http.replies import Reply
from shoal.api.login import guesses
from shoal.commands import oauth
from shoal.commands.oauth import NewToken
from shoal.core.errors import InvalidInput, NotAllowed, Unauthenticated
from shoal.core.ids import MAX_ID
from shoal.core.model import App
from shoal.settings import Settings

_Word = Annotated[str, Meta(max_length=2_000)]
_NO_STORE = (("Cache-Control", "no-store"), ("Pragma", "no-cache"))


class TokenRequest(msgspec.Struct, frozen=True):
    """A request for a token. If the grant needs a field that is missing, the error is in OAuth's own words."""

    grant_type: _Word = ""
    client_id: _Word = ""
    client_secret: _Word = ""
    scope: _Word = ""
    username: _Word = ""
    password: _Word = ""
    code: _Word = ""
    redirect_uri: _Word = ""
    code_verifier: _Word = ""


class Revocation(msgspec.Struct, frozen=True):
    """Which token ends, and whose it is."""

    token: _Word = ""
    client_id: _Word = ""
    client_secret: _Word = ""


async def token(context: Context, params: TokenRequest) -> object:
    """A new token for each time it is asked for."""
    front = context.deps
    grant = _GRANTS.get(params.grant_type)
    if not params.grant_type:
        raise OAuthRefused("invalid_request", "Missing required parameter: grant_type")
    if grant is None or params.grant_type not in grant_types(front.settings):
        raise OAuthRefused(
            "unsupported_grant_type", "The authorization grant type is not supported by the authorization server"
        )
    app = await _client(front, context.request, params)
    return Reply(presenter.token(*await grant(context, app, params)), headers=_NO_STORE)


async def _by_code(context: Context, app: App, params: TokenRequest) -> NewToken:
    """The scopes are those that the member was asked for, whatever stands here."""
    front = context.deps
    if not params.code or not params.redirect_uri:
        raise OAuthRefused("invalid_request", "Missing required parameter: code and redirect_uri")
    try:
        origin = origin_of_request(context.request)
        return await oauth.exchange_code(
            front.writes, app.id, params.code, params.redirect_uri, params.code_verifier, origin
        )
    except Unauthenticated as error:
        raise OAuthRefused("invalid_grant", str(error)) from None


async def _by_password(context: Context, app: App, params: TokenRequest) -> NewToken:
    front = context.deps
    if not params.username or not params.password:
        raise OAuthRefused("invalid_request", "Missing required parameter: username and password")
    asked = _scopes(params.scope, app)
    try:
        member = await guesses.log_in(context, params.username, params.password)
    except (Unauthenticated, NotAllowed) as error:
        raise OAuthRefused("invalid_grant", str(error)) from None
    origin = origin_of_request(context.request)
    return await oauth.issue_token(front.writes, app.id, member.id, asked, generation=member.generation, origin=origin)


async def _by_app_alone(context: Context, app: App, params: TokenRequest) -> NewToken:
    front = context.deps
    origin = origin_of_request(context.request)
    return await oauth.issue_token(front.writes, app.id, 0, _scopes(params.scope, app), origin=origin)


_GRANTS: dict[str, Callable[[Context, App, TokenRequest], Awaitable[NewToken]]] = {
    "authorization_code": _by_code,
    "password": _by_password,
    "client_credentials": _by_app_alone,
}
"""Grants that a client may exchange for a token, by their names in OAuth."""


def grant_types(settings: Settings) -> list[str]:
    """Return the names of the grants that this server takes."""
    return [name for name in _GRANTS if name != "password" or settings.password_grant]


async def revoke(context: Context, params: Revocation) -> object:
    """The token ends. One that is unknown has ended already; one of another app's is not the caller's to end."""
    front = context.deps
    app = await _client(front, context.request, params)
    if not params.token:
        raise OAuthRefused("invalid_request", "Missing required parameter: token")
    try:
        found, member = await oauth.check_token(front.writes, params.token)
    except Unauthenticated:
        return {}
    if found.app_id != app.id:
        raise OAuthRefused("unauthorized_client", "You are not authorized to revoke this token", status=403)
    actor = front.writes.actor if member is None else front.writes.actor.proved(member)
    await oauth.revoke_token(front.writes.by(actor), found)
    return {}


async def _client(front: Front, request: Request, params: TokenRequest | Revocation) -> App:
    """The app, by what stands in HTTP Basic or in the body.

    Clients that use Basic may name themselves in the body as well (RFC 6749, 3.2.1), but not as somebody else.
    """
    id_text, secret = _basic(request.headers.get("authorization", ""))
    if not id_text:
        id_text, secret = params.client_id, params.client_secret
    elif params.client_id not in {"", id_text} or params.client_secret not in {"", secret}:
        raise OAuthRefused(
            "invalid_request", "The client is named differently in the body and in the Authorization header"
        )
    digits = id_text.isascii() and id_text.isdigit() and len(id_text) < 20
    try:
        return await oauth.check_app(front.graph, min(int(id_text), MAX_ID) if digits else 0, secret)
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
    # RFC 6749, 2.3.1: both are encoded as in a form.
    return unquote_plus(name), unquote_plus(secret)


def _scopes(asked: str, app: App) -> tuple[str, ...]:
    try:
        return scopes.check_subset(scopes.parse(asked), app.scopes)
    except InvalidInput as error:
        raise OAuthRefused("invalid_scope", str(error)) from None


ROUTES = (
    rows.oauth(
        "POST",
        "/oauth/token",
        token,
        limit_class="login",
        params=TokenRequest,
        answer=Token,
    ),
    rows.oauth("POST", "/oauth/revoke", revoke, params=Revocation, answer=dict),
)

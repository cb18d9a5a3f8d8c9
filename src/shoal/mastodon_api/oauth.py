"""OAuth 2.0 and OpenID Connect: client apps, authorization requests, tokens, server metadata and userinfo.

Token errors follow RFC 6749 and RFC 7009, metadata RFC 8414. Authorization requests are checked according to RFC 6749,
4.1.1, with PKCE (RFC 7636): an unknown app or redirect URI is reported to the user without a redirect, any other error
is sent to a registered redirect URI of the app.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import unquote_plus, urlencode, urlsplit

import msgspec
from msgspec import Meta
from starlette.requests import Request

from shoal.commands import external_ids, oauth
from shoal.commands.context import Limits
from shoal.commands.external_ids import ExternalProfile
from shoal.commands.oauth import Expiry, NewToken, check_welcome
from shoal.core.errors import Gone, InvalidInput, InvalidToken, NotAllowed, NotFound, Unauthenticated
from shoal.core.ids import MAX_ID
from shoal.core.media_files import still_of
from shoal.core.model import App, Member, Role
from shoal.graph.contract import Reader
from shoal.http import authentication
from shoal.http.authentication import KNOWN, granted, origin_of_request
from shoal.http.errors import OAuthRefused
from shoal.http.responses import Reply
from shoal.issuers import MAX_CHARACTERS, InvalidJwt
from shoal.mastodon_api import login_attempts
from shoal.mastodon_api.context import AppContext, Context, Router, actor, profile_of
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.serializers import Addresses
from shoal.mastodon_api.entities.statuses import Application, CredentialApplication, Token
from shoal.settings import Issuer, Settings

router = Router()

OUT_OF_BAND = "urn:ietf:wg:oauth:2.0:oob"
"""The redirect URI of apps that have none: the code is shown to the user, who types it into the app."""

_Word = Annotated[str, Meta(max_length=2_000)]
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
"""A SHA-256 hash in base64url without padding."""


class Authorization(msgspec.Struct, frozen=True):
    response_type: _Word = ""
    client_id: _Word = ""
    redirect_uri: _Word = ""
    scope: _Word = ""
    state: Annotated[str, Meta(max_length=4_000)] = ""
    force_login: bool = False
    code_challenge: _Word = ""
    code_challenge_method: _Word = ""


class AuthorizeRequest(msgspec.Struct, frozen=True):
    """A valid authorization request, which a member may approve."""

    app: App
    redirect_uri: str
    scopes: tuple[str, ...]
    state: str
    challenge: str


class SentBack(Exception):
    """A redirect to the app, with a code or with an OAuth error."""

    def __init__(self, redirect_uri: str, **answer: str) -> None:
        super().__init__(answer.get("error_description", ""))
        self.redirect_uri = redirect_uri
        self.answer = {name: value for name, value in answer.items() if value}

    def url(self, issuer: str) -> str:
        """Return the redirect URI with the response in its query.

        `issuer` is the name of this server (RFC 9207). An app that uses several servers detects by it that a response
        comes from the wrong server. `issuer` is empty if this server has no such name.
        """
        joint = "&" if "?" in self.redirect_uri else "?"
        answer = {**self.answer, "iss": issuer} if issuer else self.answer
        return f"{self.redirect_uri}{joint}{urlencode(answer)}"


async def read(graph: Reader, params: Authorization) -> AuthorizeRequest:
    """Check an authorization request.

    Raises `OAuthRefused` for an error that is shown to the user, and `SentBack` for an error that is sent to the app.
    """
    app = await _app(graph, params.client_id)
    if not redirects_to(app, params.redirect_uri):
        raise OAuthRefused(
            "invalid_request",
            "The redirect uri included is not valid: it must match a registered URI exactly",
        )
    try:
        _check_protocol(params)
        requested = authentication.check_subset(authentication.parse(params.scope), app.scopes)
    except (InvalidInput, OAuthRefused) as error:
        code = error.code if isinstance(error, OAuthRefused) else "invalid_scope"
        raise SentBack(params.redirect_uri, error=code, error_description=str(error), state=params.state) from None
    return AuthorizeRequest(app, params.redirect_uri, requested, params.state, params.code_challenge)


def issuer_of(at: Addresses) -> str:
    """Return the issuer name of this server (RFC 8414, 2). It is empty without https, which issuer names require."""
    return f"{at.root}/" if at.root.startswith("https:") else ""


def redirects_to(app: App, redirect_uri: str) -> bool:
    """Return whether responses may be sent to this URI: the app registered it, and its host is unambiguous."""
    return redirect_uri in app.redirect_uris and leads_where_it_seems(redirect_uri)


def leads_where_it_seems(redirect_uri: str) -> bool:
    """Return whether all programs find the same host in a URI.

    Browsers treat a backslash as a slash; other programs do not. `https://bank.example@evil.example/` seems to name one
    host and leads to another.
    """
    return "\\" not in redirect_uri and "@" not in _authority(redirect_uri)


def _authority(uri: str) -> str:
    """Return the authority of a URI, between `//` and the path; empty if there is none."""
    rest = uri.partition(":")[2]
    return re.split(r"[/?#]", rest.removeprefix("//"), maxsplit=1)[0] if rest.startswith("//") else ""


def address_of(at: Addresses, params: Authorization) -> str:
    """Return the URL of the authorization page for this request, to which the browser returns after a login."""
    # Copy only the fields of `Authorization`, because `params` may be of a subclass with a password. `force_login` is
    # left out: the page would request another login.
    names = [name for name in Authorization.__struct_fields__ if name != "force_login"]
    query = {name: value for name in names if (value := getattr(params, name))}
    return f"{at.path}/oauth/authorize?{urlencode(query)}"


async def _app(graph: Reader, client_id: str) -> App:
    id_ = _app_id(client_id)
    node = (await graph.obj_get((id_,))).get(id_) if id_ else None
    if not isinstance(node, App):
        raise OAuthRefused("invalid_client", "Client authentication failed due to unknown client")
    return node


def _app_id(text: str) -> int:
    digits = text.isascii() and text.isdigit() and len(text) < 20
    return min(int(text), MAX_ID) if digits else 0


def _check_protocol(params: Authorization) -> None:
    if not params.response_type:
        raise OAuthRefused("invalid_request", "Missing required parameter: response_type")
    if params.response_type != "code":
        raise OAuthRefused("unsupported_response_type", "The authorization server does not support this response type")
    if params.code_challenge and params.code_challenge_method != "S256":
        raise OAuthRefused("invalid_request", "The code_challenge_method must be S256")
    if params.code_challenge and not _CHALLENGE.fullmatch(params.code_challenge):
        raise OAuthRefused("invalid_request", "The code_challenge must be a SHA-256 in base64url without padding")
    if params.code_challenge_method and not params.code_challenge:
        raise OAuthRefused("invalid_request", "Missing required parameter: code_challenge")


_SCRIPTS = frozenset({"javascript", "data", "vbscript", "file", "blob"})
"""Schemes that a browser would execute or read as a file."""


class AppForm(msgspec.Struct, frozen=True):
    client_name: Annotated[str, Meta(min_length=1, max_length=1_000)]
    redirect_uris: Annotated[
        tuple[Annotated[str, Meta(max_length=16_000)], ...],
        Meta(min_length=1, max_length=20, extra_json_schema={"type": ["string", "array"], "maxLength": 16_000}),
    ]
    """A list of URIs, or a text with one URI per line."""
    scopes: Annotated[str, Meta(max_length=2_000)] = ""
    website: Annotated[str, Meta(max_length=4_000)] = ""


@router.post("/api/v1/apps", auth="public", limit_class="apps", answer=CredentialApplication)
async def register_app(context: Context, params: AppForm) -> object:
    """Register an app, and return it with its secret."""
    website = params.website.strip()
    if website and urlsplit(website).scheme not in {"http", "https"}:
        raise InvalidInput("website: must be an http or https URL", field="website")
    made = await oauth.register(
        context.app.writes,
        params.client_name,
        redirect_uris=_checked_uris(params.redirect_uris, context.app.writes.limits),
        scopes=authentication.parse(params.scopes),
        website=website,
    )
    return serializers.credential_application(made.app, made.secret, context.app.push_key)


@router.get("/api/v1/apps/verify_credentials", auth="app", answer=Application)
async def verify_app(context: Context, _params: None) -> object:
    """Show the app to which the access token was issued."""
    return serializers.application(await app_of(context.app, context.caller.app_id), context.app.push_key)


async def app_of(app_context: AppContext, app_id: int) -> App:
    """Return an app by id. Raises `InvalidToken` if the app was deleted, which invalidates its tokens."""
    node = (await app_context.graph.obj_get((app_id,))).get(app_id)
    if not isinstance(node, App):
        raise InvalidToken
    return node


def _checked_uris(given: tuple[str, ...], limits: Limits) -> list[str]:
    uris = [uri for text in given for uri in text.split()]
    if not 1 <= len(uris) <= limits.redirect_uris or any(len(uri) > limits.redirect_uri for uri in uris):
        raise InvalidInput(
            f"redirect_uris: expected 1 to {limits.redirect_uris} URLs of at most {limits.redirect_uri} characters",
            field="redirect_uris",
        )
    if sum(len(uri.encode()) for uri in uris) > limits.redirect_bytes:
        raise InvalidInput(f"redirect_uris: at most {limits.redirect_bytes} bytes in total", field="redirect_uris")
    for uri in uris:
        scheme, colon, rest = uri.partition(":")
        if (
            not (colon and rest and scheme.isascii() and scheme[:1].isalpha())
            or scheme.lower() in _SCRIPTS
            or "#" in uri
        ):
            raise InvalidInput("Redirect URI must be an absolute URI without a fragment", field="redirect_uris")
        if not leads_where_it_seems(uri):
            raise InvalidInput("Redirect URI must not contain a backslash or a user name", field="redirect_uris")
    return uris


_NO_STORE = (("Cache-Control", "no-store"), ("Pragma", "no-cache"))


class TokenRequest(msgspec.Struct, frozen=True):
    grant_type: _Word = ""
    client_id: _Word = ""
    client_secret: _Word = ""
    scope: _Word = ""
    username: _Word = ""
    password: _Word = ""
    code: _Word = ""
    redirect_uri: _Word = ""
    code_verifier: _Word = ""
    subject_token: Annotated[str, Meta(max_length=MAX_CHARACTERS)] = ""
    """For a token exchange (RFC 8693): a JWT that an issuer of the setting `issuers` signed for a user."""
    subject_token_type: _Word = ""
    requested_token_type: _Word = ""
    actor_token: Annotated[str, Meta(max_length=MAX_CHARACTERS)] = ""
    """Refused, as are `resource` and `audience`: a token is always the user's own, and for this server."""
    resource: _Word = ""
    audience: _Word = ""


class Revocation(msgspec.Struct, frozen=True):
    token: _Word = ""
    client_id: _Word = ""
    client_secret: _Word = ""


@router.post("/oauth/token", auth="public", limit_class="token", answer=Token, once=True)
async def issue_token(context: Context, params: TokenRequest) -> object:
    """Create an access token. Each request returns a new one."""
    if params.grant_type != _EXCHANGE:
        await login_attempts.count_login(context)
    grant = _GRANT_HANDLERS.get(params.grant_type)
    if not params.grant_type:
        raise OAuthRefused("invalid_request", "Missing required parameter: grant_type")
    if grant is None or params.grant_type not in grant_types(context.app.settings):
        raise OAuthRefused(
            "unsupported_grant_type", "The authorization grant type is not supported by the authorization server"
        )
    app = await _client(context.app, context.request, params)
    return Reply(serializers.token(*await grant(context, app, params)), headers=_NO_STORE)


async def _by_code(context: Context, app: App, params: TokenRequest) -> NewToken:
    """Exchange an authorization code for a token.

    The token has the scopes that the member approved; scopes in the request are ignored.
    """
    if not params.code or not params.redirect_uri:
        raise OAuthRefused("invalid_request", "Missing required parameter: code and redirect_uri")
    try:
        origin = origin_of_request(context.request)
        return await oauth.exchange_code(
            context.app.writes, app.id, params.code, params.redirect_uri, params.code_verifier, origin
        )
    except Unauthenticated as error:
        raise OAuthRefused("invalid_grant", str(error)) from None


async def _by_password(context: Context, app: App, params: TokenRequest) -> NewToken:
    if not params.username or not params.password:
        raise OAuthRefused("invalid_request", "Missing required parameter: username and password")
    requested = _scopes(params.scope, app)
    try:
        member = await login_attempts.log_in(context, params.username, params.password)
    except (Unauthenticated, NotAllowed) as error:
        raise OAuthRefused("invalid_grant", str(error)) from None
    origin = origin_of_request(context.request)
    return await oauth.issue_token(
        context.app.writes, app.id, member.id, requested, generation=member.generation, origin=origin
    )


async def _by_app_alone(context: Context, app: App, params: TokenRequest) -> NewToken:
    origin = origin_of_request(context.request)
    return await oauth.issue_token(context.app.writes, app.id, 0, _scopes(params.scope, app), origin=origin)


async def _by_exchange(context: Context, app: App, params: TokenRequest) -> NewToken:
    """Exchange a JWT of a configured issuer for a short-lived token; create the member on first use (RFC 8693)."""
    if not params.subject_token or params.subject_token_type != _JWT:
        raise OAuthRefused("invalid_request", f"Required parameters: subject_token, and subject_token_type={_JWT}")
    if params.requested_token_type not in {"", serializers.ACCESS_TOKEN}:
        raise OAuthRefused("invalid_request", f"The requested_token_type must be {serializers.ACCESS_TOKEN}")
    if params.actor_token:
        raise OAuthRefused("invalid_request", "An actor_token is not supported: the token is always the user's own")
    if params.resource or params.audience:
        raise OAuthRefused("invalid_target", "A resource or audience is not supported: the token is for this server")
    requested = _scopes(params.scope, app)
    writes = context.app.writes
    try:
        user = await context.app.issuers.verify(params.subject_token)
    except InvalidJwt as error:
        await login_attempts.count_login(context)
        raise OAuthRefused("invalid_request", f"subject_token: {error}") from None
    issuer = user.issuer
    if issuer.apps and str(app.id) not in issuer.apps:
        raise OAuthRefused("unauthorized_client", "The issuer of the subject_token does not allow this application")
    if not all(granted(frozenset(issuer.scopes), scope) for scope in requested):
        raise OAuthRefused("invalid_scope", f"The issuer allows only the scopes {' '.join(issuer.scopes)}")
    await login_attempts.count_exchange(context, app.id, user.external)
    try:
        if issuer.single_use:
            await external_ids.use_jwt(writes, user.external.issuer, user.jwt_id, user.expires_at)
        # The claims of the product may be longer than a profile allows, which must not lock its users out.
        name = user.name[: writes.limits.display_name]
        profile = ExternalProfile(user_name=user.user_name, display_name=name, language=user.language)
        member, _, link_id = await external_ids.upsert(writes, user.external, profile, update=False)
        _check_may_exchange(member, issuer)
        return await oauth.issue_token(
            writes,
            app.id,
            member.id,
            requested,
            generation=member.generation,
            origin=origin_of_request(context.request),
            expiry=Expiry(int(user.token_expires_at(writes.new_id.now() / 1000) * 1000), link_id),
            issuer=user.external.issuer,
        )
    except (InvalidInput, NotAllowed, NotFound, Gone) as error:
        raise OAuthRefused("invalid_grant", str(error)) from None


def _check_may_exchange(member: Member, issuer: Issuer) -> None:
    """Raise `NotAllowed` if the member may not log in, or not by a token exchange."""
    check_welcome(member)
    if not issuer.privileged_members and (member.role is not Role.NONE or member.second_factor):
        raise NotAllowed("Members with a role or a second factor cannot log in by a token exchange here")


_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_JWT = "urn:ietf:params:oauth:token-type:jwt"
_GRANT_HANDLERS: dict[str, Callable[[Context, App, TokenRequest], Awaitable[NewToken]]] = {
    "authorization_code": _by_code,
    "password": _by_password,
    "client_credentials": _by_app_alone,
    _EXCHANGE: _by_exchange,
}


def grant_types(settings: Settings) -> list[str]:
    off = {"password": not (settings.password_grant and settings.password_login), _EXCHANGE: not settings.issuers}
    return [name for name in _GRANT_HANDLERS if not off.get(name)]


@router.post("/oauth/revoke", auth="public", answer=dict, once=True)
async def revoke_token(context: Context, params: Revocation) -> None:
    """Revoke an access token. An unknown token counts as revoked. An app cannot revoke the tokens of another app."""
    app = await _client(context.app, context.request, params)
    if not params.token:
        raise OAuthRefused("invalid_request", "Missing required parameter: token")
    try:
        found, member = await oauth.check_token(context.app.writes, params.token)
    except Unauthenticated:
        return
    if found.app_id != app.id:
        raise OAuthRefused("unauthorized_client", "You are not authorized to revoke this token", status=403)
    actor = context.app.writes.actor if member is None else context.app.writes.actor.proved(member)
    await oauth.revoke_token(context.app.writes.by(actor), found)


async def _client(app_context: AppContext, request: Request, params: TokenRequest | Revocation) -> App:
    """Return the app that HTTP Basic or the request body authenticates.

    A client that uses Basic may also send equal credentials in the body (RFC 6749, 3.2.1).
    """
    id_text, secret = _basic(request.headers.get("authorization", ""))
    if not id_text:
        id_text, secret = params.client_id, params.client_secret
    elif params.client_id not in {"", id_text} or params.client_secret not in {"", secret}:
        raise OAuthRefused("invalid_request", "client_id differs between the body and the Authorization header")
    try:
        return await oauth.check_app(app_context.graph, _app_id(id_text), secret)
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
    # RFC 6749, 2.3.1: the id and the secret of the app are encoded as in a form.
    return unquote_plus(name), unquote_plus(secret)


def _scopes(requested: str, app: App) -> tuple[str, ...]:
    try:
        return authentication.check_subset(authentication.parse(requested), app.scopes)
    except InvalidInput as error:
        raise OAuthRefused("invalid_scope", str(error)) from None


class Metadata(msgspec.Struct, kw_only=True):
    """The OAuth endpoints and capabilities of this server."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    app_registration_endpoint: str
    revocation_endpoint: str
    userinfo_endpoint: str
    scopes_supported: list[str]
    response_types_supported: list[str]
    response_modes_supported: list[str]
    grant_types_supported: list[str]
    token_endpoint_auth_methods_supported: list[str]
    code_challenge_methods_supported: list[str]
    authorization_response_iss_parameter_supported: bool


class UserInfo(msgspec.Struct, kw_only=True):
    """The identity of a member as OpenID Connect claims."""

    iss: str
    sub: str
    name: str
    preferred_username: str
    profile: str
    picture: str


@router.get("/.well-known/oauth-authorization-server", auth="public", answer=Metadata, refuses=(404,))
async def metadata(context: Context, _params: None) -> object:
    """Return the metadata of the OAuth server. It is available over https only, because clients reject other URLs."""
    issuer = issuer_of(context.app.at)
    if not issuer:
        raise NotFound
    root = context.app.at.root
    return Metadata(
        issuer=issuer,
        authorization_endpoint=f"{root}/oauth/authorize",
        token_endpoint=f"{root}/oauth/token",
        app_registration_endpoint=f"{root}/api/v1/apps",
        revocation_endpoint=f"{root}/oauth/revoke",
        userinfo_endpoint=f"{root}/oauth/userinfo",
        scopes_supported=sorted(KNOWN),
        response_types_supported=["code"],
        response_modes_supported=["query"],
        grant_types_supported=grant_types(context.app.settings),
        token_endpoint_auth_methods_supported=["client_secret_basic", "client_secret_post"],
        code_challenge_methods_supported=["S256"],
        authorization_response_iss_parameter_supported=True,
    )


@router.get("/oauth/userinfo", scope="profile", answer=UserInfo)
@router.post("/oauth/userinfo", scope="profile", answer=UserInfo)
async def userinfo(context: Context, _params: None) -> object:
    """Return the caller's identity as OpenID Connect claims."""
    member = (await profile_of(context, actor(context))).member
    return UserInfo(
        iss=f"{context.app.at.root}/",
        sub=context.app.at.account(member.name),
        name=member.display_name or member.name,
        preferred_username=member.name,
        profile=context.app.at.account(member.name),
        picture=context.app.at.avatar(still_of(member.avatar)),
    )

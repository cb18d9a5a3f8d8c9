"""Metadata of the OAuth server (RFC 8414), and the identity of a member for apps that may read it (OpenID Connect)."""

from __future__ import annotations

import msgspec

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.http.scopes import KNOWN
from shoal.api.listing import actor, profile_of
from shoal.api.login.authorize_request import issuer_of
from shoal.api.login.oauth import grant_types
from shoal.core.errors import NotFound
from shoal.core.media_files import still_of


class Metadata(msgspec.Struct, kw_only=True):
    """Where everything is that a client of OAuth needs."""

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
    """The identity of a member, as OpenID Connect's claims."""

    iss: str
    sub: str
    name: str
    preferred_username: str
    profile: str
    picture: str


async def metadata(context: Context, _params: None) -> object:
    """Where a client of OAuth finds everything; only on https, as its clients refuse other addresses."""
    front = context.deps
    issuer = issuer_of(front.at)
    if not issuer:
        raise NotFound
    root = front.at.root
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
        grant_types_supported=grant_types(front.settings),
        token_endpoint_auth_methods_supported=["client_secret_basic", "client_secret_post"],
        code_challenge_methods_supported=["S256"],
        authorization_response_iss_parameter_supported=True,
    )


async def userinfo(context: Context, _params: None) -> object:
    """Return the member's identity as OpenID Connect's claims."""
    front = context.deps
    member = (await profile_of(context, actor(context))).member
    return UserInfo(
        iss=f"{front.at.root}/",
        sub=front.at.account(member.name),
        name=member.display_name or member.name,
        preferred_username=member.name,
        profile=front.at.account(member.name),
        picture=front.at.avatar(still_of(member.avatar)),
    )


METADATA_ROUTES = (
    rows.public("GET", "/.well-known/oauth-authorization-server", metadata, answer=Metadata, refuses=(404,)),
)

ROUTES = (
    rows.route("GET", "/oauth/userinfo", userinfo, scope="profile", answer=UserInfo),
    rows.route("POST", "/oauth/userinfo", userinfo, scope="profile", answer=UserInfo),
)

"""Apps, tokens and who the caller is: OAuth, signing up, and where a member is logged in."""

from __future__ import annotations

from shoal.api import credentials
from shoal.api.entities.clients import Application, CredentialApplication, Token
from shoal.api.entities.sessions import SessionEntity
from shoal.api.entities.statuses import CredentialAccount
from shoal.api.http.calls import Body, Route
from shoal.api.login import apps, authorize, oauth, openid, sessions, signup
from shoal.api.login.authorize_request import Authorization
from shoal.api.rows import FORM, one, page, public, route
from shoal.settings import Settings


def routes(settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        public(
            "GET", "/.well-known/oauth-authorization-server", openid.metadata, answer=openid.Metadata, refuses=(404,)
        ),
        Route(
            "POST",
            "/api/v1/apps",
            apps.register,
            auth="public",
            limit_class="apps",
            params=apps.NewApp,
            answer=CredentialApplication,
        ),
        route("GET", "/api/v1/apps/verify_credentials", apps.verify, auth="app", answer=Application),
        Route(
            "GET",
            "/oauth/authorize",
            authorize.show,
            auth="public",
            limit_class="pages",
            params=Authorization,
            page=True,
            answer=Body("text/html"),
        ),
        Route(
            "POST",
            "/oauth/authorize",
            authorize.decide,
            auth="public",
            limit_class="login",
            params=authorize.Decision,
            page=True,
            answer=Body("text/html"),
        ),
        Route(
            "POST",
            "/oauth/token",
            oauth.token,
            auth="public",
            limit_class="login",
            params=oauth.TokenRequest,
            answer=Token,
        ),
        public("POST", "/oauth/revoke", oauth.revoke, params=oauth.Revocation, answer=dict),
        route("GET", "/oauth/userinfo", openid.userinfo, scope="profile", answer=openid.UserInfo),
        route("POST", "/oauth/userinfo", openid.userinfo, scope="profile", answer=openid.UserInfo),
        Route(
            "POST",
            "/api/v1/accounts",
            signup.sign_up,
            auth="client",
            scope="write:accounts",
            limit_class="signup",
            params=signup.SignUp,
            answer=Token,
        ),
        route(
            "POST",
            "/api/v1/emails/confirmations",
            signup.confirm,
            scope="write:accounts",
            answer=dict,
        ),
        route(
            "GET",
            "/api/v1/accounts/verify_credentials",
            credentials.verify,
            scope="read:accounts",
            answer=CredentialAccount,
        ),
        route(
            "PATCH",
            "/api/v1/accounts/update_credentials",
            credentials.update,
            scope="write:accounts",
            params=credentials.Changes,
            max_body=2 * settings.max_upload_bytes + 2 * FORM,
            answer=CredentialAccount,
        ),
        page("GET", "/api/shoal/v1/sessions", sessions.listed, scope="read:accounts", answer=list[SessionEntity]),
        one("DELETE", "/api/shoal/v1/sessions/{id}", sessions.end, scope="write:accounts", answer=dict),
        Route(
            "PUT",
            "/api/shoal/v1/password",
            sessions.change_password,
            scope="write:accounts",
            limit_class="login",
            params=sessions.NewPassword,
            answer=dict,
        ),
    )

"""Apps, tokens and who the caller is: OAuth, and signing up."""

from __future__ import annotations

from shoal.api import apps, credentials, oauth, signup
from shoal.api.calls import Route
from shoal.api.client_entities import Application, CredentialApplication, Token
from shoal.api.entities import CredentialAccount
from shoal.api.routes.making import FORM, public, route
from shoal.settings import Settings


def routes(settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        public("POST", "/api/v1/apps", apps.register, params=apps.NewApp, answer=CredentialApplication),
        route("GET", "/api/v1/apps/verify_credentials", apps.verify, auth="app", answer=Application),
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
        Route(
            "POST",
            "/api/v1/accounts",
            signup.sign_up,
            auth="app",
            scope="write:accounts",
            limit_class="signup",
            params=signup.SignUp,
            answer=Token,
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
            answer=CredentialAccount,
            max_body=2 * settings.max_upload_bytes + 2 * FORM,
        ),
    )

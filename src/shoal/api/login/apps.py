"""Client apps: register, verify."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context, Front
from shoal.api.entities import presenter
from shoal.api.entities.clients import Application, CredentialApplication
from shoal.api.http import scopes
from shoal.api.login.authorize_request import leads_where_it_seems
from shoal.commands import oauth
from shoal.commands.context import Limits
from shoal.core.errors import InvalidInput, InvalidToken
from shoal.core.model import App

_SCRIPTS = frozenset({"javascript", "data", "vbscript", "file", "blob"})
"""Schemes that a browser would run or read instead of going there."""


class AppForm(msgspec.Struct, frozen=True):
    """A new app, as it describes itself."""

    client_name: Annotated[str, Meta(min_length=1, max_length=1_000)]
    redirect_uris: Annotated[
        tuple[Annotated[str, Meta(max_length=16_000)], ...],
        Meta(min_length=1, max_length=20, extra_json_schema={"type": ["string", "array"], "maxLength": 16_000}),
    ]
    """A list, or one text with a line for each."""
    scopes: Annotated[str, Meta(max_length=2_000)] = ""
    website: Annotated[str, Meta(max_length=4_000)] = ""


async def register(context: Context, params: AppForm) -> object:
    """A new app with its secret."""
    front = context.deps
    website = params.website.strip()
    if website and urlsplit(website).scheme not in {"http", "https"}:
        raise InvalidInput("website: an http or https address", field="website")
    made = await oauth.register(
        front.writes,
        params.client_name,
        redirect_uris=_checked_uris(params.redirect_uris, front.writes.limits),
        scopes=scopes.parse(params.scopes),
        website=website,
    )
    return presenter.credential_application(made.app, made.secret, front.push_key)


async def verify(context: Context, _params: None) -> object:
    """The app that the token belongs to."""
    front = context.deps
    return presenter.application(await app_of(front, context.caller.app_id), front.push_key)


async def app_of(front: Front, app_id: int) -> App:
    """An app by id. Raises `Unauthenticated`: a token of an app that is gone is worth nothing."""
    node = (await front.graph.obj_get((app_id,))).get(app_id)
    if not isinstance(node, App):
        raise InvalidToken
    return node


def _checked_uris(given: tuple[str, ...], limits: Limits) -> list[str]:
    uris = [uri for text in given for uri in text.split()]
    if not 1 <= len(uris) <= limits.redirect_uris or any(len(uri) > limits.redirect_uri for uri in uris):
        raise InvalidInput(
            f"redirect_uris: 1 to {limits.redirect_uris} addresses of at most {limits.redirect_uri} characters",
            field="redirect_uris",
        )
    if sum(len(uri.encode()) for uri in uris) > limits.redirect_bytes:
        raise InvalidInput(f"redirect_uris: at most {limits.redirect_bytes} bytes together", field="redirect_uris")
    for uri in uris:
        scheme, colon, rest = uri.partition(":")
        if (
            not (colon and rest and scheme.isascii() and scheme[:1].isalpha())
            or scheme.lower() in _SCRIPTS
            or "#" in uri
        ):
            raise InvalidInput("Redirect URI must be an absolute URI without a fragment", field="redirect_uris")
        if not leads_where_it_seems(uri):
            raise InvalidInput(
                "Redirect URI must have no backslash, and no user before its host", field="redirect_uris"
            )
    return uris


ROUTES = (
    rows.public(
        "POST",
        "/api/v1/apps",
        register,
        limit_class="apps",
        params=AppForm,
        answer=CredentialApplication,
    ),
    rows.route("GET", "/api/v1/apps/verify_credentials", verify, auth="app", answer=Application),
)

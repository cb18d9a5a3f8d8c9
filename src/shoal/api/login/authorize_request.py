"""Checks an app's request on the authorize page: RFC 6749, 4.1.1, with PKCE (RFC 7636).

An unknown app or redirect address is shown to the person, and nobody is redirected. Any other error is sent to the app, at
an address that it registered.
"""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from shoal.api.entities.addresses import Addresses
from shoal.api.http import scopes
from shoal.api.http.errors import OAuthRefused
from shoal.core.errors import InvalidInput
from shoal.core.ids import MAX_ID
from shoal.core.model import App
from shoal.graph.contract import Reader

OUT_OF_BAND = "urn:ietf:wg:oauth:2.0:oob"
"""The address of apps that have none: the code is shown to the person, who types it into the app."""

_Word = Annotated[str, Meta(max_length=2_000)]
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
"""A SHA-256 in base64url without padding."""


class Authorization(msgspec.Struct, frozen=True):
    """Query parameters of the authorize page."""

    response_type: _Word = ""
    client_id: _Word = ""
    redirect_uri: _Word = ""
    scope: _Word = ""
    state: Annotated[str, Meta(max_length=4_000)] = ""
    force_login: bool = False
    code_challenge: _Word = ""
    code_challenge_method: _Word = ""


class AuthorizeRequest(msgspec.Struct, frozen=True):
    """A request that may be put to a member."""

    app: App
    redirect_uri: str
    scopes: tuple[str, ...]
    state: str
    challenge: str


class SentBack(Exception):
    """An answer for the app instead of the person: a code, or an error of the protocol."""

    def __init__(self, redirect_uri: str, **answer: str) -> None:
        super().__init__(answer.get("error_description", ""))
        self.redirect_uri = redirect_uri
        self.answer = {name: value for name, value in answer.items() if value}

    def url(self, issuer: str) -> str:
        """Return the redirect address with the answer added to its query, and with the server that answers (RFC 9207).

        An app that uses several servers sees by `iss` that this answer is not of another one than it asked. `issuer` is empty
        where there is none.
        """
        joint = "&" if "?" in self.redirect_uri else "?"
        answer = {**self.answer, "iss": issuer} if issuer else self.answer
        return f"{self.redirect_uri}{joint}{urlencode(answer)}"


async def read(graph: Reader, params: Authorization) -> AuthorizeRequest:
    """Check a request. Raises `OAuthRefused` for an error that the person is told, `SentBack` for one that the app is told."""
    app = await _app(graph, params.client_id)
    if not redirects_to(app, params.redirect_uri):
        raise OAuthRefused(
            "invalid_request",
            "The redirect uri included is not valid: it must be one that the application registered, to the letter",
        )
    try:
        _check_protocol(params)
        asked = scopes.check_subset(scopes.parse(params.scope), app.scopes)
    except InvalidInput as error:
        raise SentBack(
            params.redirect_uri, error="invalid_scope", error_description=str(error), state=params.state
        ) from None
    except OAuthRefused as error:
        raise SentBack(
            params.redirect_uri, error=error.code, error_description=str(error), state=params.state
        ) from None
    return AuthorizeRequest(app, params.redirect_uri, asked, params.state, params.code_challenge)


def issuer_of(at: Addresses) -> str:
    """Return the name of this server among OAuth servers (RFC 8414, 2), which exists on https only; else an empty text."""
    return f"{at.root}/" if at.root.startswith("https:") else ""


def redirects_to(app: App, redirect_uri: str) -> bool:
    """Return whether the app may be answered at this address: it is registered, letter for letter, and leads where it seems to."""
    return redirect_uri in app.redirect_uris and leads_where_it_seems(redirect_uri)


def leads_where_it_seems(redirect_uri: str) -> bool:
    """Return whether every program reads the same host in an address.

    Browsers take a backslash for a slash, others do not; and `https://bank.example@evil.example/` shows one host to people
    and goes to another.
    """
    return "\\" not in redirect_uri and "@" not in _authority(redirect_uri)


def _authority(uri: str) -> str:
    """Return the part between `//` and the path; empty for an address without."""
    rest = uri.partition(":")[2]
    return re.split(r"[/?#]", rest.removeprefix("//"), maxsplit=1)[0] if rest.startswith("//") else ""


def address_of(at: Addresses, params: Authorization) -> str:
    """Return the address of the authorize page with this request, for a browser that has logged in since."""
    asked = {
        "response_type": params.response_type,
        "client_id": params.client_id,
        "redirect_uri": params.redirect_uri,
        "scope": params.scope,
        "state": params.state,
        "code_challenge": params.code_challenge,
        "code_challenge_method": params.code_challenge_method,
    }
    return f"{at.path}/oauth/authorize?{urlencode({name: value for name, value in asked.items() if value})}"


async def _app(graph: Reader, client_id: str) -> App:
    digits = client_id.isascii() and client_id.isdigit() and len(client_id) < 20
    id_ = min(int(client_id), MAX_ID) if digits else 0
    node = (await graph.obj_get((id_,))).get(id_) if id_ else None
    if not isinstance(node, App):
        raise OAuthRefused("invalid_client", "Client authentication failed due to unknown client")
    return node


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

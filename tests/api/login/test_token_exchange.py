"""Token exchange (RFC 8693): a JWT of a product becomes a short-lived token of its user."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import ECKey
from msgspec.structs import replace as changed

from shoal.admin.consistency.check import check
from shoal.commands import external_ids, moderation
from shoal.core.external_ids import ExternalId
from shoal.core.ids import shard_of
from shoal.core.model import Token
from shoal.core.tokens import opened
from shoal.graph.contract import Batch
from shoal.server import build
from tests.api.in_memory_network import NetworkFixture, network_fixture

ISSUER, AUDIENCE = "https://shop.example", "https://shoal.example"
KEY = ECKey.generate_key("P-256", {"kid": "1"})
GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT = "urn:ietf:params:oauth:token-type:jwt"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
ME = "/api/v1/accounts/verify_credentials"


@pytest.fixture
def here() -> Iterator[NetworkFixture]:
    issuer = {"audience": AUDIENCE, "keys": [KEY.as_dict(private=False)], "token_seconds": 600}
    with network_fixture(issuers={ISSUER: issuer}) as made:
        yield made


@pytest.fixture
def app(here: NetworkFixture) -> dict[str, str]:
    return registered(here)


def registered(here: NetworkFixture, scopes: str = "read write admin:read") -> dict[str, str]:
    form = {"client_name": "Shop", "redirect_uris": "urn:x", "scopes": scopes}
    made = here.json("POST", "/api/v1/apps", json=form)
    return {name: made[name] for name in ("client_id", "client_secret")}


def jwt(**claims: Any) -> str:
    now = int(time.time())
    given = {"iss": ISSUER, "sub": "42", "aud": AUDIENCE, "iat": now, "exp": now + 60, "preferred_username": "ann"}
    return jws.serialize_compact({"alg": "ES256", "kid": "1"}, json.dumps({**given, **claims}), KEY)


def form(app: dict[str, str], text: str, **more: str) -> dict[str, str]:
    return {"grant_type": GRANT, "subject_token": text, "subject_token_type": JWT, "scope": "read write", **app, **more}


def exchange(here: NetworkFixture, app: dict[str, str], text: str, **more: str) -> httpx.Response:
    return here.ask("POST", "/oauth/token", data=form(app, text, **more))


def test_token_exchange_creates_member_on_first_use_and_returns_short_lived_token(
    here: NetworkFixture, app: dict[str, str]
) -> None:
    answer = exchange(here, app, jwt(name="Ann A.", locale="de"))
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    made = answer.json()
    assert {name: made[name] for name in ("token_type", "scope", "expires_in", "issued_token_type")} == {
        "token_type": "Bearer",
        "scope": "read write",
        "expires_in": 600,
        "issued_token_type": ACCESS_TOKEN,
    }
    me = here.json("GET", ME, made["access_token"])
    assert (me["username"], me["display_name"]) == ("ann", "Ann A.")
    posted = here.json("POST", "/api/v1/statuses", made["access_token"], json={"status": "Low tide"})
    assert posted["account"]["id"] == me["id"]


def test_token_exchange_again_returns_token_of_same_member_and_keeps_profile(
    here: NetworkFixture, app: dict[str, str]
) -> None:
    first, second = (exchange(here, app, jwt(name=name)).json()["access_token"] for name in ("Ann", "Other"))
    shown = [here.json("GET", ME, token) for token in (first, second)]
    assert shown[0]["id"] == shown[1]["id"]
    assert shown[1]["display_name"] == "Ann"


def test_token_exchange_concurrent_first_uses_create_one_member(here: NetworkFixture, app: dict[str, str]) -> None:
    async def many() -> list[httpx.Response]:
        return await asyncio.gather(
            *(here.request("POST", "/oauth/token", data=form(app, jwt(), scope="read")) for _ in range(10))
        )

    tokens = [answer.json()["access_token"] for answer in here.run(many())]
    assert {here.json("GET", ME, token)["username"] for token in tokens} == {"ann"}


def test_token_exchange_with_long_name_claim_truncates_display_name(here: NetworkFixture, app: dict[str, str]) -> None:
    token = exchange(here, app, jwt(name="x" * 300)).json()["access_token"]
    assert here.json("GET", ME, token)["display_name"] == "x" * 100


def test_token_exchange_token_expires(here: NetworkFixture, app: dict[str, str]) -> None:
    text = exchange(here, app, jwt()).json()["access_token"]
    graph, id_ = here.network.writes.graph, opened(text).id
    token = here.run(graph.obj_get((id_,)))[id_]
    assert isinstance(token, Token)
    batch = Batch(shard_of(token.member_id))
    batch.obj_set(_expired(token))
    here.run(graph.commit(batch))
    assert here.ask("GET", ME, text).status_code == 401
    sessions = here.json("GET", "/api/shoal/v1/sessions", exchange(here, app, jwt()).json()["access_token"])
    assert str(id_) not in {session["id"] for session in sessions}
    assert here.run(graph.obj_get((id_,))) == {}, "an expired token must be deleted when another is issued"


def _expired(token: Token) -> Token:
    return changed(token, expires_at=1, version=token.version + 1)


def test_token_exchange_token_can_be_revoked(here: NetworkFixture, app: dict[str, str]) -> None:
    text = exchange(here, app, jwt()).json()["access_token"]
    assert here.ask("POST", "/oauth/revoke", data={**app, "token": text}).status_code == 200
    assert here.ask("GET", ME, text).status_code == 401


def test_token_exchange_for_existing_member_with_external_id_returns_their_token(
    here: NetworkFixture, app: dict[str, str]
) -> None:
    ben = here.join("ben")
    here.run(external_ids.link(here.network.writes, ben.member.id, ExternalId(ISSUER, "7")))
    assert here.json("GET", ME, exchange(here, app, jwt(sub="7")).json()["access_token"])["id"] == ben.id


def test_token_exchange_for_suspended_member_is_refused(here: NetworkFixture, app: dict[str, str]) -> None:
    id_ = here.json("GET", ME, exchange(here, app, jwt()).json()["access_token"])["id"]
    here.run(moderation.suspend(here.network.writes, int(id_)))
    answer = exchange(here, app, jwt())
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"subject_token": "x"}, "invalid_request"),
        ({"subject_token": ""}, "invalid_request"),
        ({"subject_token_type": ""}, "invalid_request"),
        ({"subject_token_type": "urn:ietf:params:oauth:token-type:saml2"}, "invalid_request"),
        ({"requested_token_type": "urn:ietf:params:oauth:token-type:refresh_token"}, "invalid_request"),
        ({"scope": "read admin:read"}, "invalid_scope"),
        ({"scope": "read push"}, "invalid_scope"),
        ({"scope": "server:act"}, "invalid_scope"),
        ({"client_secret": "x"}, "invalid_client"),
        ({"client_id": ""}, "invalid_client"),
    ],
)
def test_token_exchange_with_invalid_parameter_is_refused_without_effect(
    here: NetworkFixture, app: dict[str, str], more: dict[str, str], error: str
) -> None:
    state = here.state()
    answer = exchange(here, app, jwt(), **more)
    assert (answer.status_code, answer.json()["error"]) == (401 if error == "invalid_client" else 400, error)
    assert here.state() == state


def test_token_exchange_with_refused_jwt_states_reason_and_creates_nothing(
    here: NetworkFixture, app: dict[str, str]
) -> None:
    state = here.state()
    answer = exchange(here, app, jwt(exp=1))
    assert answer.json() == {
        "error": "invalid_request",
        "error_description": "subject_token: the JWT has expired",
    }
    assert here.state() == state


def test_token_exchange_without_issuers_is_unsupported(shoal: NetworkFixture) -> None:
    answer = exchange(shoal, registered(shoal), jwt())
    assert (answer.status_code, answer.json()["error"]) == (400, "unsupported_grant_type")


def test_token_exchange_is_in_server_metadata_only_with_issuers() -> None:
    for issuers in ({}, _one_issuer()):
        with network_fixture(base_url="https://shoal.test", issuers=issuers) as made:
            made.app_parts = replace(made.app_parts, base_url="https://shoal.test")
            client = httpx.AsyncClient(
                transport=httpx.ASGITransport(build(made.app_parts)), base_url="https://shoal.test"
            )
            shown = made.run(client.get("/.well-known/oauth-authorization-server")).json()
            assert (GRANT in shown["grant_types_supported"]) is bool(issuers)


def _one_issuer() -> dict[str, Any]:
    return {ISSUER: {"audience": AUDIENCE, "keys": [KEY.as_dict(private=False)]}}


def test_token_exchange_leaves_store_consistent(here: NetworkFixture, app: dict[str, str]) -> None:
    exchange(here, app, jwt())
    here.settle()
    report = here.run(check(here.network))
    assert report.clean, report

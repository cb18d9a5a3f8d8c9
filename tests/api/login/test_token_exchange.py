"""Token exchange (RFC 8693): a JWT of a product becomes a short-lived token of its user."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import msgspec
import pytest
from joserfc import jws
from joserfc.jwk import ECKey
from msgspec.structs import replace as changed

from shoal.admin.consistency.check import check
from shoal.commands import external_ids, moderation
from shoal.core.audit import AuditVerb
from shoal.core.external_ids import ExternalId
from shoal.core.ids import shard_of
from shoal.core.model import Member, ProductToken, Role, Token
from shoal.core.tokens import opened
from shoal.graph.access import get_object
from shoal.graph.changes import change_object
from shoal.graph.contract import Batch
from shoal.server import build
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.api.login.test_server_keys import BARRED
from tests.audit.log_reader import entries

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


@contextmanager
def network(changes: dict[str, Any], **settings: Any) -> Iterator[tuple[NetworkFixture, dict[str, str]]]:
    """Open a network whose issuer has these changes, with an app."""
    issuer = {"audience": AUDIENCE, "keys": [KEY.as_dict(private=False)], "token_seconds": 600, **changes}
    with network_fixture(issuers={ISSUER: issuer}, **settings) as made:
        yield made, registered(made)


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
    assert {name: made[name] for name in ("token_type", "scope", "issued_token_type")} == {
        "token_type": "Bearer",
        "scope": "read write",
        "issued_token_type": ACCESS_TOKEN,
    }
    assert 0 < made["expires_in"] <= 600
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
    assert isinstance(token, ProductToken)
    batch = Batch(shard_of(token.member_id))
    batch.obj_set(_expired(token))
    here.run(graph.commit(batch))
    assert here.ask("GET", ME, text).status_code == 401
    sessions = here.json("GET", "/api/shoal/v1/sessions", exchange(here, app, jwt()).json()["access_token"])
    assert str(id_) not in {session["id"] for session in sessions}
    assert here.run(graph.obj_get((id_,))) == {}, "an expired token must be deleted when another is issued"


def _expired(token: ProductToken) -> ProductToken:
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


@pytest.mark.parametrize("state", BARRED)
def test_token_exchange_for_barred_member_is_refused(here: NetworkFixture, app: dict[str, str], state: str) -> None:
    id_ = here.json("GET", ME, exchange(here, app, jwt()).json()["access_token"])["id"]
    here.run(BARRED[state](here.network.writes, int(id_)))
    answer = exchange(here, app, jwt())
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


def linked(here: NetworkFixture, name: str, sub: str, role: Role = Role.NONE) -> Member:
    """Return an existing member linked to a subject, with a role, or with a second factor if they have none."""
    member = here.join(name).member
    here.run(external_ids.link(here.network.writes, member.id, ExternalId(ISSUER, sub)))
    if role is not Role.NONE:
        return here.run(moderation.set_role(here.network.writes, member.id, role))
    change = change_object(
        here.network.writes.graph,
        lambda: get_object(here.network.writes.graph, Member, member.id),
        lambda now: changed(now, second_factor=True),
    )
    return here.run(change)


def test_token_exchange_for_member_with_role_or_second_factor_needs_setting() -> None:
    roles = {"1": Role.MODERATOR, "2": Role.ADMIN, "3": Role.NONE}
    for allowed, status in ((False, 400), (True, 200)):
        with network({"privileged_members": allowed}) as (here, app):
            for sub, role in roles.items():
                linked(here, f"m{sub}", sub, role)
                answer = exchange(here, app, jwt(sub=sub))
                assert answer.status_code == status, answer.text
                assert allowed or "Members with a role or a second factor" in answer.json()["error_description"]


def test_token_exchange_by_other_app_or_with_other_scope_than_allowed_is_refused() -> None:
    with network({"scopes": ["read", "write:statuses"]}) as (here, app):
        state = here.state()
        answer = exchange(here, app, jwt(), scope="read write")
        assert answer.json() == {
            "error": "invalid_scope",
            "error_description": "The issuer allows only the scopes read write:statuses",
        }
        assert here.state() == state
        assert exchange(here, app, jwt(), scope="read:accounts write:statuses").status_code == 200
    with network({"apps": ["1"]}) as (here, app):
        state = here.state()
        assert exchange(here, app, jwt()).json()["error"] == "unauthorized_client"
        assert here.state() == state


def test_token_exchange_again_with_same_jwt_does_not_extend_token(here: NetworkFixture, app: dict[str, str]) -> None:
    now = int(time.time())
    expires = [
        exchange(here, app, jwt(iat=now + issued, exp=now + expiry)).json()["expires_in"]
        for issued, expiry in ((-500, 60), (-2_000, 20), (-2_000, 300), (-2_000, 3_000))
    ]
    for seconds, maximum in zip(expires, (100, 50, 330, 600), strict=True):
        assert maximum - 20 < seconds <= maximum, expires


def test_token_exchange_with_single_use_accepts_each_jwt_once() -> None:
    with network({"single_use": True}) as (here, app):
        assert "needs the claim jti" in exchange(here, app, jwt()).json()["error_description"]
        text = jwt(jti="a")

        async def many() -> list[int]:
            sent = (here.request("POST", "/oauth/token", data=form(app, text)) for _ in range(5))
            return [answer.status_code for answer in await asyncio.gather(*sent)]

        assert sorted(here.run(many())) == [200, 400, 400, 400, 400]
        again = exchange(here, app, text).json()
        assert (again["error"], "was exchanged already" in again["error_description"]) == ("invalid_grant", True)
        assert exchange(here, app, jwt(jti="b")).status_code == 200


def test_token_exchange_tokens_are_revoked_by_unlinking(here: NetworkFixture, app: dict[str, str]) -> None:
    ben = here.join("ben")
    for sub in ("7", "8"):
        here.run(external_ids.link(here.network.writes, ben.member.id, ExternalId(ISSUER, sub)))
    seven, eight = (exchange(here, app, jwt(sub=sub)).json()["access_token"] for sub in ("7", "8"))
    here.run(external_ids.unlink(here.network.writes, ben.member.id, ExternalId(ISSUER, "7")))
    assert [here.ask("GET", ME, token).status_code for token in (seven, eight, ben.token)] == [401, 200, 200]


def test_token_exchange_during_unlinking_issues_no_token(
    here: NetworkFixture, app: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ben, writes = here.join("ben"), here.network.writes
    who = ExternalId(ISSUER, "7")
    here.run(external_ids.link(writes, ben.member.id, who))
    upsert = external_ids.upsert

    async def then_unlink(*given: Any, **more: Any) -> Any:
        found = await upsert(*given, **more)
        await external_ids.unlink(writes, ben.member.id, who)
        return found

    monkeypatch.setattr(external_ids, "upsert", then_unlink)
    answer = exchange(here, app, jwt(sub="7"))
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


def test_token_exchange_is_audited_with_issuer(here: NetworkFixture, app: dict[str, str]) -> None:
    exchange(here, app, jwt())
    (noted,) = here.run(entries(here.network.store, AuditVerb.LOGIN_SUCCEEDED))
    assert noted.entry.details == {"app": app["client_id"], "issuer": ISSUER}


def test_token_exchange_token_is_kind_that_older_versions_refuse(here: NetworkFixture, app: dict[str, str]) -> None:
    id_ = opened(exchange(here, app, jwt()).json()["access_token"]).id
    stored = here.run(here.network.writes.graph.obj_get((id_,)))[id_]
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(stored), type=Token)


def test_token_exchange_is_limited_by_user_and_failures_by_address() -> None:
    limits = {"login": "3/5m", "exchange": "4/5m", "apps": "off"}
    with network({}, rate_limits=True, limits=limits) as (here, app):
        statuses = [exchange(here, app, jwt(sub=str(number % 5))).status_code for number in range(20)]
        assert statuses == [200] * 20, "successful exchanges of many users at one address"
        assert exchange(here, app, jwt(sub="0")).status_code == 429
        assert exchange(here, registered(here), jwt(sub="0")).status_code == 200, "each app has a limit of its own"
        assert [exchange(here, app, jwt(exp=1)).status_code for _ in range(4)] == [400] * 3 + [429]
        password = {"grant_type": "password", "username": "ann", "password": "x", **app}
        assert here.ask("POST", "/oauth/token", data=password).status_code == 429
        assert exchange(here, app, jwt(sub="9")).status_code == 200


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"subject_token": "x"}, "invalid_request"),
        ({"subject_token": ""}, "invalid_request"),
        ({"subject_token_type": ""}, "invalid_request"),
        ({"subject_token_type": "urn:ietf:params:oauth:token-type:saml2"}, "invalid_request"),
        ({"requested_token_type": "urn:ietf:params:oauth:token-type:refresh_token"}, "invalid_request"),
        ({"actor_token": "x"}, "invalid_request"),
        ({"resource": "https://social.example"}, "invalid_target"),
        ({"audience": "other"}, "invalid_target"),
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

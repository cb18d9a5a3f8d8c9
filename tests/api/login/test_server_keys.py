"""Server keys: their secrets, rotation and deletion, the routes they may use, and acting for members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
from msgspec.structs import replace as changed

from shoal.admin.consistency.check import check
from shoal.commands import account_deletions, external_ids, moderation, oauth, server_keys
from shoal.commands.context import Writes
from shoal.commands.external_ids import ExternalProfile
from shoal.commands.server_keys import MAX_KEYS, KeyDetails
from shoal.core.audit import AuditVerb
from shoal.core.errors import InvalidInput, InvalidToken, NotFound, Taken, Unfit
from shoal.core.external_ids import ExternalId
from shoal.core.ids import MAX_ID, IdMaker, now_ms, shard_of
from shoal.core.model import App, Node, ProductToken, Role, Token
from shoal.core.tokens import TokenLifetime, opened
from shoal.graph.contract import Batch, Reader, find_object
from shoal.graph.payloads.members import drop_login
from shoal.http.authentication import key_scopes
from shoal.http.routes import Route
from shoal.mastodon_api.routes import table
from shoal.settings import Settings
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.audit.log_reader import entries

KEY = "/api/shoal/v1/server_key"
BARRED: dict[str, Callable[[Writes, int], Coroutine[Any, Any, object]]] = {
    "suspended": moderation.suspend,
    "disabled": moderation.disable,
    "leaving": lambda writes, id_: account_deletions.dismiss(writes, id_, 30),
}
ME = "/api/v1/accounts/verify_credentials"
ROUTES = table(Settings())
OTHER_ROUTES = [route for route in ROUTES if route.auth in {"optional", "app", "client", "user"}]
SERVER_ROUTES = [route for route in ROUTES if route.auth == "server"]


def create(shoal: NetworkFixture, name: str, *scopes: str) -> str:
    """Create a server key and return its secret."""
    return shoal.run(server_keys.create(shoal.network.writes, name, key_scopes(scopes))).secret


def ask(
    shoal: NetworkFixture, secret: str, path: str, *members: str, method: str = "GET", **more: Any
) -> httpx.Response:
    """Send a request with a server key, with a header for each of `members`."""
    headers = [("Authorization", f"Bearer {secret}"), *(("Shoal-Member", member) for member in members)]
    return shoal.run(shoal._client.request(method, path, headers=headers, **more))


def path_of(route: Route) -> str:
    return route.path.replace("{", "").replace("}", "")


def test_server_key_shows_its_name_and_scopes_and_stores_only_hash_of_secret(shoal: NetworkFixture) -> None:
    secret = create(shoal, "shop", "server:act", "read")
    shown = ask(shoal, secret, KEY).json()
    assert (shown["name"], shown["scopes"]) == ("shop", ["server:act", "read"])
    assert shown["last_used_at"] is shown["replaced_until"] is None
    assert not [node for node in shoal.state().objects if opened(secret).secret in msgspec.msgpack.encode(node)]


def test_server_key_use_is_recorded_with_time_and_address(shoal: NetworkFixture) -> None:
    secret = create(shoal, "shop", "server")
    ask(shoal, secret, KEY)

    async def used() -> KeyDetails:
        async with asyncio.timeout(60):
            while not (found := (await server_keys.keys(shoal.network.writes.graph))[0]).used_at:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            return found

    found = shoal.run(used())
    assert found.used_at >= found.created_at
    assert found.used_from == "127.0.0.1"


@pytest.mark.parametrize("route", OTHER_ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_server_key_without_member_on_other_route_is_refused(keyed: tuple[NetworkFixture, str], route: Route) -> None:
    shoal, secret = keyed
    answer = ask(shoal, secret, path_of(route), method=route.method)
    assert (answer.status_code, answer.json()) == (403, {"error": "A server key needs the header Shoal-Member here"})


@pytest.mark.parametrize("route", SERVER_ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_server_route_for_other_token_or_acting_key_is_refused(keyed: tuple[NetworkFixture, str], route: Route) -> None:
    shoal, secret = keyed
    ann = shoal.network.writes
    member = shoal.run(external_ids.find(ann.graph, ExternalId("shop", "1")))
    assert member is not None
    app = shoal.run(oauth.register(shoal.network.writes, "App", scopes=("read", "write"))).app
    tokens = (shoal.token(app.id), shoal.token(app.id, member.id))
    answers = [shoal.ask(route.method, path_of(route), token) for token in tokens]
    answers.append(ask(shoal, secret, path_of(route), f"id:{member.id}", method=route.method))
    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert [answer.json()["error"] for answer in answers] == [
        *["This needs a server key" if route.scope is None else "This action is outside the authorized scopes"] * 2,
        "A server key must not send the header Shoal-Member here",
    ]


@pytest.fixture(scope="module")
def keyed(shared: NetworkFixture) -> tuple[NetworkFixture, str]:
    """Return a network with a member and a server key that has every scope."""
    profile = ExternalProfile(user_name="ann")
    shared.run(external_ids.upsert(shared.network.writes, ExternalId("shop", "1"), profile))
    return shared, create(
        shared, "everything", "server", "server:webhooks", "read", "write", "admin:read", "admin:write"
    )


def test_server_key_acts_for_member_by_id_and_by_external_id(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    external = ExternalId("https://shop.example/users", "ä:1/2")
    shoal.run(external_ids.link(shoal.network.writes, ann.member.id, external))
    secret = create(shoal, "shop", "server:act", "read", "write:statuses")
    for member in (f"id:{ann.id}", f"external:{external}"):
        assert ask(shoal, secret, ME, member).json()["id"] == ann.id
    posted = ask(shoal, secret, "/api/v1/statuses", f"id:{ann.id}", method="POST", json={"status": "Low tide"})
    assert posted.json()["account"]["id"] == ann.id
    assert posted.json()["application"]["name"] == "shop"


def test_server_key_acting_for_member_is_limited_to_its_scopes(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    secret = create(shoal, "shop", "server:act", "read")
    answer = ask(shoal, secret, "/api/v1/statuses", f"id:{ann.id}", method="POST", json={"status": "x"})
    assert (answer.status_code, answer.json()["error"]) == (403, "This action is outside the authorized scopes")


def test_server_key_acting_for_admin_needs_admin_scope(shoal: NetworkFixture) -> None:
    boss = shoal.staff("boss", Role.ADMIN)
    path = "/api/v1/admin/accounts"
    assert ask(shoal, create(shoal, "a", "server:act", "read"), path, f"id:{boss.id}").status_code == 403
    assert ask(shoal, create(shoal, "b", "server:act", "admin:read"), path, f"id:{boss.id}").status_code == 200


def test_server_key_without_act_scope_may_not_act_for_member(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    answer = ask(shoal, create(shoal, "shop", "server:members", "read"), ME, f"id:{ann.id}")
    assert answer.status_code == 403
    assert "server:act" in answer.json()["error"]


@pytest.mark.parametrize(
    "header",
    [
        *("ann", "id:", "id:x", "id:-1", f"id:{'9' * 20}", "name:ann"),
        *("external:shop", "external:a:b:c", "external::1", "external:shop:", "external:shop:%FF"),
        *(f"external:shop:{'x' * 256}", "external:sh%00p:1"),
        *("external:shop:%zz", "external:shop:1%", "external:shop:%2", "external:shop:a b"),
    ],
)
def test_server_key_with_malformed_member_header_is_refused(keyed: tuple[NetworkFixture, str], header: str) -> None:
    shoal, secret = keyed
    answer = ask(shoal, secret, ME, header)
    assert answer.status_code == 422, answer.text
    assert "Shoal-Member" in answer.json()["error"]


def test_server_key_with_two_member_headers_is_refused(keyed: tuple[NetworkFixture, str]) -> None:
    shoal, secret = keyed
    assert ask(shoal, secret, ME, "external:shop:1", "external:shop:1").status_code == 422


@pytest.mark.parametrize(
    "header", ["id:1", f"id:{'9' * 19}", "external:shop:2", f"external:{quote('shop:1', safe='')}:1"]
)
def test_server_key_for_unknown_member_is_refused(keyed: tuple[NetworkFixture, str], header: str) -> None:
    shoal, secret = keyed
    answer = ask(shoal, secret, ME, header)
    assert (answer.status_code, answer.json()["error"]) == (403, "Shoal-Member: there is no such member")


def test_server_key_for_member_id_above_maximum_asks_store_for_possible_id(
    shoal: NetworkFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, asked = create(shoal, "shop", "server:act", "read"), list[int]()

    async def find(graph: Reader, kind: type[Node], id_: int) -> Node | None:
        asked.append(id_)
        return await find_object(graph, kind, id_)

    monkeypatch.setattr("shoal.http.authentication.find_object", find)
    assert ask(shoal, secret, ME, f"id:{'9' * 19}").status_code == 403
    assert max(asked) == MAX_ID, "PostgreSQL refuses integers of more than 63 bits"


@pytest.mark.parametrize("state", BARRED)
def test_server_key_for_barred_member_is_refused(shoal: NetworkFixture, state: str) -> None:
    ann = shoal.join("ann")
    shoal.run(BARRED[state](shoal.network.writes, ann.member.id))
    answer = ask(shoal, create(shoal, "shop", "server:act", "read"), ME, f"id:{ann.id}")
    assert answer.status_code == 403
    assert "login is currently" in answer.text or "account to be deleted" in answer.text


def test_server_key_with_malformed_member_headers_is_limited() -> None:
    with network_fixture(rate_limits=True, limits={"api": "3/5m"}) as here:
        secret = create(here, "shop", "server:act", "read")
        assert [ask(here, secret, ME, "ann").status_code for _ in range(4)] == [422] * 3 + [429]


def test_server_key_acting_for_member_leaves_their_own_limit() -> None:
    with network_fixture(rate_limits=True, limits={"api": "3/5m", "server": "2/5m"}) as here:
        ann, ben = here.join("ann"), here.join("ben")
        secret, other = (create(here, name, "server", "read") for name in ("shop", "kiosk"))
        for member, statuses in ((ann, [200] * 3 + [429]), (ben, [200] * 3)):
            assert [ask(here, secret, ME, f"id:{member.id}").status_code for _ in statuses] == statuses
        assert ask(here, ann.token, ME).status_code == 200
        assert [ask(here, secret, KEY).status_code for _ in range(3)] == [200, 200, 429]
        assert ask(here, other, KEY).status_code == 200, "keys at one address have limits of their own"


def test_member_token_ignores_member_header(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    assert ask(shoal, ann.token, ME, f"id:{ben.id}").json()["id"] == ann.id


def test_server_key_action_is_audited_with_member_and_key(shoal: NetworkFixture) -> None:
    boss, ann = shoal.staff("boss", Role.ADMIN), shoal.join("ann")
    secret = create(shoal, "shop", "server:act", "admin:write")
    path = f"/api/v1/admin/accounts/{ann.id}/action"
    assert ask(shoal, secret, path, f"id:{boss.id}", method="POST", json={"type": "silence"}).status_code == 200
    (noted,) = shoal.run(entries(shoal.network.store, AuditVerb.MEMBER_SILENCED))
    assert (noted.entry.actor_name, noted.entry.details["key"]) == ("boss", "shop")


def test_server_key_rotation_keeps_replaced_secret_for_grace_and_ends_earlier_ones(shoal: NetworkFixture) -> None:
    writes = shoal.network.writes
    first = create(shoal, "shop", "server")
    secrets = [first, *(shoal.run(server_keys.rotate(writes, "shop", 3_600)).secret for _ in range(2))]
    assert [ask(shoal, secret, KEY).status_code for secret in secrets] == [401, 200, 200]
    assert ask(shoal, secrets[2], KEY).json()["replaced_until"] is not None
    last = shoal.run(server_keys.rotate(writes, "shop", 0)).secret
    assert [ask(shoal, secret, KEY).status_code for secret in (*secrets, last)] == [401, 401, 401, 200]
    assert ask(shoal, last, KEY).json()["replaced_until"] is None


def test_server_key_replaced_secret_expires_after_grace(shoal: NetworkFixture) -> None:
    writes, old = shoal.network.writes, create(shoal, "shop", "server")
    shoal.run(server_keys.rotate(writes, "shop", 3_600))
    replaced = shoal.run(writes.graph.obj_get((opened(old).id,)))[opened(old).id]
    assert isinstance(replaced, ProductToken)
    now = writes.new_id.now()
    assert now < replaced.expires_at <= now + 3_600_000
    batch = Batch(shard_of(replaced.id))
    batch.obj_set(changed(replaced, expires_at=now, version=replaced.version + 1))
    shoal.run(writes.graph.commit(batch))
    assert ask(shoal, old, KEY).status_code == 401


def test_server_key_expired_replaced_secret_is_not_shown(shoal: NetworkFixture) -> None:
    writes, old = shoal.network.writes, create(shoal, "shop", "server")
    new = shoal.run(server_keys.rotate(writes, "shop", 3_600)).secret
    replaced = shoal.run(writes.graph.obj_get((opened(old).id,)))[opened(old).id]
    assert isinstance(replaced, ProductToken)
    batch = Batch(shard_of(replaced.id))
    batch.obj_set(changed(replaced, expires_at=1, version=replaced.version + 1))
    shoal.run(writes.graph.commit(batch))
    assert ask(shoal, new, KEY).json()["replaced_until"] is None


def test_server_key_without_secret_gets_one_by_rotation(shoal: NetworkFixture) -> None:
    writes, old = shoal.network.writes, create(shoal, "shop", "server")
    batch = Batch(shard_of(opened(old).id))
    app_id = shoal.run(writes.graph.obj_get((opened(old).id,)))[opened(old).id].app_id  # type: ignore[union-attr]
    drop_login(batch, app_id, opened(old).id, writes.new_id(batch.shard))
    shoal.run(writes.graph.commit(batch))
    assert ask(shoal, shoal.run(server_keys.rotate(writes, "shop")).secret, KEY).status_code == 200


def test_server_key_secret_is_kind_that_older_versions_refuse(shoal: NetworkFixture) -> None:
    id_ = opened(create(shoal, "shop", "server")).id
    stored = shoal.run(shoal.network.writes.graph.obj_get((id_,)))[id_]
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(stored), type=Token)


def test_server_key_concurrent_rotations_leave_two_valid_secrets(shoal: NetworkFixture) -> None:
    writes, first = shoal.network.writes, create(shoal, "shop", "server")

    async def rotate_often() -> list[str]:
        return [made.secret for made in await asyncio.gather(*(server_keys.rotate(writes, "shop") for _ in range(6)))]

    secrets = [first, *shoal.run(rotate_often())]
    assert sorted(ask(shoal, secret, KEY).status_code for secret in secrets) == [200] * 2 + [401] * 5


def test_server_key_deletion_ends_it_and_frees_its_name(shoal: NetworkFixture) -> None:
    secret = create(shoal, "shop", "server")
    shoal.run(server_keys.delete(shoal.network.writes, "shop"))
    assert ask(shoal, secret, KEY).status_code == 401
    assert shoal.run(server_keys.keys(shoal.network.writes.graph)) == []
    assert not [node for node in shoal.state().objects if isinstance(node, App | Token)]
    assert ask(shoal, create(shoal, "shop", "server"), KEY).status_code == 200
    with pytest.raises(NotFound, match="no server key 'other'"):
        shoal.run(server_keys.delete(shoal.network.writes, "other"))


def test_server_key_does_not_expire_for_lack_of_use(shoal: NetworkFixture) -> None:
    secret, ann = create(shoal, "shop", "server"), shoal.join("ann")
    later = IdMaker(lambda: now_ms() + 10 * 86_400_000)
    writes = replace(shoal.network.writes, lifetime=TokenLifetime(1, 1), new_id=later)
    with pytest.raises(InvalidToken):
        shoal.run(oauth.check_token(writes, ann.token))
    assert shoal.run(oauth.check_token(writes, secret)).member is None


def test_server_key_scopes_are_not_available_to_apps(shoal: NetworkFixture) -> None:
    for scope in ("server", "server:act", "server:link", "server:members"):
        form = {"client_name": "App", "redirect_uris": "urn:x", "scopes": scope}
        assert shoal.ask("POST", "/api/v1/apps", json=form).status_code == 422


@pytest.mark.parametrize("scopes", [["read"], [], ["server:act", "push"], ["server:act", "reed"], ["server:all"]])
def test_server_key_with_invalid_scopes_is_refused(scopes: list[str]) -> None:
    with pytest.raises(InvalidInput, match="scopes: ") as raised:
        key_scopes(scopes)
    assert len(str(raised.value)) < 300


def test_server_key_name_is_unique_and_bounded(shoal: NetworkFixture) -> None:
    create(shoal, "shop", "server")
    with pytest.raises(Taken, match="there is a server key 'shop' already"):
        create(shoal, "shop", "server")
    for name in ("", " ", "x" * 101):
        with pytest.raises(InvalidInput, match="name"):
            create(shoal, name, "server")


def test_server_key_count_is_bounded(shoal: NetworkFixture) -> None:
    for number in range(MAX_KEYS):
        create(shoal, f"key {number}", "server")
    with pytest.raises(Unfit, match="100 server keys"):
        create(shoal, "one more", "server")


def test_server_key_changes_leave_store_consistent_and_audited(shoal: NetworkFixture) -> None:
    writes = shoal.network.writes
    create(shoal, "shop", "server")
    create(shoal, "kiosk", "server")
    shoal.run(server_keys.rotate(writes, "shop"))
    shoal.run(server_keys.delete(writes, "kiosk"))
    shoal.settle()
    report = shoal.run(check(shoal.network))
    assert report.clean, report
    for verb, names in (
        (AuditVerb.SERVER_KEY_CREATED, ["kiosk", "shop"]),
        (AuditVerb.SERVER_KEY_ROTATED, ["shop"]),
        (AuditVerb.SERVER_KEY_DELETED, ["kiosk"]),
    ):
        assert sorted(noted.entry.target_name for noted in shoal.run(entries(shoal.network.store, verb))) == names

"""External ids over the API: create, change and look up members by their ids in another product."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from shoal.admin.consistency.check import check
from shoal.admin.export import export
from shoal.commands import account_deletions, blocklists, external_ids, moderation, server_keys
from shoal.commands.context import Writes
from shoal.commands.external_ids import ExternalProfile, Upserted
from shoal.core.audit import AuditVerb
from shoal.core.errors import InvalidInput, NotFound, Unavailable
from shoal.core.external_ids import MAX_PER_MEMBER, ExternalId, ExternalKind, external_id
from shoal.core.ids import now_ms
from shoal.core.model import Role
from shoal.graph.contract import Batch
from shoal.graph.schema import external_id_key
from shoal.scheduler import Agenda
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.audit.log_reader import entries
from tests.web.browser import visitor

BASE = "/api/shoal/v1/members"
SHOP = "https://shop.example"


@pytest.fixture
def secret(shoal: NetworkFixture) -> str:
    return create(shoal, "shop", "server:members", "server:link")


def create(shoal: NetworkFixture, name: str, *scopes: str) -> str:
    """Create a server key and return its secret."""
    return shoal.run(server_keys.create(shoal.network.writes, name, scopes)).secret


def path(id_: str, issuer: str = SHOP) -> str:
    return f"{BASE}/by-external-id/{quote(issuer, safe='')}/{quote(id_, safe='')}"


def put(shoal: NetworkFixture, secret: str, id_: str, issuer: str = SHOP, **body: Any) -> httpx.Response:
    return shoal.ask("PUT", path(id_, issuer), secret, json=body)


def test_external_id_put_creates_member_without_password_and_shows_it(shoal: NetworkFixture, secret: str) -> None:
    made = put(shoal, secret, "42", username="Ann", display_name="Ann A.", note="Sails", locale="de_DE")
    assert made.status_code == 201, made.text
    shown = made.json()
    assert (shown["username"], shown["display_name"], shown["note"]) == ("ann", "Ann A.", "Sails")
    assert (shown["locale"], shown["suspended"]) == ("de-DE", False)
    assert shown["external_ids"] == [{"issuer": SHOP, "id": "42"}]
    assert shoal.json("GET", path("42"), secret) == shown
    assert shoal.json("GET", f"{BASE}/{shown['id']}", secret) == shown
    form = {"grant_type": "password", "username": "ann", "password": "", **_app(shoal)}
    assert shoal.ask("POST", "/oauth/token", data=form).status_code == 400


def _app(shoal: NetworkFixture) -> dict[str, str]:
    made = shoal.json("POST", "/api/v1/apps", json={"client_name": "App", "redirect_uris": "urn:x"})
    return {name: made[name] for name in ("client_id", "client_secret")}


def test_external_id_put_again_changes_given_values_only(shoal: NetworkFixture, secret: str) -> None:
    first = put(shoal, secret, "42", username="ann", display_name="Ann", note="Sails").json()
    state = shoal.state()
    assert put(shoal, secret, "42", username="other", display_name="Ann").json() == first
    assert shoal.state() == state
    again = put(shoal, secret, "42", display_name="Anna")
    assert (again.status_code, again.json()) == (200, {**first, "display_name": "Anna"})
    assert put(shoal, secret, "42", note="").json()["note"] == ""
    put(shoal, secret, "42", display_name="Ren\u00e9", note="a\nb")
    state = shoal.state()
    put(shoal, secret, "42", display_name="Rene\u0301", note="a\r\nb")
    assert shoal.state() == state, "an equal text in another form must not be written"


def test_external_id_put_with_taken_name_assigns_next_free_one(shoal: NetworkFixture, secret: str) -> None:
    shoal.run(blocklists.block_name(shoal.network.writes, "ann_3"))
    names = [put(shoal, secret, str(n), username="ann").json()["username"] for n in range(4)]
    assert names == ["ann", "ann_2", "ann_4", "ann_5"]


@pytest.mark.parametrize(
    ("proposed", "name"),
    [
        ("José Müller!", "jose_muller"),
        ("admin", "admin_2"),
        ("", "member"),
        ("\u6d77", "member"),
        ("x" * 40, "x" * 30),
        ("@ann@shop.example", "ann_shop_example"),
    ],
)
def test_external_id_put_with_invalid_name_assigns_similar_one(
    shoal: NetworkFixture, secret: str, proposed: str, name: str
) -> None:
    assert put(shoal, secret, "42", username=proposed).json()["username"] == name


@pytest.mark.parametrize(
    "id_",
    [
        "6f1c2a9e-8f0b-4c6e-9a51-0a7d3a1d2b3c",
        "auth0|5f7c8ec7",
        "a/b/c",
        "50%",
        "%2F",
        "a b+c",
        "ä" * 127,
        "\u6d77",
        "x" * 255,
        "?q=1#f",
        "a:b",
    ],
)
def test_external_id_may_be_any_text_of_255_bytes(shoal: NetworkFixture, secret: str, id_: str) -> None:
    issuer = f"{SHOP}/users"
    assert put(shoal, secret, id_, issuer).status_code == 201
    assert shoal.json("GET", path(id_, issuer), secret)["external_ids"] == [{"issuer": issuer, "id": id_}]


@pytest.mark.parametrize("id_", ["x" * 256, "ä" * 128])
def test_external_id_of_more_than_255_bytes_is_refused(shoal: NetworkFixture, secret: str, id_: str) -> None:
    for answer in (put(shoal, secret, id_), put(shoal, secret, "42", id_)):
        assert (answer.status_code, "at most 255 bytes (got 256)" in answer.text) == (422, True)


def test_external_id_that_is_empty_does_not_address_another_member(shoal: NetworkFixture, secret: str) -> None:
    ann, ben = put(shoal, secret, "b", "a", username="ann").json(), shoal.join("ben")
    state, base = shoal.state(), f"{BASE}/by-external-id"
    for end in ("a%2Fb", "a%2Fb/", "/b", "a//", "a%2Fb//"):
        for method in ("GET", "PUT", "DELETE"):
            body = {"json": {"display_name": "Ben"}} if method == "PUT" else {}
            assert shoal.ask(method, f"{base}/{end}", secret, **body).status_code in {404, 405}, (method, end)
    for end in ("a%2Fc%2Flink", "a%2Fc/link", "/a/link", "a//link"):
        answer = shoal.ask("POST", f"{base}/{end}", secret, json={"member_id": ben.id})
        assert answer.status_code in {404, 405}, end
    assert shoal.state() == state
    assert shoal.json("GET", path("b", "a"), secret) == ann


def test_external_id_that_is_not_utf8_is_unknown_path(shoal: NetworkFixture, secret: str) -> None:
    state = shoal.state()
    for end in ("shop/%FF", "%FE/a%2Fb", "shop/%ED%A0%80"):
        assert shoal.ask("PUT", f"{BASE}/by-external-id/{end}", secret, json={}).status_code == 404
    assert shoal.state() == state


def test_external_id_batch_with_empty_id_states_the_fault(shoal: NetworkFixture, secret: str) -> None:
    members = [{"issuer": SHOP, "id": ""}]
    (found,) = shoal.json("POST", f"{BASE}/by-external-id", secret, json={"members": members})
    assert (found["status"], found["error"]) == (422, "Validation failed: id: this must not be empty")


@pytest.mark.parametrize(("id_", "character"), [("a\0", r"the character U\+0000"), ("\ud800", "a lone surrogate")])
def test_external_id_with_invalid_character_is_refused(id_: str, character: str) -> None:
    with pytest.raises(InvalidInput, match=f"id: this must not contain {character}"):
        external_id(SHOP, id_)


def test_external_id_parts_are_not_confused(shoal: NetworkFixture, secret: str) -> None:
    pairs = [("ab", "c"), ("a", "bc"), ("a/b", "c"), ("a", "b/c"), ("A", "bc"), ("a", "BC")]
    ids = {put(shoal, secret, id_, issuer).json()["id"] for issuer, id_ in pairs}
    assert len(ids) == len(pairs)


def test_external_id_put_with_invalid_profile_creates_nothing(shoal: NetworkFixture, secret: str) -> None:
    state = shoal.state()
    for body in ({"display_name": "x" * 101}, {"note": "x" * 501}):
        assert put(shoal, secret, "42", **body).status_code == 422
    assert shoal.state() == state
    assert shoal.ask("GET", path("42"), secret).status_code == 404


def test_external_id_batch_returns_result_for_each_member(shoal: NetworkFixture, secret: str) -> None:
    put(shoal, secret, "1", username="ann")
    members = [
        {"issuer": SHOP, "id": "1", "display_name": "Ann"},
        {"issuer": SHOP, "id": "2", "username": "ben"},
        {"issuer": SHOP, "id": "x" * 300},
        {"issuer": SHOP, "id": "3", "display_name": "x" * 200},
    ]
    found = shoal.json("POST", f"{BASE}/by-external-id", secret, json={"members": members})
    assert [result["status"] for result in found] == [200, 201, 422, 422]
    assert [result["id"] for result in found] == [member["id"] for member in members]
    assert found[0]["member"]["display_name"] == "Ann"
    assert found[1]["member"]["username"] == "ben"
    assert found[2]["member"] is None
    assert "at most 255 bytes" in found[2]["error"]


def test_external_id_batch_of_1000_members_creates_all(shoal: NetworkFixture, secret: str) -> None:
    members = [
        {"issuer": SHOP, "id": str(n), "username": f"m{n}", "display_name": f"Member {n}", "note": "n", "locale": "de"}
        for n in range(1_000)
    ]
    found = shoal.json("POST", f"{BASE}/by-external-id", secret, json={"members": members})
    assert [(result["status"], result["member"]["username"]) for result in found] == [
        (201, f"m{n}") for n in range(1_000)
    ]
    more = {"members": [*members, {"issuer": SHOP, "id": "1000"}]}
    assert shoal.ask("POST", f"{BASE}/by-external-id", secret, json=more).status_code == 422


def test_external_id_batch_with_equal_ids_creates_one_member(shoal: NetworkFixture, secret: str) -> None:
    members = [{"issuer": SHOP, "id": "1", "username": "ann"}] * 20
    found = shoal.json("POST", f"{BASE}/by-external-id", secret, json={"members": members})
    assert sorted(result["status"] for result in found) == [200] * 19 + [201]
    assert {result["member"]["username"] for result in found} == {"ann"}


def test_external_id_batch_with_unexpected_failure_stops_other_members(
    shoal: NetworkFixture, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def upsert(_writes: Writes, external: ExternalId, _profile: ExternalProfile) -> Upserted:
        asked.append(external.id)
        if external.id == "0":
            raise RuntimeError("broken")
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(external_ids, "upsert", upsert)
    members = [{"issuer": SHOP, "id": str(n)} for n in range(100)]
    answer = shoal.ask("POST", f"{BASE}/by-external-id", secret, json={"members": members})
    assert answer.status_code == 500
    assert len(asked) < 20
    assert not shoal.run(running())


async def running() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if "put_members" in repr(task)]


def test_external_id_batch_result_of_unavailable_member_states_when_to_retry(
    shoal: NetworkFixture, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def upsert(_writes: Writes, external: ExternalId, _profile: ExternalProfile) -> Upserted:
        raise Unavailable("not now", retry_after=2.5) if external.id == "1" else NotFound("secret detail")

    monkeypatch.setattr(external_ids, "upsert", upsert)
    members = [{"issuer": SHOP, "id": id_} for id_ in "12"]
    found = shoal.json("POST", f"{BASE}/by-external-id", secret, json={"members": members})
    assert [(result["status"], result["error"], result["retry_after"]) for result in found] == [
        (503, "not now", 3),
        (404, "Record not found", None),
    ]


def test_external_id_creations_are_limited_by_key_and_number_of_members() -> None:
    with network_fixture(rate_limits=True, limits={"server_members": "10/5m", "server": "100/5m"}) as here:
        one, other = (create(here, name, "server:members") for name in ("one", "other"))
        members = [{"issuer": SHOP, "id": str(n)} for n in range(9)]
        assert here.ask("POST", f"{BASE}/by-external-id", one, json={"members": members}).status_code == 200
        assert put(here, one, "10").status_code == 201
        assert (put(here, one, "11").status_code, put(here, other, "11").status_code) == (429, 201)


def test_external_id_link_without_link_scope_is_refused(shoal: NetworkFixture, secret: str) -> None:
    ann = shoal.join("ann")
    put(shoal, secret, "42", username="ben")
    limited = create(shoal, "crm", "server:members", "server:act", "read")
    state = shoal.state()
    assert shoal.ask("POST", f"{path('1')}/link", limited, json={"member_id": ann.id}).status_code == 403
    assert shoal.ask("DELETE", path("42"), limited).status_code == 403
    assert shoal.state() == state
    whole = create(shoal, "whole", "server")
    assert shoal.ask("POST", f"{path('1')}/link", whole, json={"member_id": ann.id}).status_code == 200


@pytest.mark.parametrize("role", [Role.MODERATOR, Role.ADMIN])
def test_external_id_link_to_member_with_role_needs_operator(shoal: NetworkFixture, secret: str, role: Role) -> None:
    boss = shoal.staff("boss", role)
    answer = shoal.ask("POST", f"{path('1')}/link", secret, json={"member_id": boss.id})
    assert (answer.status_code, "only an operator" in answer.text) == (403, True)
    assert shoal.ask("GET", path("1"), secret).status_code == 404
    shoal.run(external_ids.link(shoal.network.writes, boss.member.id, ExternalId(SHOP, "1")))
    assert shoal.json("GET", path("1"), secret)["id"] == boss.id


def test_external_id_link_to_suspended_or_missing_member_is_refused(shoal: NetworkFixture, secret: str) -> None:
    ann = shoal.join("ann")
    shoal.run(moderation.suspend(shoal.network.writes, ann.member.id))
    for id_, status in ((ann.id, 410), ("1", 404)):
        assert shoal.ask("POST", f"{path('1')}/link", secret, json={"member_id": id_}).status_code == status
    assert shoal.ask("GET", path("1"), secret).status_code == 404


def test_external_id_link_adds_ids_to_existing_member_up_to_maximum(shoal: NetworkFixture, secret: str) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    for n in range(MAX_PER_MEMBER):
        twice = [shoal.json("POST", f"{path(str(n))}/link", secret, json={"member_id": ann.id}) for _ in range(2)]
        assert [len(shown["external_ids"]) for shown in twice] == [n + 1] * 2
    refused = shoal.ask("POST", f"{path('9')}/link", secret, json={"member_id": ann.id})
    assert (refused.status_code, refused.json()["error"]) == (422, "a member has at most 5 external ids")
    taken = shoal.ask("POST", f"{path('0')}/link", secret, json={"member_id": ben.id})
    assert (taken.status_code, "another member has this" in taken.text) == (422, True)
    assert put(shoal, secret, "0", display_name="Ann").json()["id"] == ann.id


def test_external_id_deletion_frees_it_and_keeps_member(shoal: NetworkFixture, secret: str) -> None:
    first = put(shoal, secret, "42", username="ann").json()
    assert shoal.json("DELETE", path("42"), secret) == {}
    assert shoal.ask("DELETE", path("42"), secret).status_code == 404
    assert shoal.json("GET", f"{BASE}/{first['id']}", secret)["external_ids"] == []
    assert put(shoal, secret, "42", username="ann").json()["username"] == "ann_2"


def test_external_id_link_and_deletion_are_audited(shoal: NetworkFixture, secret: str) -> None:
    ann = shoal.join("ann")
    shoal.json("POST", f"{path('1')}/link", secret, json={"member_id": ann.id})
    shoal.json("DELETE", path("1"), secret)
    for verb in (AuditVerb.EXTERNAL_ID_LINKED, AuditVerb.EXTERNAL_ID_UNLINKED):
        (noted,) = shoal.run(entries(shoal.network.store, verb))
        digest = ExternalId(SHOP, "1").digest[:16]
        assert noted.entry.details == {"issuer": SHOP, "id_digest": digest, "key": "shop"}
        assert noted.entry.target_id == ann.member.id
        assert (noted.entry.address, noted.entry.holder_id) == ("127.0.0.1", 0)


def test_external_id_change_by_key_is_not_in_export_of_member(
    shoal: NetworkFixture, secret: str, tmp_path: Path
) -> None:
    ann = shoal.join("ann")
    shoal.json("POST", f"{path('very-secret-id')}/link", secret, json={"member_id": ann.id})
    acting = create(shoal, "kiosk", "server:act", "write")
    headers = {"Shoal-Member": f"id:{ann.id}"}
    shoal.json("PATCH", "/api/v1/accounts/update_credentials", acting, json={"note": "Sails"}, headers=headers)
    shoal.settle()
    shoal.run(export(shoal.network, "ann", tmp_path / "ann"))
    for file in (tmp_path / "ann").rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        for secret_text in (b"external_id", b"very-secret-id", SHOP.encode(), b"kiosk", b"key: shop"):
            assert secret_text not in content, (file.name, secret_text)


def test_external_id_change_names_key_as_actor_on_audit_page(shoal: NetworkFixture, secret: str) -> None:
    shoal.staff("chief", Role.ADMIN)
    ann = shoal.join("ann")
    shoal.json("POST", f"{path('1')}/link", secret, json={"member_id": ann.id})
    shown = visitor(shoal, "chief").open("/moderation/audit?verb=external_id.linked").text
    assert "Server key shop" in shown
    assert "Anonymous visitor" not in shown


def test_external_id_of_suspended_member_is_shown_but_not_changed(shoal: NetworkFixture, secret: str) -> None:
    ann = put(shoal, secret, "42", username="ann").json()
    shoal.run(moderation.suspend(shoal.network.writes, int(ann["id"])))
    assert shoal.json("GET", path("42"), secret)["suspended"] is True
    assert put(shoal, secret, "42", display_name="Ann").status_code == 410


def test_external_id_is_in_no_response_for_members(shoal: NetworkFixture, secret: str) -> None:
    made = put(shoal, secret, "very-secret-id", username="ann").json()
    ben = shoal.join("ben")
    for route in (f"/api/v1/accounts/{made['id']}", "/api/v1/accounts/lookup?acct=ann", "/api/v2/search?q=ann"):
        assert "very-secret-id" not in shoal.ask("GET", route, ben).text


def test_external_id_of_deleted_account_is_free(shoal: NetworkFixture, secret: str) -> None:
    first = put(shoal, secret, "42", username="ann").json()
    writes = shoal.network.writes
    shoal.run(account_deletions.dismiss(writes, int(first["id"]), 0))
    assert put(shoal, secret, "42", username="ann").status_code == 410

    async def delete() -> None:
        for _ in range(20):
            await Agenda(writes, clock=lambda: now_ms() + 1_000).once()

    shoal.run(delete())
    shoal.settle()
    assert shoal.ask("GET", path("42"), secret).status_code == 404
    again = put(shoal, secret, "42", username="ann")
    assert (again.status_code, again.json()["username"]) == (201, "ann_2")


def test_external_id_without_key_is_found_and_repaired_by_check(shoal: NetworkFixture, secret: str) -> None:
    ann = put(shoal, secret, "42", username="ann").json()
    key = external_id_key(ExternalId(SHOP, "42"))
    batch = Batch(key.shard)
    link_id = shoal.run(shoal.network.store.key_get((key,)))[key]
    batch.key_del(key, link_id)
    shoal.run(shoal.network.writes.graph.commit(batch))
    shoal.settle()
    assert not shoal.run(check(shoal.network)).clean
    assert shoal.run(check(shoal.network, repair=True)).repaired == 1
    assert shoal.json("GET", path("42"), secret)["id"] == ann["id"]


def test_external_id_changes_leave_store_consistent(shoal: NetworkFixture, secret: str) -> None:
    ann = put(shoal, secret, "1", username="ann").json()
    shoal.json("POST", f"{path('2')}/link", secret, json={"member_id": ann["id"]})
    shoal.json("DELETE", path("1"), secret)
    shoal.settle()
    report = shoal.run(check(shoal.network))
    assert report.clean, report


def test_object_external_id_shows_the_status_to_server_keys_only(shoal: NetworkFixture, secret: str) -> None:
    ann = shoal.join("ann")
    status = shoal.json("POST", "/api/v1/statuses", ann, json={"status": "low tide"})
    external = ExternalId(SHOP, "a/b 4711")
    writes = shoal.network.writes
    shoal.run(external_ids.link_objects(writes, ExternalKind.POSTS, {external: int(status["id"])}))
    # Linking again keeps the first object.
    shoal.run(external_ids.link_objects(writes, ExternalKind.POSTS, {external: 5}))
    base = "/api/shoal/v1/by-external-id"
    found = f"{quote(SHOP, safe='')}/{quote(external.id, safe='')}"
    expected = {"id": status["id"], "kind": "posts", "external_id": {"issuer": SHOP, "id": external.id}}
    assert shoal.json("GET", f"{base}/posts/{found}", secret) == expected
    assert shoal.ask("GET", f"{base}/comments/{found}", secret).status_code == 404
    assert shoal.ask("GET", f"{base}/posts/{found}", ann).status_code == 403
    refused = shoal.ask("GET", f"{base}/likes/{found}", secret)
    assert (refused.status_code, refused.json()["error"]) == (
        422,
        "Validation failed: kind must be one of posts, comments, media",
    )
    shoal.json("DELETE", f"/api/v1/statuses/{status['id']}", ann)
    assert shoal.ask("GET", f"{base}/posts/{found}", secret).status_code == 404

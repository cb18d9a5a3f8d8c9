"""External ids over the API: create, change and look up members by their ids in another product."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from shoal.admin.consistency.check import check
from shoal.commands import account_deletions, blocklists, moderation, server_keys
from shoal.core.audit import AuditVerb
from shoal.core.external_ids import MAX_PER_MEMBER, ExternalId
from shoal.core.ids import now_ms
from shoal.graph.contract import Batch
from shoal.graph.schema import external_id_key
from shoal.scheduler import Agenda
from tests.api.in_memory_network import NetworkFixture
from tests.audit.log_reader import entries

BASE = "/api/shoal/v1/members"
SHOP = "https://shop.example"


@pytest.fixture
def secret(shoal: NetworkFixture) -> str:
    return shoal.run(server_keys.create(shoal.network.writes, "shop", ("server:members",))).secret


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
        assert noted.entry.details == {"issuer": SHOP, "key": "shop"}
        assert noted.entry.target_id == ann.member.id


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
    batch.key_del(key, int(ann["id"]))
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

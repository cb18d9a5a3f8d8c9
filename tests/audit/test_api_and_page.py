"""The audit log over HTTP: an admin-only API with pagination, and a page that works without JavaScript."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import members, moderation
from shoal.core.audit import AuditVerb
from shoal.core.model import Role
from shoal.queries import moderation as moderation_queries
from shoal.queries import pagination
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture
from tests.async_runner import eventually
from tests.audit.log_reader import entries
from tests.web.browser import visitor

LOG = "/api/v1/admin/audit_log"


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


@pytest.fixture(scope="module")
def chief(here: NetworkFixture) -> Someone:
    return here.staff("chief", Role.ADMIN)


@pytest.fixture(scope="module")
def acted(here: NetworkFixture, chief: Someone) -> Someone:
    """Take four actions on Ann and one on Ben, and return Ann."""
    ann, ben = here.join("ann"), here.join("ben")
    for type_ in ("silence", "sensitive"):
        body = {"type": type_, "text": "advertises <b>boats</b>"}
        here.json("POST", f"/api/v1/admin/accounts/{ann.id}/action", chief, json=body)
    for undo in ("unsilence", "unsensitive"):
        here.json("POST", f"/api/v1/admin/accounts/{ann.id}/{undo}", chief)
    here.json("POST", f"/api/v1/admin/accounts/{ben.id}/action", chief, json={"type": "silence"})
    return ann


def test_admin_audit_log_entry_includes_actor_target_reason_and_address(
    here: NetworkFixture, chief: Someone, acted: Someone
) -> None:
    asked = {"actor_id": chief.id, "verb[]": "member.silenced"}
    newest, oldest = here.json("GET", LOG, chief, params=asked)
    assert newest["target"]["name"] == "ben"
    assert oldest["actor"] == {"id": chief.id, "name": "chief"}
    assert oldest["target"] == {"kind": "member", "id": acted.id, "name": "ann"}
    assert oldest["reason"] == "advertises <b>boats</b>"
    assert oldest["address"] == "127.0.0.1"
    assert set(oldest) == {"id", "created_at", "verb", "actor", "target", "address", "reason", "details"}


def test_admin_audit_log_is_paginated_and_filtered(here: NetworkFixture, chief: Someone, acted: Someone) -> None:
    asked = {"target_id": acted.id, "actor_id": chief.id}
    whole = here.json("GET", LOG, chief, params=asked)
    assert [one["verb"] for one in whole] == [
        "member.unsensitized",
        "member.unsilenced",
        "member.sensitized",
        "member.silenced",
    ]
    found, address = [], f"{LOG}?target_id={acted.id}&actor_id={chief.id}&limit=1"
    while address:
        answer = here.ask("GET", address, chief)
        found += answer.json()
        address = answer.links.get("next", {}).get("url", "")
    assert found == whole
    only = here.json("GET", LOG, chief, params={**asked, "verb[]": ["member.silenced", "member.sensitized"]})
    assert [one["verb"] for one in only] == ["member.sensitized", "member.silenced"]
    above = here.json("GET", LOG, chief, params={**asked, "min_id": whole[-1]["id"], "limit": 2})
    assert above == whole[1:3]


def test_admin_audit_log_min_id_pagination_finds_sparse_matches(
    here: NetworkFixture, chief: Someone, acted: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = f"target_id={acted.id}&verb[]=member.unsensitized"
    (wanted,) = here.json("GET", f"{LOG}?{asked}", chief)
    monkeypatch.setattr(moderation_queries, "_SEARCHED", 2)
    monkeypatch.setattr(pagination, "LOOKS", 1)
    found, address, pages = [], f"{LOG}?{asked}&min_id=1&limit=1", 0
    while address and pages < 100:
        answer = here.ask("GET", address, chief)
        found += answer.json()
        # The page after the last is empty and has no link.
        address, pages = answer.links.get("prev", {}).get("url", ""), pages + 1
    assert found == [wanted]
    assert 3 < pages < 100


def test_admin_audit_log_for_non_admins_is_refused(here: NetworkFixture) -> None:
    mod, member = here.staff("warden", Role.MODERATOR), here.join("plain")
    assert here.ask("GET", LOG).status_code == 401
    assert here.ask("GET", LOG, mod).status_code == 403
    assert here.ask("GET", LOG, member).status_code == 403
    for name, status in (("warden", 403), ("plain", 403)):
        assert visitor(here, name).open("/moderation/audit").status == status
    assert "Audit log" not in visitor(here, "warden").open("/moderation").text


def test_admin_audit_log_write_methods_are_refused(here: NetworkFixture, chief: Someone) -> None:
    (newest, *_) = here.json("GET", LOG, chief)
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert here.ask(method, LOG, chief).status_code == 405
        assert here.ask(method, f"{LOG}/{newest['id']}", chief).status_code == 404


def test_admin_audit_log_with_unknown_verb_returns_422(here: NetworkFixture, chief: Someone) -> None:
    assert here.ask("GET", LOG, chief, params={"verb[]": "member.eaten"}).status_code == 422


def test_audit_log_page_filters_without_javascript(here: NetworkFixture, acted: Someone) -> None:
    admin = visitor(here, "chief")
    page = admin.open("/moderation").follow("Audit log")
    assert "Member limited" in page.text
    assert {one.text for one in page.html.select("blockquote")} == {"advertises <b>boats</b>"}
    assert not page.html.select("blockquote b")
    page = admin.open("/moderation/audit?target=ben&verb=member.silenced")
    assert not page.html.select("blockquote")
    assert [one.text for one in page.html.select(".act b")] == ["Member limited"]
    assert page.html.select_one("input[name=target][value=ben]")
    assert "No entries" in admin.open("/moderation/audit?actor=nobody_of_this_name").text
    assert "No entries" in admin.open("/moderation/audit?actor=99999999999999999999999").text
    assert admin.open("/moderation/audit?verb=member.eaten").html.select(".act")


def test_audit_log_page_numeric_target_finds_username_unless_it_is_member_id(
    here: NetworkFixture, chief: Someone, acted: Someone
) -> None:
    admin = visitor(here, "chief")
    for name in ("1984", acted.id):
        body = {"type": "silence", "text": f"about {name}"}
        here.json("POST", f"/api/v1/admin/accounts/{here.join(name).id}/action", chief, json=body)
    for typed in ("1984", "@1984"):
        assert "about 1984" in admin.open(f"/moderation/audit?target={typed}").text
    assert f"about {acted.id}" not in admin.open(f"/moderation/audit?target={acted.id}").text
    assert f"about {acted.id}" in admin.open(f"/moderation/audit?target=@{acted.id}").text


def test_audit_log_page_shows_name_of_deleted_member(here: NetworkFixture, chief: Someone) -> None:
    made = here.run(members.register(here.network.writes, "zoe", pending=True))
    here.json("POST", f"/api/v1/admin/accounts/{made.id}/reject", chief)
    here.settle()
    page = visitor(here, "chief").open(f"/moderation/audit?target={made.id}")
    assert "Sign-up rejected" in page.text
    assert "@zoe" in page.text


def test_audit_log_page_failed_login_of_deleted_member_shows_anonymous_visitor(
    here: NetworkFixture, chief: Someone
) -> None:
    made = here.run(members.register(here.network.writes, "yves", pending=True, password="a long password"))
    token = here.ask("GET", "/login").text.split('name="form_token" value="')[1].split('"')[0]
    form = {"form_token": token, "username": "yves", "password": "another password"}
    assert here.ask("POST", "/login", data=form).status_code in {401, 422}
    log = f"/moderation/audit?verb=login.failed&target={made.id}"
    here.run(eventually(lambda: failed_at(here, made.id), 1))
    admin = visitor(here, "chief")
    assert "127.0.0.1" in admin.open(log).text
    here.json("POST", f"/api/v1/admin/accounts/{made.id}/reject", chief)
    here.settle()
    page = admin.open(log)
    assert "127.0.0.1" not in page.text
    assert "Anonymous visitor" in page.text
    assert "Server or operator" not in page.text


async def failed_at(here: NetworkFixture, member_id: int) -> int:
    """Return the number of failed logins of a member in the log."""
    found = await entries(here.network.store, AuditVerb.LOGIN_FAILED)
    return sum(one.entry.target_id == member_id for one in found)


def test_moderation_page_action_is_audited_with_reason_and_address(here: NetworkFixture) -> None:
    here.run(moderation.unsilence(here.network.writes, here.join("cyd").member.id))
    found = here.run(members.find(here.network.writes, "cyd"))
    assert found is not None
    admin = visitor(here, "chief")
    page = admin.open(f"/moderation/members/{found.id}")
    page.press("Limit", why="rude to others")
    page = admin.open("/moderation/audit?target=cyd")
    assert "rude to others" in page.text
    assert "127.0.0.1" in page.text

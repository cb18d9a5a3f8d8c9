"""Members who sign up from certain networks are pending and hidden until a moderator approves them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from shoal.admin.consistency.check import check
from shoal.consumers import members
from shoal.core.events import MemberRegistered
from shoal.core.model import Role
from shoal.graph.schema import email_key
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture
from tests.api.oauth_browser import Client

ACCOUNTS = "/api/v1/admin/accounts"
GOOD = {"username": "dora", "email": "dora@example.org", "password": "a long password", "agreement": True}


@pytest.fixture
def w() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


@pytest.fixture
def mod(w: NetworkFixture) -> Someone:
    """A moderator on a server where an IP block makes every sign-up pending."""
    boss = w.staff("boss", Role.ADMIN)
    wanted = {"ip": "127.0.0.0/8", "severity": "sign_up_requires_approval"}
    w.json("POST", "/api/v1/admin/ip_blocks", boss, json=wanted)
    return w.staff("mo", Role.MODERATOR)


def sign_up(w: NetworkFixture, **more: object) -> httpx.Response:
    return w.ask("POST", "/api/v1/accounts", w.token(Client(w).app.id), json={**GOOD, **more})


def waiting(w: NetworkFixture, mod: Someone) -> list[Any]:
    w.settle()
    found: list[Any] = w.json("GET", f"{ACCOUNTS}?pending=true", mod)
    assert w.json("GET", "/api/v2/admin/accounts?status=pending", mod) == found
    return found


def test_pending_member_can_act_after_approval(w: NetworkFixture, mod: Someone) -> None:
    token = sign_up(w, reason="I like boats").json()["access_token"]
    said = {"error": "Your login is currently pending approval"}
    answer = w.ask("GET", "/api/v1/accounts/verify_credentials", token)
    assert (answer.status_code, answer.json()) == (403, said)
    (one,) = waiting(w, mod)
    assert (one["username"], one["approved"], one["suspended"]) == ("dora", False, False)
    assert (one["invite_request"], one["email"]) == ("I like boats", "dora@example.org")
    assert w.json("GET", f"{ACCOUNTS}?suspended=true", mod) == []
    assert "dora" not in {found["username"] for found in w.json("GET", f"{ACCOUNTS}?active=true", mod)}
    told = w.json("POST", f"{ACCOUNTS}/{one['id']}/approve", mod)
    assert (told["approved"], told["suspended"]) == (True, False)
    assert waiting(w, mod) == []
    assert w.json("GET", "/api/v1/accounts/verify_credentials", token)["username"] == "dora"
    w.json("POST", "/api/v1/statuses", token, json={"status": "ahoy"})
    # Staff receive the sign-up notification after the approval.
    heard = w.json("GET", "/api/v1/notifications", mod, params={"types[]": "admin.sign_up"})
    assert "dora" in {note["account"]["username"] for note in heard}
    assert w.run(check(w.network)).clean


def test_pending_member_is_hidden_from_profiles_search_directory_and_mentions(w: NetworkFixture, mod: Someone) -> None:
    ann = w.join("ann")
    sign_up(w)
    (one,) = waiting(w, mod)
    for path in (
        f"/api/v1/accounts/{one['id']}",
        f"/api/v1/accounts/{one['id']}/statuses",
        "/api/v1/accounts/lookup?acct=dora",
        "/.well-known/webfinger?resource=acct:dora@shoal.test",
        "/@dora",
    ):
        assert w.ask("GET", path).status_code == 404, path
    assert w.json("GET", "/api/v1/accounts", params={"id[]": one["id"]}) == []
    assert w.json("GET", "/api/v1/accounts/search?q=dora", ann) == []
    assert w.json("GET", "/api/v2/search?q=dora", ann)["accounts"] == []
    assert "dora" not in {found["username"] for found in w.json("GET", "/api/v1/directory")}
    assert w.ask("POST", f"/api/v1/accounts/{one['id']}/follow", ann).status_code == 404
    assert w.json("POST", "/api/v1/statuses", ann, json={"status": "@dora hi"})["mentions"] == []
    assert w.ask("DELETE", f"/api/v1/suggestions/{one['id']}", ann).status_code == 404
    for verb in ("block", "mute", "note"):
        answer = w.ask("POST", f"/api/v1/accounts/{one['id']}/{verb}", ann, json={"comment": "x"})
        assert answer.status_code == 404
    assert w.ask("POST", "/api/v1/reports", ann, json={"account_id": one["id"]}).status_code == 404
    heard = w.json("GET", "/api/v1/notifications", mod, params={"types[]": "admin.sign_up"})
    assert "dora" not in {note["account"]["username"] for note in heard}


def test_pending_member_cannot_log_in_before_approval(w: NetworkFixture, mod: Someone) -> None:
    sign_up(w)
    form = {"grant_type": "password", "username": "dora", "password": GOOD["password"], **Client(w).keys}
    answer = w.ask("POST", "/oauth/token", data=form)
    assert answer.status_code == 400
    assert w.json("POST", f"{ACCOUNTS}/{waiting(w, mod)[0]['id']}/approve", mod)["approved"]
    assert w.ask("POST", "/oauth/token", data=form).status_code == 200


def test_rejected_member_is_deleted_and_username_is_available_again(w: NetworkFixture, mod: Someone) -> None:
    before = w.state()
    token = sign_up(w).json()["access_token"]
    (one,) = waiting(w, mod)
    assert w.json("POST", f"{ACCOUNTS}/{one['id']}/reject", mod) == one
    w.settle()
    assert w.ask("GET", "/api/v1/accounts/verify_credentials", token).status_code == 401
    assert w.ask("GET", f"{ACCOUNTS}/{one['id']}", mod).status_code == 404
    assert waiting(w, mod) == []
    assert len(w.state().objects) == len(before.objects) + 2, "only the app and its token remain"
    assert w.run(check(w.network)).clean
    again = sign_up(w)
    assert again.status_code == 200
    assert waiting(w, mod)[0]["id"] != one["id"]


def test_email_address_of_rejected_member_is_not_reserved_again_by_late_job(w: NetworkFixture, mod: Someone) -> None:
    sign_up(w)
    (one,) = waiting(w, mod)
    w.json("POST", f"{ACCOUNTS}/{one['id']}/reject", mod)
    w.settle()
    late = MemberRegistered(member_id=int(one["id"]), address="dora@example.org")
    w.run(members.claim_address(w.network.effects, late, 0))
    assert w.run(w.network.store.key_get((email_key("dora@example.org"),))) == {}


def test_account_approval_of_member_not_pending_is_refused(w: NetworkFixture, mod: Someone) -> None:
    ann = w.join("ann")
    for verb in ("approve", "reject"):
        answer = w.ask("POST", f"{ACCOUNTS}/{ann.id}/{verb}", mod)
        assert (answer.status_code, answer.json()) == (403, {"error": "This member is not pending approval"})
        assert w.ask("POST", f"{ACCOUNTS}/1/{verb}", mod).status_code == 404
    token = sign_up(w).json()["access_token"]
    (one,) = waiting(w, mod)
    assert w.ask("POST", f"{ACCOUNTS}/{one['id']}/unsuspend", mod).status_code == 403
    assert w.ask("POST", f"{ACCOUNTS}/{one['id']}/action", mod, json={"type": "suspend"}).status_code == 200
    assert w.ask("GET", "/api/v1/accounts/verify_credentials", token).status_code == 403
    assert waiting(w, mod) == [one]


def test_sign_up_reason_over_length_limit_is_refused(w: NetworkFixture, mod: Someone) -> None:
    answer = sign_up(w, reason="x" * 421)
    assert answer.status_code == 422
    assert answer.json()["details"]["reason"][0]["error"] == "ERR_TOO_LONG"
    assert sign_up(w, reason="x" * 420).status_code == 200


def test_approval_setting_makes_every_sign_up_pending_and_is_published() -> None:
    with network_fixture(approval=True) as strict:
        mod = strict.staff("mo", Role.MODERATOR)
        assert strict.json("GET", "/api/v1/instance")["approval_required"] is True
        assert strict.json("GET", "/api/v2/instance")["registrations"]["approval_required"] is True
        token = sign_up(strict, reason="I like boats").json()["access_token"]
        assert strict.ask("GET", "/api/v1/accounts/verify_credentials", token).status_code == 403
        (one,) = waiting(strict, mod)
        assert one["invite_request"] == "I like boats"
        strict.json("POST", f"{ACCOUNTS}/{one['id']}/approve", mod)
        assert strict.ask("GET", "/api/v1/accounts/verify_credentials", token).status_code == 200

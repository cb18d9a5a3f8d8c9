"""Invitations and sign-up by invitation over HTTP."""

from __future__ import annotations

from typing import Any

import httpx

from shoal.admin.consistency.check import check
from shoal.commands import blocklists, moderation
from shoal.core.blocklists import IpSeverity
from shoal.core.model import Role
from tests.api.in_memory_network import STAFF_SCOPES, NetworkFixture, Someone, network_fixture
from tests.api.oauth_browser import Client

INVITES, ACCOUNTS = "/api/shoal/v1/invites", "/api/v1/accounts"


def sign_up(w: NetworkFixture, name: str, code: str, **more: object) -> httpx.Response:
    asked = {"username": name, "email": f"{name}@example.org", "password": "a long password", "agreement": True}
    return w.ask("POST", ACCOUNTS, w.token(Client(w).app.id), json={**asked, "invite_code": code, **more})


def invited(w: NetworkFixture, by: Someone, **wish: object) -> dict[str, Any]:
    made: dict[str, Any] = w.json("POST", INVITES, by, json=wish)
    return made


def wrong(answer: httpx.Response) -> str:
    """Return the error description of the invite code."""
    assert answer.status_code == 422, answer.text
    return str(answer.json()["details"]["invite_code"][0]["description"])


def test_invitation_allows_sign_up_when_registrations_are_closed_without_approval() -> None:
    with network_fixture(invitations="members", registrations=False, approval=True) as w:
        ann = w.join("ann")
        made = invited(w, ann, max_uses=2, expires_in=3_600, autofollow=True)
        assert made["url"] == f"http://shoal.test/invite/{made['code']}"
        assert (made["uses"], made["max_uses"], made["autofollow"], made["open"]) == (0, 2, True, True)
        assert sign_up(w, "ben", "").status_code == 403
        token = sign_up(w, "ben", made["code"]).json()["access_token"]
        ben = w.json("GET", f"{ACCOUNTS}/verify_credentials", token)
        w.settle()
        assert [one["id"] for one in w.json("GET", f"{ACCOUNTS}/{ann.id}/followers", ann)] == [ben["id"]]
        (now,) = w.json("GET", INVITES, ann)
        assert (now["uses"], now["open"]) == (1, True)
        assert sign_up(w, "cyd", made["code"]).status_code == 200
        assert wrong(sign_up(w, "dee", made["code"])) == "This invitation is used up"
        assert w.json("GET", INVITES, ann)[0]["open"] is False
        assert w.run(check(w.network)).clean


def test_invitation_use_is_not_counted_for_refused_sign_up() -> None:
    with network_fixture(invitations="members", registrations=False) as w:
        ann = w.join("ann")
        made = invited(w, ann)
        for more in ({"username": "ann"}, {"password": "short"}, {"agreement": False}, {"email": "nowhere"}):
            assert sign_up(w, "ben", made["code"], **more).status_code == 422
        assert w.json("GET", INVITES, ann) == [made]
        assert sign_up(w, "ben", made["code"]).status_code == 200
        # A client that received no response repeats the request.
        assert sign_up(w, "ben", made["code"]).status_code == 422
        assert w.json("GET", INVITES, ann)[0]["uses"] == 1


def test_invitation_code_unknown_or_revoked_is_refused_with_reason() -> None:
    with network_fixture(invitations="members") as w:
        ann = w.join("ann")
        made = invited(w, ann)
        assert wrong(sign_up(w, "ben", "nonsense")) == "There is no such invitation"
        w.json("DELETE", f"{INVITES}/{made['id']}", ann)
        assert wrong(sign_up(w, "ben", made["code"])) == "There is no such invitation"
        assert w.json("GET", INVITES, ann) == []
        assert sign_up(w, "ben", "").status_code == 200


def test_invitation_does_not_override_ip_block_of_sign_ups() -> None:
    with network_fixture(invitations="members") as w:
        w.run(blocklists.block_ip(w.writes, "127.0.0.0/8", IpSeverity.SIGN_UP_REQUIRES_APPROVAL))
        made = invited(w, w.join("ann"))
        token = sign_up(w, "ben", made["code"]).json()["access_token"]
        assert w.ask("GET", f"{ACCOUNTS}/verify_credentials", token).status_code == 403
    with network_fixture(invitations="members") as w:
        w.run(blocklists.block_ip(w.writes, "127.0.0.0/8", IpSeverity.SIGN_UP_BLOCK))
        made = invited(w, w.join("ann"))
        assert sign_up(w, "ben", made["code"]).status_code == 403


def test_admin_account_list_shows_inviter_and_moderators_can_revoke_invitations() -> None:
    with network_fixture(invitations="members") as w:
        ann, max_, bob = w.join("ann"), w.staff("max", Role.MODERATOR), w.staff("bob", Role.ADMIN)
        made, his = invited(w, ann), invited(w, bob)
        sign_up(w, "ben", made["code"])
        w.settle()
        (ben,) = w.json("GET", f"/api/v2/admin/accounts?invited_by={ann.id}", max_)
        assert (ben["username"], ben["invited_by_account_id"]) == ("ben", ann.id)
        assert w.json("GET", f"/api/v1/admin/accounts/{ann.id}", max_)["invited_by_account_id"] is None
        for nobody in (max_.id, "7", "x"):
            assert w.json("GET", f"/api/v2/admin/accounts?invited_by={nobody}", max_) == []
        # Without an admin scope, the token of a moderator has no moderator rights.
        plain = w.token(ann.app_id, max_.member.id, ("read", "write"))
        assert w.ask("DELETE", f"{INVITES}/{made['id']}", plain).status_code == 404
        assert w.ask("DELETE", f"{INVITES}/{his['id']}", max_).status_code == 403
        assert w.json("DELETE", f"{INVITES}/{made['id']}", max_) == {}
        assert w.json("GET", INVITES, ann) == []
        assert w.ask("DELETE", f"{INVITES}/{made['id']}", max_).status_code == 404


def test_invitation_rights_of_moderator_without_required_second_factor_are_those_of_ordinary_member() -> None:
    with network_fixture(invitations="members", staff_second_factor=True) as w:
        ann, max_ = w.join("ann"), w.join("max", STAFF_SCOPES)
        hers = invited(w, ann)
        w.run(moderation.set_role(w.writes, max_.member.id, Role.MODERATOR))
        assert w.ask("DELETE", f"{INVITES}/{hers['id']}", max_).status_code == 404
        assert w.json("DELETE", f"{INVITES}/{invited(w, max_)['id']}", max_) == {}
        for wish in ({"max_uses": 0}, {"expires_in": 0}):
            answer = w.ask("POST", INVITES, max_, json=wish)
            assert (answer.status_code, "second factor" in answer.json()["error"]) == (403, True)


def test_invitation_limits_and_permissions_are_enforced_and_published() -> None:
    with network_fixture(invitations="staff") as w:
        ann, max_ = w.join("ann"), w.staff("max", Role.MODERATOR)
        answer = w.ask("POST", INVITES, ann, json={})
        assert (answer.status_code, answer.json()["error"]) == (403, "You cannot invite people to this server")
        told = [invited(w, max_, max_uses=0, expires_in=0)[key] for key in ("max_uses", "expires_at", "open")]
        assert told == [None, None, True]
        for wish in ({"max_uses": 101}, {"expires_in": 60}, {"max_uses": -1}, {"max_uses": "many"}):
            assert w.ask("POST", INVITES, max_, json=wish).status_code == 422
        assert w.json("GET", "/api/v1/instance")["invites_enabled"] is False
    with network_fixture(invitations="members", registrations=False) as w:
        about = w.json("GET", "/api/v1/instance")
        assert (about["registrations"], about["invites_enabled"]) == (False, True)
        assert w.json("GET", "/api/v2/instance")["registrations"]["enabled"] is False
        ann = w.join("ann")
        for wish in ({"max_uses": 0}, {"expires_in": 0}):
            assert w.ask("POST", INVITES, ann, json=wish).status_code == 422

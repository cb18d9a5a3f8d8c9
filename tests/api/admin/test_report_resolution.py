"""Posts held for review, over the API: moderators list and resolve reports, and reporters are notified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.commands import moderation
from shoal.core.model import Role
from shoal.queries import pagination
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture

REPORTS = "/api/v1/admin/reports"
PUBLIC = "/api/v1/timelines/public"


@pytest.fixture
def w() -> Iterator[NetworkFixture]:
    with network_fixture(reports_to_hold=2, reporter_age_days=0.0) as made:
        yield made


@pytest.fixture
def mod(w: NetworkFixture) -> Someone:
    made = w.join("mo", ("read", "write", "admin:read", "admin:write"))
    w.run(moderation.set_role(w.network.writes, made.member.id, Role.MODERATOR))
    return made


def held(w: NetworkFixture) -> tuple[str, list[Someone], list[str]]:
    """Return a held post, its two reporters and their reports."""
    ann, ben, cyd = (w.join(name) for name in ("ann", "ben", "cyd"))
    post = str(w.json("POST", "/api/v1/statuses", ann, json={"status": "rude"})["id"])
    body = {"account_id": ann.id, "status_ids": [post]}
    filed = [str(w.json("POST", "/api/v1/reports", who, json=body)["id"]) for who in (ben, cyd)]
    w.settle()
    return post, [ben, cyd], filed


def listed(w: NetworkFixture, mod: Someone, query: str) -> list[tuple[str, list[str]]]:
    return [(one["id"], one["waiting_status_ids"]) for one in w.json("GET", f"{REPORTS}?{query}", mod)]


def test_report_awaiting_review_can_be_listed_and_dismissed(w: NetworkFixture, mod: Someone) -> None:
    post, _, filed = held(w)
    w.json("POST", "/api/v1/reports", w.join("dan"), json={"account_id": w.join("eve").id})
    w.settle()
    assert w.json("GET", PUBLIC) == []
    assert listed(w, mod, "waiting=true") == [(filed[1], [post]), (filed[0], [post])]
    assert len(listed(w, mod, "waiting=false")) == 3
    closed = w.json("POST", f"{REPORTS}/{filed[0]}/resolve", mod, json={"upheld": False})
    assert (closed["action_taken"], closed["upheld"]) == (True, False)
    w.settle()
    assert listed(w, mod, "waiting=true") == []
    assert [one["id"] for one in w.json("GET", PUBLIC)] == [post]


@pytest.mark.parametrize("body", [{"upheld": True}, None])
def test_upheld_report_keeps_status_out_of_public_timeline(w: NetworkFixture, mod: Someone, body: Any) -> None:
    post, _, filed = held(w)
    if body is None:
        # Without the upheld parameter, the account action decides.
        author = w.json("GET", f"/api/v1/statuses/{post}", mod)["account"]["id"]
        w.json("POST", f"/api/v1/admin/accounts/{author}/action", mod, json={"type": "sensitive"})
    assert w.json("POST", f"{REPORTS}/{filed[1]}/resolve", mod, json=body or {})["upheld"] is True
    w.settle()
    assert w.json("GET", PUBLIC) == []
    assert w.json("GET", f"/api/v1/statuses/{post}")["id"] == post
    opened = w.json("POST", f"{REPORTS}/{filed[1]}/reopen", mod)
    assert (opened["action_taken"], opened["upheld"]) == (False, None)
    w.settle()
    assert listed(w, mod, "waiting=true") == [(filed[1], [post]), (filed[0], [post])]


def test_account_action_with_report_id_upholds_report(w: NetworkFixture, mod: Someone) -> None:
    post, _, filed = held(w)
    author = w.json("GET", f"/api/v1/statuses/{post}", mod)["account"]["id"]
    w.json("POST", f"/api/v1/admin/accounts/{author}/action", mod, json={"type": "silence", "report_id": filed[0]})
    assert w.json("GET", f"{REPORTS}/{filed[0]}", mod)["upheld"] is True
    w.json("POST", f"/api/v1/admin/accounts/{author}/unsilence", mod)
    w.json("POST", f"/api/v1/admin/accounts/{author}/action", mod, json={"type": "none", "report_id": filed[1]})
    assert w.json("GET", f"{REPORTS}/{filed[1]}", mod)["upheld"] is False


def test_reporter_is_notified_when_report_is_resolved(w: NetworkFixture, mod: Someone) -> None:
    post, (ben, cyd), filed = held(w)

    def notified(who: Someone, query: str = "") -> Any:
        w.settle()
        return w.json("GET", f"/api/v1/notifications{query}", who)

    assert notified(ben) == []
    w.json("POST", f"{REPORTS}/{filed[0]}/resolve", mod, json={"upheld": True})
    (one,) = notified(ben)
    assert (one["type"], one["account"]["id"]) == ("shoal:report_resolved", ben.id)
    assert (one["report"]["id"], one["report"]["action_taken"]) == (filed[0], True)
    assert one["report"]["status_ids"] == [post]
    assert one["report"]["target_account"]["username"] == "ann"
    assert "status" not in one
    assert not any(value == "mo" for value in one["report"].values())
    assert notified(ben, "?types[]=shoal:report_resolved") == [one]
    assert notified(ben, "?exclude_types[]=shoal:report_resolved") == []
    assert notified(ben, "?types[]=mention") == []
    assert w.json("GET", f"/api/v1/notifications/{one['id']}", ben) == one
    (group,) = w.json("GET", "/api/v2/notifications", ben)["notification_groups"]
    assert (group["type"], group["group_key"]) == ("shoal:report_resolved", f"ungrouped-{one['id']}")
    assert group["report"]["id"] == filed[0]
    assert notified(cyd) == []
    w.json("POST", f"{REPORTS}/{filed[0]}/reopen", mod)
    assert notified(ben) == []


@pytest.mark.parametrize(("begin", "link"), [("limit=1", "next"), ("limit=1&min_id=1", "prev")])
def test_report_list_filtered_by_target_account_paginates_past_other_reports(
    w: NetworkFixture, mod: Someone, monkeypatch: pytest.MonkeyPatch, begin: str, link: str
) -> None:
    monkeypatch.setattr(pagination, "LOOKS", 1)
    ann, ben, cyd = w.join("ann"), w.join("ben"), w.join("cyd")
    about = [ann, ann, ann, ann, ben, ann, ann, ann, ann]
    filed = [w.json("POST", "/api/v1/reports", cyd, json={"account_id": one.id})["id"] for one in about]
    found, address, pages = [], f"{REPORTS}?target_account_id={ben.id}&{begin}", 0
    while address and pages < 30:
        answer = w.ask("GET", address, mod)
        found += [one["id"] for one in answer.json()]
        address, pages = answer.links.get(link, {}).get("url", ""), pages + 1
    assert found == [filed[4]]
    assert 3 < pages < 30

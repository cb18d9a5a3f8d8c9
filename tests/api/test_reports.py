"""Reports: creation by members and handling by moderators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.commands import moderation
from shoal.core.model import Role
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture

RULES = ("Be kind.", "No spam.")
STAFF = ("read", "write", "admin:read", "admin:write")
REPORTS = "/api/v1/admin/reports"


@pytest.fixture
def w() -> Iterator[NetworkFixture]:
    with network_fixture(rules=RULES) as made:
        yield made


@pytest.fixture
def ann(w: NetworkFixture) -> Someone:
    return w.join("ann")


@pytest.fixture
def ben(w: NetworkFixture) -> Someone:
    return w.join("ben")


@pytest.fixture
def mod(w: NetworkFixture) -> Someone:
    made = w.join("mo", STAFF)
    w.run(moderation.set_role(w.network.writes, made.member.id, Role.MODERATOR))
    return made


def write(w: NetworkFixture, who: Someone, text: str, **more: object) -> str:
    return str(w.json("POST", "/api/v1/statuses", who, json={"status": text, **more})["id"])


def report(w: NetworkFixture, who: Someone, about: Someone, **more: object) -> Any:
    made = w.json("POST", "/api/v1/reports", who, json={"account_id": about.id, **more})
    w.settle()
    return made


def refused(w: NetworkFixture, who: Someone, body: Any) -> tuple[int, str]:
    before = w.state()
    answer = w.ask("POST", "/api/v1/reports", who, json=body)
    assert w.state() == before
    return answer.status_code, answer.json()["error"]


def test_report_creation_with_trailing_slash_returns_report(w: NetworkFixture, ann: Someone, ben: Someone) -> None:
    post = write(w, ben, "rude")
    form = {"account_id": ben.id, "status_ids[]": [post], "comment": "so rude", "category": "spam", "forward": "false"}
    made = w.json("POST", "/api/v1/reports/", ann, data=form)
    assert made["target_account"]["id"] == ben.id
    assert {key: made[key] for key in made if key not in ("id", "created_at", "target_account")} == {
        "action_taken": False,
        "action_taken_at": None,
        "category": "spam",
        "comment": "so rude",
        "forwarded": False,
        "status_ids": [post],
        "rule_ids": [],
    }


def test_report_with_rule_ids_has_category_violation(w: NetworkFixture, ann: Someone, ben: Someone) -> None:
    made = report(w, ann, ben, rule_ids=["2"])
    assert (made["category"], made["rule_ids"]) == ("violation", ["2"])


def test_report_with_invalid_target_or_fields_is_refused_without_effect(
    w: NetworkFixture, ann: Someone, ben: Someone
) -> None:
    mine, his = write(w, ann, "mine"), write(w, ben, "not for ann", visibility="private")
    for body, expected in (
        ({"account_id": "1"}, (404, "Record not found")),
        ({"account_id": "nobody"}, (404, "Record not found")),
        ({}, (400, "account_id is missing")),
        ({"account_id": ben.id, "status_ids": [mine]}, (404, "Record not found")),
        ({"account_id": ben.id, "status_ids": [his]}, (404, "Record not found")),
        ({"account_id": ben.id, "status_ids": ["1"]}, (404, "Record not found")),
        (
            {"account_id": ben.id, "comment": "x" * 1_001},
            (422, "Validation failed: comment has 1001 characters; the maximum is 1000"),
        ),
        (
            {"account_id": ben.id, "category": "rude"},
            (422, "Validation failed: category must be one of legal, other, spam, violation"),
        ),
        (
            {"account_id": ben.id, "rule_ids": ["3"]},
            (422, "Validation failed: Rule ids does not reference valid rules"),
        ),
    ):
        assert refused(w, ann, body) == expected, body


def test_admin_report_shows_private_and_hidden_statuses_to_moderator(
    w: NetworkFixture, ann: Someone, ben: Someone, mod: Someone
) -> None:
    w.json("POST", f"/api/v1/accounts/{ben.id}/follow", ann)
    post = write(w, ben, "for followers", visibility="private")
    made = report(w, ann, ben, status_ids=[post], rule_ids=["1"])
    assert w.ask("GET", f"/api/v1/statuses/{post}", mod).status_code == 404
    w.run(moderation.hide(w.network.writes, int(post)))
    seen = w.json("GET", f"{REPORTS}/{made['id']}", mod)
    assert [status["content"] for status in seen["statuses"]] == ["<p>for followers</p>"]
    assert seen["rules"] == [{"id": "1", "text": "Be kind.", "hint": ""}]
    assert (seen["account"]["username"], seen["target_account"]["username"]) == ("ann", "ben")
    assert (seen["assigned_account"], seen["action_taken_by_account"]) == (None, None)
    assert "favourited" not in seen["statuses"][0]


def test_admin_report_is_assigned_resolved_and_reopened(
    w: NetworkFixture, ann: Someone, ben: Someone, mod: Someone
) -> None:
    id_ = report(w, ann, ben)["id"]

    def act(what: str) -> Any:
        return w.json("POST", f"{REPORTS}/{id_}/{what}", mod)

    assert act("assign_to_self")["assigned_account"]["id"] == mod.id
    assert act("unassign")["assigned_account"] is None
    closed = act("resolve")
    assert closed["action_taken"] is True
    assert closed["action_taken_by_account"]["id"] == mod.id
    assert closed["action_taken_at"] == act("resolve")["action_taken_at"]
    assert w.json("GET", REPORTS, mod) == []
    assert [one["id"] for one in w.json("GET", f"{REPORTS}?resolved=true", mod)] == [id_]
    assert act("reopen")["action_taken"] is False
    assert [one["id"] for one in w.json("GET", REPORTS, mod)] == [id_]


def test_admin_report_update_changes_category_and_rules(
    w: NetworkFixture, ann: Someone, ben: Someone, mod: Someone
) -> None:
    path = f"{REPORTS}/{report(w, ann, ben)['id']}"
    assert w.json("PUT", path, mod, json={"category": "legal"})["category"] == "legal"
    broken = w.json("PUT", path, mod, json={"category": "violation", "rule_ids": ["1", "2"]})
    assert [rule["id"] for rule in broken["rules"]] == ["1", "2"]
    assert w.ask("PUT", path, mod, json={"rule_ids": ["9"]}).status_code == 422
    spam = w.json("PUT", path, mod, json={"category": "spam"})
    assert (spam["category"], spam["rules"]) == ("spam", [])


def test_admin_reports_are_paginated_and_filtered_by_account(
    w: NetworkFixture, ann: Someone, ben: Someone, mod: Someone
) -> None:
    by = {report(w, *pair)["id"]: pair[0] for pair in ((ann, ben), (ben, ann)) * 3}
    # Reports with equal timestamps are ordered by shard.
    ids = sorted(by, key=int)
    first = w.ask("GET", f"{REPORTS}?limit=4", mod)
    assert [one["id"] for one in first.json()] == ids[::-1][:4]
    second = w.ask("GET", first.links["next"]["url"], mod)
    assert [one["id"] for one in second.json()] == ids[::-1][4:]
    assert "next" not in second.links
    newer = w.json("GET", f"{REPORTS}?limit=2&min_id={ids[1]}", mod)
    assert [one["id"] for one in newer] == [ids[3], ids[2]]
    by_ann = w.json("GET", f"{REPORTS}?account_id={ann.id}&limit=2", mod)
    assert [one["id"] for one in by_ann] == [id_ for id_ in ids[::-1] if by[id_] is ann][:2]
    assert len(w.json("GET", f"{REPORTS}?target_account_id={ann.id}", mod)) == 3
    assert w.json("GET", f"{REPORTS}?target_account_id={mod.id}", mod) == []


def test_admin_account_action_resolves_its_report(w: NetworkFixture, ann: Someone, ben: Someone, mod: Someone) -> None:
    about_ben, about_ann = report(w, ann, ben)["id"], report(w, ben, ann)["id"]
    path = f"/api/v1/admin/accounts/{ben.id}/action"
    assert w.ask("POST", path, mod, json={"type": "silence", "report_id": about_ann}).status_code == 404
    assert w.json("GET", f"/api/v1/admin/accounts/{ben.id}", mod)["silenced"] is False
    assert w.json("POST", path, mod, json={"type": "none", "report_id": about_ben, "text": "a word"}) == {}
    assert w.json("GET", f"{REPORTS}/{about_ben}", mod)["action_taken"] is True
    assert [one["id"] for one in w.json("GET", REPORTS, mod)] == [about_ann]


def test_report_parameter_forward_and_action_parameter_warning_preset_are_refused_as_unsupported(
    w: NetworkFixture, ann: Someone, ben: Someone, mod: Someone
) -> None:
    forwarded = w.ask("POST", "/api/v1/reports", ann, json={"account_id": ben.id, "forward": True})
    assert (forwarded.status_code, w.json("GET", REPORTS, mod)) == (422, [])
    w.json("POST", "/api/v1/reports", ann, json={"account_id": ben.id, "forward": False})
    act = {"type": "silence", "warning_preset_id": "1"}
    assert w.ask("POST", f"/api/v1/admin/accounts/{ben.id}/action", mod, json=act).status_code == 422
    assert w.json("GET", f"/api/v1/admin/accounts/{ben.id}", mod)["silenced"] is False

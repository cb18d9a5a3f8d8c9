"""Admin API: moderation rules, dry runs and bulk actions, by staff and by server keys that act for staff."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.commands import bulk_moderation, moderation_rules, posts, server_keys
from shoal.commands.posts import Draft
from shoal.core.bulk_moderation import BulkQuery
from shoal.core.model import Role
from shoal.core.moderation_rules import Conditions, RuleDraft
from shoal.http.openapi import name_of
from shoal.http.routes import Route
from shoal.mastodon_api.routes import table
from shoal.settings import Settings
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture

RULES = "/api/shoal/v1/admin/moderation_rules"
BULK = "/api/shoal/v1/admin/bulk_actions"


@pytest.fixture
def w() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


@pytest.fixture
def boss(w: NetworkFixture) -> Someone:
    return w.staff("boss", Role.ADMIN)


def write(w: NetworkFixture, by: Someone, text: str) -> Any:
    return w.json("POST", "/api/v1/statuses", by, json={"status": text})


def test_rule_is_created_tried_armed_changed_and_deleted(w: NetworkFixture, boss: Someone) -> None:
    ann = w.join("ann")
    status = write(w, ann, "Buy my boat")
    made = w.json("POST", RULES, boss, json={"name": "Boats", "words": ["buy  my boat"], "younger_than_days": 7})
    assert (made["state"], made["words"], made["kinds"]) == ("off", ["buy my boat"], ["post", "edit"])
    refused = w.ask("POST", f"{RULES}/{made['id']}/state", boss, json={"state": "armed"})
    assert refused.status_code == 422
    assert "do a dry run" in refused.json()["error"]
    run = w.json("POST", f"{RULES}/dry_run", boss, json={"days": 1})
    assert (run["complete"], run["posts"], run["hits"]) == (True, 1, 1)
    (found,) = run["rules"]
    assert (found["rule_id"], found["hits"], found["trusted"]) == (made["id"], 1, 0)
    (hit,) = found["newest"]
    assert (hit["kind"], hit["id"], hit["username"], hit["text"]) == ("post", status["id"], "ann", "Buy my boat")
    armed = w.json("POST", f"{RULES}/{made['id']}/state", boss, json={"state": "armed"})
    assert (armed["state"], armed["dry_run"]["hits"]) == ("armed", 1)
    changed = w.json("PUT", f"{RULES}/{made['id']}", boss, json={"name": "Boats", "domains": ["Boats.example"]})
    assert (changed["state"], changed["words"], changed["domains"]) == ("dry_run", [], ["boats.example"])
    assert w.json("GET", f"{RULES}/{made['id']}", boss) == changed
    assert w.json("GET", RULES, boss) == [changed]
    assert w.json("DELETE", f"{RULES}/{made['id']}", boss) == {}
    assert w.json("GET", RULES, boss) == []
    assert w.ask("GET", f"{RULES}/{made['id']}", boss).status_code == 404


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"name": "x"}, "conditions: at least one of words, domains"),
        ({"name": "x", "words": ["!"]}, "words: '!' has neither letters nor digits"),
        ({"name": "x", "words": ["a"], "action": "reject"}, "reason: a rule that rejects needs a reason"),
        ({"name": "x", "more_links_than": 101}, "more_links_than: must be 0 to 100 (got 101)"),
        ({"name": "x", "words": ["a"], "kinds": []}, "kinds: at least one of post, edit, profile, media"),
    ],
)
def test_invalid_rule_is_refused_with_what_is_allowed(
    w: NetworkFixture, boss: Someone, body: dict[str, Any], message: str
) -> None:
    refused = w.ask("POST", RULES, boss, json=body)
    assert refused.status_code == 422
    assert message in refused.json()["error"]
    assert w.json("GET", RULES, boss) == []


def test_bulk_action_is_previewed_applied_and_undone(w: NetworkFixture, boss: Someone) -> None:
    moe, ann = w.staff("moe", Role.MODERATOR), w.join("ann")
    spam = [write(w, ann, f"spam {n}") for n in range(3)]
    other = write(w, ann, "ham")
    preview = w.json("POST", BULK, moe, json={"action": "hide", "words": ["spam"], "account_id": str(ann.member.id)})
    assert (preview["state"], preview["statuses"], preview["username"]) == ("preview", 3, "moe")
    assert [each["text"] for each in preview["examples"]] == ["spam 2", "spam 1", "spam 0"]
    applied = w.json("POST", f"{BULK}/{preview['id']}/apply", moe, json={"text": "a wave"})
    assert (applied["state"], applied["reason"]) == ("applying", "a wave")
    w.settle()
    assert [w.ask("GET", f"/api/v1/statuses/{each['id']}").status_code for each in (*spam, other)] == [404] * 3 + [200]
    shown = w.json("GET", f"{BULK}/{preview['id']}", boss)
    assert (shown["state"], shown["changed"]) == ("applied", 3)
    again = w.json("POST", f"{BULK}/{preview['id']}/apply", moe)
    assert again["state"] == "applied"
    w.json("POST", f"{BULK}/{preview['id']}/undo", moe)
    w.settle()
    assert [w.ask("GET", f"/api/v1/statuses/{each['id']}").status_code for each in spam] == [200] * 3
    (listed,) = w.json("GET", BULK, moe)
    assert (listed["state"], listed["changed"]) == ("undone", 0)
    refused = w.ask("POST", f"{BULK}/{preview['id']}/apply", moe)
    assert refused.status_code == 422
    assert "was undone" in refused.json()["error"]
    entries = w.json("GET", "/api/v1/admin/audit_log", boss)
    assert [(one["verb"], one["target"]["id"]) for one in entries[:2]] == [
        ("posts.restored", preview["id"]),
        ("posts.changed", preview["id"]),
    ]


def test_bulk_action_shows_next_statuses_below_max_id(w: NetworkFixture) -> None:
    moe, ann = w.staff("moe", Role.MODERATOR), w.join("ann")
    for number in range(21):
        write(w, ann, f"spam {number}")
    preview = w.json("POST", BULK, moe, json={"action": "hide", "words": ["spam"]})
    assert preview["examples"][-1]["status_id"] == preview["next_max_id"]
    rest = w.json("GET", f"{BULK}/{preview['id']}?max_id={preview['next_max_id']}", moe)
    assert ([each["text"] for each in rest["examples"]], rest["next_max_id"]) == (["spam 0"], None)


ROUTES = [route for route in table(Settings()) if route.path.startswith((RULES, BULK))]


@pytest.mark.parametrize("required", [False, True], ids=["password", "second factor required"])
@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_moderation_routes_refuse_callers_without_role_scope_or_second_factor(route: Route, required: bool) -> None:
    with network_fixture(staff_second_factor=required) as w:
        rule_path = route.path.startswith(RULES)
        role = Role.ADMIN if rule_path else Role.MODERATOR
        staff, moe = w.staff("staff", role), w.staff("moe", Role.MODERATOR)
        ann = w.join("ann", ("read", "write", "admin:read", "admin:write"))
        status = w.run(posts.create(w.writes, ann.member.id, Draft(text="spam")))
        draft = RuleDraft(name="Spam", conditions=Conditions(words=("spam",)))
        rule = w.run(moderation_rules.create(w.writes, draft))
        query = BulkQuery(words=("spam",)).checked()
        action = w.run(bulk_moderation.create(w.writes, query, "hide", [status.id]))
        path = route.path.replace("{id}", str(rule.id if rule_path else action.id))
        body = {"action": "hold" if rule_path else "hide", "words": ["spam"], "name": "x", "state": "dry_run"}
        bodies = {"json": body} if route.method in {"POST", "PUT"} else {}

        def refusal(token: str | Someone, **headers: str) -> int:
            return w.ask(route.method, path, token, headers=headers, **bodies).status_code

        other = "admin:read" if route.method != "GET" else "admin:write"
        assert refusal("") == 401
        assert refusal(ann) == 403
        for scopes in (("read", "write"), ("read", "write", other)):
            assert refusal(w.token(staff.app_id, staff.member.id, scopes)) == 403
            key = w.run(server_keys.create(w.writes, f"key{len(scopes)}", ("server:act", *scopes))).secret
            assert refusal(key, **{"Shoal-Member": f"id:{staff.member.id}"}) == 403
        full = w.run(server_keys.create(w.writes, "full", ("server:act", "admin:read", "admin:write"))).secret
        assert refusal(full) in {401, 403, 422}
        assert refusal(full, **{"Shoal-Member": f"id:{ann.member.id}"}) == 403
        if rule_path:
            assert refusal(moe) == 403
        if required:
            assert refusal(staff) == 403
        w.settle()
        assert w.run(moderation_rules.stored(w.network.store)).rules == (rule,)
        assert w.run(bulk_moderation.stored(w.network.store)) == [action]
        assert w.ask("GET", f"/api/v1/statuses/{status.id}").status_code == 200
        if not required:
            # A preview cannot be undone.
            assert refusal(staff) == (422 if route.path.endswith("undo") else 200)


def test_server_key_acts_for_admin_on_rules_and_bulk_actions(w: NetworkFixture, boss: Someone) -> None:
    made = w.run(server_keys.create(w.network.writes, "shop", ("server:act", "admin:read", "admin:write")))
    acting = {"Shoal-Member": f"id:{boss.member.id}"}
    rule = w.json("POST", RULES, made.secret, json={"name": "x", "words": ["spam"]}, headers=acting)
    assert w.json("GET", RULES, made.secret, headers=acting)[0]["id"] == rule["id"]
    write(w, w.join("ann"), "spam")
    preview = w.json("POST", BULK, made.secret, json={"action": "hide", "words": ["spam"]}, headers=acting)
    assert preview["statuses"] == 1
    assert w.ask("GET", RULES, made.secret).status_code in {401, 403, 422}
    (entry, *_) = w.json("GET", "/api/v1/admin/audit_log?verb[]=rule.created", boss)
    assert (entry["actor"]["username"] if "username" in entry["actor"] else entry["actor"]["name"]) == "boss"
    assert entry["details"]["key"] == "shop"

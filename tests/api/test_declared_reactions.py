"""Declared reactions over the API: declaration by admins, reactions of members, and what Mastodon clients see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.core.model import Role
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture

REACTIONS = "/api/shoal/v1/reactions"
COOKED = {"title": "Cooked it", "weight": 3}


@pytest.fixture
def w() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


@pytest.fixture
def boss(w: NetworkFixture) -> Someone:
    boss = w.staff("boss", Role.ADMIN)
    w.json("PUT", f"{REACTIONS}/cooked", boss, json=COOKED)
    for name in ("going", "maybe"):
        w.json("PUT", f"{REACTIONS}/{name}", boss, json={"title": name.title(), "group": "attendance"})
    w.json("PUT", f"{REACTIONS}/spam", boss, json={"title": "Spam"})
    return boss


def on(status: Any, name: str) -> str:
    return f"/api/shoal/v1/statuses/{status['id']}/reactions/{name}"


def test_admin_declares_and_retires_reactions_and_anybody_reads_them(w: NetworkFixture, boss: Someone) -> None:
    found = w.json("GET", REACTIONS)
    assert [each["name"] for each in found] == ["cooked", "going", "maybe", "spam"]
    expected = {"name": "cooked", "group": None, "kinds": [], "retired": False} | COOKED
    assert found[0] == expected
    assert w.json("DELETE", f"{REACTIONS}/cooked", boss) == expected | {"retired": True}
    changed = w.json("PUT", f"{REACTIONS}/cooked", boss, json={"title": "Made it", "weight": 1})
    assert changed == expected | {"title": "Made it", "weight": 1}


def test_reaction_is_declared_by_admins_only_and_refused_with_the_reason(w: NetworkFixture, boss: Someone) -> None:
    for someone in (w.join("ann"), w.staff("meg", Role.MODERATOR)):
        assert w.ask("PUT", f"{REACTIONS}/other", someone, json=COOKED).status_code == 403
        assert w.ask("DELETE", f"{REACTIONS}/cooked", someone).status_code == 403
    assert w.ask("PUT", f"{REACTIONS}/other", json=COOKED).status_code == 401
    for name, body, message in (
        ("Other", COOKED, "name: must have 1 to 32"),
        ("other", {"title": ""}, "title: must have 1 to 50 characters"),
        ("other", {"title": "A", "weight": 11}, "10"),
        ("other", {"title": "A", "kinds": ["recipe"]}, "kinds: there is no kind 'recipe'"),
        ("going", {"title": "Going"}, "group: cannot be changed (from 'attendance' to '')"),
    ):
        refused = w.ask("PUT", f"{REACTIONS}/{name}", boss, json=body)
        assert (refused.status_code, message in refused.json()["error"]) == (422, True)
    assert w.ask("DELETE", f"{REACTIONS}/other", boss).status_code == 404
    assert len(w.json("GET", REACTIONS)) == 4


def test_reactions_are_listed_whatever_the_scope_of_the_token(w: NetworkFixture, boss: Someone) -> None:
    for scope in ("read:accounts", "write:favourites"):
        assert w.ask("GET", REACTIONS, w.join(scope.replace(":", "_"), scopes=scope)).status_code == 200


def test_routes_of_emoji_refuse_names(w: NetworkFixture, boss: Someone) -> None:
    ann = w.join("ann")
    made = w.json("POST", "/api/v1/statuses", ann, data={"status": "Soup"})
    w.json("PUT", on(made, "cooked"), ann)
    old, pleroma = (f"/api/v1/{part}statuses/{made['id']}" for part in ("", "pleroma/"))
    for method, path in (
        ("PUT", f"{pleroma}/reactions/going"),
        ("POST", f"{old}/react/going"),
        ("DELETE", f"{pleroma}/reactions/cooked"),
        ("POST", f"{old}/unreact/cooked"),
    ):
        assert w.ask(method, path, ann).status_code == 422
    cooked = {"name": "cooked", "count": 1, "me": True}
    assert w.json("GET", old, ann)["shoal"]["reactions"] == [cooked]


def test_members_react_to_statuses_with_declared_reactions(w: NetworkFixture, boss: Someone) -> None:
    ann, ben = w.join("ann"), w.join("ben")
    made = w.json("POST", "/api/v1/statuses", ann, data={"status": "Soup"})
    for _ in range(2):
        w.json("PUT", on(made, "cooked"), ben)
    w.json("PUT", on(made, "cooked"), ann)
    w.json("PUT", on(made, "going"), ben)
    w.json("PUT", f"/api/v1/statuses/{made['id']}/react/👍", ben)
    seen = w.json("PUT", on(made, "maybe"), ben)
    cooked, maybe = ({"name": name, "count": n, "me": True} for name, n in (("cooked", 2), ("maybe", 1)))
    assert seen["shoal"] == {"reactions": [cooked, maybe]}
    assert [each["name"] for each in seen["reactions"]] == ["👍"]
    assert seen["pleroma"]["emoji_reactions"] == seen["reactions"]
    pleroma = w.json("GET", f"/api/v1/pleroma/statuses/{made['id']}/reactions")
    assert [each["name"] for each in pleroma] == ["👍"]
    assert [each["acct"] for each in w.json("GET", on(made, "cooked"))] == ["ann", "ben"]
    page = w.ask("GET", f"{on(made, 'cooked')}?limit=1")
    assert [each["acct"] for each in page.json()] == ["ann"]
    assert [each["acct"] for each in w.ask("GET", page.links["next"]["url"]).json()] == ["ben"]
    assert [each["id"] for each in w.json("GET", f"{REACTIONS}/maybe/statuses", ben)] == [made["id"]]
    assert w.json("GET", f"{REACTIONS}/going/statuses", ben) == []
    w.json("DELETE", on(made, "cooked"), ben)
    left = w.json("DELETE", on(made, "cooked"), ben)
    assert left["shoal"]["reactions"] == [{"name": "cooked", "count": 1, "me": False}, maybe]


def test_declared_reactions_are_added_to_the_other_properties_of_a_status(w: NetworkFixture, boss: Someone) -> None:
    ann = w.join("ann")
    body = {"status": 'End "quotes_count":0', "shoal": {"data": {"a": [1, {}]}}}
    made = w.json("POST", "/api/v1/statuses", ann, json=body)
    seen = w.json("PUT", on(made, "cooked"), ann)
    assert seen["shoal"] == made["shoal"] | {"reactions": [{"name": "cooked", "count": 1, "me": True}]}
    shared = w.json("POST", f"/api/v1/statuses/{made['id']}/reblog", ann)
    assert shared["reblog"]["shoal"] == seen["shoal"]
    assert "shoal" not in shared
    (listed,) = [each for each in w.json("GET", "/api/v1/timelines/public") if each["id"] == made["id"]]
    assert listed["shoal"]["reactions"] == [{"name": "cooked", "count": 1, "me": False}]


def test_reaction_is_refused_with_the_reason(w: NetworkFixture, boss: Someone) -> None:
    ann, ben = w.join("ann"), w.join("ben")
    made = w.json("POST", "/api/v1/statuses", ann, data={"status": "Soup"})
    hidden = w.json("POST", "/api/v1/statuses", ann, data={"status": "Soup", "visibility": "private"})
    w.json("DELETE", f"{REACTIONS}/cooked", boss)
    assert w.ask("PUT", on(made, "going")).status_code == 401
    assert w.ask("PUT", on(hidden, "going"), ben).status_code == 404
    assert w.ask("PUT", on(made, "👍"), ben).status_code == 404
    refused = w.ask("PUT", on(made, "cooked"), ben)
    assert (refused.status_code, "the reaction cooked is retired" in refused.json()["error"]) == (422, True)
    for method in ("PUT", "DELETE", "GET"):
        assert w.ask(method, on(made, "other"), ben).status_code == 404
    assert w.ask("GET", f"{REACTIONS}/other/statuses", ann).status_code == 404


def test_notifications_of_declared_reactions_are_grouped_and_dismissed_by_key(w: NetworkFixture, boss: Someone) -> None:
    ann, ben, cyd = w.join("ann"), w.join("ben"), w.join("cyd")
    made = w.json("POST", "/api/v1/statuses", ann, data={"status": "Soup"})
    for who in (ben, cyd):
        w.json("PUT", on(made, "cooked"), who)
    w.settle()
    (group,) = w.json("GET", "/api/v2/notifications", ann)["notification_groups"]
    key = group["group_key"]
    assert key.startswith(f"reaction-cooked-{made['id']}-")
    assert (group["notifications_count"], group["emoji"]) == (2, "cooked")
    assert [each["acct"] for each in w.json("GET", f"/api/v2/notifications/{key}/accounts", ann)] == ["cyd", "ben"]
    w.json("POST", f"/api/v2/notifications/{key}/dismiss", ann)
    assert w.json("GET", "/api/v2/notifications", ann)["notification_groups"] == []

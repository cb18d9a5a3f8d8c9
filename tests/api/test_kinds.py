"""Kinds over the API: declaration by admins, and statuses of a kind for clients that know it and for plain Mastodon clients."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from shoal.core.model import Role
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture
from tests.flows.test_kinds import SCHEMA, SOUP

KINDS = "/api/shoal/v1/kinds"


@pytest.fixture
def w() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


@pytest.fixture
def boss(w: NetworkFixture) -> Someone:
    return w.staff("boss", Role.ADMIN)


def declare(w: NetworkFixture, boss: Someone) -> None:
    w.json("PUT", f"{KINDS}/recipe", boss, json={"schema": SCHEMA, "title": "title", "link": "source"})


def test_admin_declares_kinds_and_anybody_reads_them(w: NetworkFixture, boss: Someone) -> None:
    assert w.json("GET", KINDS) == []
    declare(w, boss)
    expected = {"name": "recipe", "version": 1, "schema": SCHEMA, "title": "title", "image": None, "link": "source"}
    expected |= {"index": {}, "pairs": [], "building": []}
    assert w.json("GET", KINDS) == [expected]
    assert w.json("GET", f"{KINDS}/recipe") == expected
    changed = w.json("PUT", f"{KINDS}/recipe", boss, json={"schema": json.dumps(SCHEMA)})
    assert changed == expected | {"version": 2, "title": None, "link": None}
    assert w.ask("GET", f"{KINDS}/run").status_code == 404


def test_kind_is_declared_by_admins_only_and_refused_with_the_reason(w: NetworkFixture, boss: Someone) -> None:
    for someone in (w.join("ann"), w.staff("meg", Role.MODERATOR)):
        assert w.ask("PUT", f"{KINDS}/recipe", someone, json={"schema": SCHEMA}).status_code == 403
    assert w.ask("PUT", f"{KINDS}/recipe", json={"schema": SCHEMA}).status_code == 401
    declare(w, boss)
    for path, body, message in (
        ("recipe", {"schema": SCHEMA | {"required": ["title", "minutes"]}}, "data.minutes: is now required"),
        ("recipe", {"schema": [1]}, "schema: must be an object"),
        (
            "recipe",
            {"schema": SCHEMA, "index": {"minutes": "int"}},
            "must be one of boolean, geo, number, string, time",
        ),
        ("Recipe", {"schema": SCHEMA}, "name: must have 1 to 32 of the characters a-z, 0-9 and _"),
    ):
        refused = w.ask("PUT", f"{KINDS}/{path}", boss, json=body)
        assert refused.status_code == 422
        assert message in refused.json()["error"]
    assert w.json("GET", f"{KINDS}/recipe")["version"] == 1


def test_status_of_kind_is_checked_and_shown(w: NetworkFixture, boss: Someone) -> None:
    declare(w, boss)
    ann = w.join("ann")
    refused = w.ask(
        "POST", "/api/v1/statuses", ann, json={"shoal": {"kind": "recipe", "data": {"title": "S", "minutes": 2000}}}
    )
    assert refused.status_code == 422
    assert "data.minutes: must be at most 1440 (got 2000)" in refused.json()["error"]
    refused = w.ask("POST", "/api/v1/statuses", ann, json={"status": "S", "shoal": {"kind": "run"}})
    assert (refused.status_code, "there is no kind 'run'" in refused.text) == (422, True)
    assert w.json("GET", f"/api/v1/accounts/{ann.id}/statuses") == []
    made = w.json("POST", "/api/v1/statuses", ann, data={"shoal[kind]": "recipe", "shoal[data]": json.dumps(SOUP)})
    assert made["shoal"] == {"data": SOUP, "kind": "recipe", "kind_version": 1}
    assert "<p>Soup</p>" in made["content"]
    assert 'href="https://example.org/soup"' in made["content"]
    assert (made["card"]["url"], made["card"]["title"], made["card"]["type"]) == (SOUP["source"], "Soup", "link")
    path = f"/api/v1/statuses/{made['id']}"
    refused = w.ask("PUT", path, ann, json={"shoal": {"data": {}}})
    assert (refused.status_code, "data.title: is required" in refused.text) == (422, True)
    refused = w.ask("PUT", path, ann, json={"shoal": {"kind": "run"}})
    assert (refused.status_code, "kind: cannot be changed" in refused.text) == (422, True)
    edited = w.json(
        "PUT", path, ann, json={"status": "Stew, the best", "shoal": {"kind": "recipe", "data": {"title": "Stew"}}}
    )
    assert (edited["content"], edited["card"], edited["shoal"]["kind"]) == ("<p>Stew, the best</p>", None, "recipe")


def test_statuses_of_a_kind_are_filtered_in_pages(w: NetworkFixture, boss: Someone) -> None:
    declaration = {"schema": SCHEMA, "index": {"title": "string", "minutes": "number"}, "pairs": [["title", "minutes"]]}
    declared = w.json("PUT", f"{KINDS}/recipe", boss, json=declaration)
    assert (declared["index"], declared["pairs"], declared["building"]) == (
        declaration["index"],
        [["title", "minutes"]],
        [],
    )
    ann = w.join("ann")
    made = []
    for n in range(5):
        body = {"shoal": {"kind": "recipe", "data": {"title": "even" if n % 2 == 0 else "odd", "minutes": n}}}
        made.append(w.json("POST", "/api/v1/statuses", ann, json=body)["id"])
    w.settle()

    def ids(query: str, by: Someone | str = "") -> list[str]:
        return [each["id"] for each in w.json("GET", f"{KINDS}/recipe/posts?{query}", by)]

    assert ids("") == made[::-1]
    assert ids("filter[title]=even") == [made[4], made[2], made[0]]
    assert ids("filter[title][]=even&filter[title][]=odd") == made[::-1]
    assert ids("filter[minutes]=1..3") == made[3:0:-1]
    assert ids("filter[title]=even&filter[minutes]=1..") == [made[4], made[2]]
    assert ids(f"filter[title]=even&account_id={ann.id}") == [made[4], made[2], made[0]]
    page = w.ask("GET", f"{KINDS}/recipe/posts?filter[title]=even&limit=2&with_data=true")
    assert [each["shoal"]["data"]["minutes"] for each in page.json()] == [4, 2]
    assert "filter%5Btitle%5D=even" in page.links["next"]["url"]
    assert ids(page.links["next"]["url"].partition("?")[2]) == [made[0]]
    for query, message in (
        ("filter[source]=a", "filter: 'source' has no index of the kind recipe (indexed: title, minutes)"),
        ("filter[minutes]=many", "filter: minutes must be a number (got 'many')"),
        ("filter[minutes]=", "filter"),
        ("filter[title]=" + "a" * 1_001, "filter"),
    ):
        refused = w.ask("GET", f"{KINDS}/recipe/posts?{query}")
        assert (refused.status_code, message in refused.json()["error"]) == (422, True), query
    assert w.ask("GET", f"{KINDS}/run/posts").status_code == 404
    assert w.ask("GET", f"{KINDS}/recipe/posts?account_id=1").status_code == 404

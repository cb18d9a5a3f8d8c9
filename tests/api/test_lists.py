"""Lists, featured tags and followed tags over HTTP."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.api.in_memory_network import NetworkFixture, Someone


def follow(shoal: NetworkFixture, who: Someone, *others: Someone) -> None:
    for other in others:
        shoal.json("POST", f"/api/v1/accounts/{other.id}/follow", who)


def post(shoal: NetworkFixture, who: Someone, text: str, **more: Any) -> Any:
    return shoal.json("POST", "/api/v1/statuses", who, json={"status": text, **more})


def names(accounts: list[dict[str, Any]]) -> list[str]:
    return [account["username"] for account in accounts]


def test_list_can_be_created_updated_filled_read_and_deleted(shoal: NetworkFixture) -> None:
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    follow(shoal, ann, ben, cyd)
    made = shoal.json("POST", "/api/v1/lists", ann, data={"title": "Friends"})
    assert made == {"id": made["id"], "title": "Friends", "replies_policy": "list", "exclusive": False}
    path = f"/api/v1/lists/{made['id']}"
    assert shoal.json("GET", path, ann) == made
    assert shoal.json("GET", "/api/v1/lists", ann) == [made]
    changed = shoal.json("PUT", path, ann, json={"title": "Crew", "replies_policy": "none", "exclusive": "1"})
    assert changed == {**made, "title": "Crew", "replies_policy": "none", "exclusive": True}
    assert shoal.json("PUT", path, ann, json={"title": "Mates"}) == {**changed, "title": "Mates"}
    assert shoal.json("POST", f"{path}/accounts", ann, json={"account_ids": [ben.id, cyd.id]}) == {}
    post(shoal, ben, "hello")
    assert [one["content"] for one in shoal.json("GET", f"/api/v1/timelines/list/{made['id']}", ann)] == [
        "<p>hello</p>"
    ]
    assert [one["id"] for one in shoal.json("GET", f"/api/v1/accounts/{ben.id}/lists", ann)] == [made["id"]]
    assert shoal.json("GET", f"/api/v1/accounts/{ben.id}/lists", cyd) == []
    assert shoal.json("DELETE", path, ann) == {}
    for gone in (path, f"{path}/accounts", f"/api/v1/timelines/list/{made['id']}"):
        assert shoal.ask("GET", gone, ann).status_code == 404
    assert shoal.json("GET", "/api/v1/lists", ann) == []


def test_list_accounts_are_paginated_or_unlimited_with_limit_zero(shoal: NetworkFixture) -> None:
    ann, *others = map(shoal.join, ("ann", *(f"other{n}" for n in range(45))))
    follow(shoal, ann, *others)
    made = shoal.json("POST", "/api/v1/lists", ann, json={"title": "All"})
    path = f"/api/v1/lists/{made['id']}/accounts"
    shoal.json("POST", path, ann, json={"account_ids": [other.id for other in others]})
    first = shoal.ask("GET", path, ann)
    assert len(first.json()) == 40
    following = re.match(r'<([^>]*)>; rel="next"', first.headers["link"])
    assert following
    assert len(shoal.json("GET", following[1], ann)) == 5
    every = shoal.ask("GET", f"{path}?limit=0", ann)
    assert len(every.json()) == 45
    assert 'rel="next"' not in every.headers["link"]


@pytest.mark.parametrize("how", ["json", "form", "query"])
def test_list_accounts_removal_accepts_json_form_and_query(shoal: NetworkFixture, how: str) -> None:
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    follow(shoal, ann, ben, cyd)
    made = shoal.json("POST", "/api/v1/lists", ann, json={"title": "Some"})
    path = f"/api/v1/lists/{made['id']}/accounts"
    shoal.json("POST", path, ann, data={"account_ids[]": [ben.id, cyd.id]})
    asks: dict[str, dict[str, Any]] = {
        "json": {"json": {"account_ids": [ben.id]}},
        "form": {"data": {"account_ids[]": [ben.id]}},
        "query": {"params": {"account_ids[]": ben.id}},
    }
    for _ in range(2):
        assert shoal.json("DELETE", path, ann, **asks[how]) == {}
    assert names(shoal.json("GET", path, ann)) == ["cyd"]


def test_list_update_with_invalid_input_or_by_other_member_is_refused_without_effect(shoal: NetworkFixture) -> None:
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    follow(shoal, ann, ben)
    made = shoal.json("POST", "/api/v1/lists", ann, json={"title": "Some"})
    path = f"/api/v1/lists/{made['id']}/accounts"
    assert shoal.ask("POST", path, ann, json={"account_ids": [ben.id, cyd.id]}).status_code == 404
    assert shoal.json("GET", path, ann) == []
    shoal.json("POST", path, ann, json={"account_ids": ben.id})
    taken = shoal.ask("POST", path, ann, json={"account_ids": [ben.id]})
    assert (taken.status_code, taken.json()["error"]) == (422, "Validation failed: Account has already been taken")
    before = shoal.state()
    for method, where in (("PUT", path[:-9]), ("DELETE", path[:-9]), ("POST", path), ("DELETE", path), ("GET", path)):
        assert shoal.ask(method, where, ben, json={"title": "mine", "account_ids": [ann.id]}).status_code == 404
    for wrong in ({}, {"title": " "}, {"title": "x" * 256}, {"title": "x", "replies_policy": "some"}):
        assert shoal.ask("POST", "/api/v1/lists", ann, json=wrong).status_code == 422
    assert shoal.state() == before
    shoal.json("POST", f"/api/v1/accounts/{ben.id}/unfollow", ann)
    assert shoal.json("GET", path, ann) == []


def test_featured_tag_counts_public_posts_and_last_use(shoal: NetworkFixture) -> None:
    ann, ben = map(shoal.join, ("ann", "ben"))
    for visibility in ("public", "unlisted", "private", "direct"):
        post(shoal, ann, "low #Tide #sea", visibility=visibility)
    post(shoal, ben, "high #tide")
    gone = post(shoal, ann, "gone #tide")
    shoal.json("DELETE", f"/api/v1/statuses/{gone['id']}", ann)
    assert [one["name"] for one in shoal.json("GET", "/api/v1/featured_tags/suggestions", ann)] == ["tide", "sea"]
    made = shoal.json("POST", "/api/v1/featured_tags", ann, data={"name": "#Tide"})
    assert (made["name"], made["statuses_count"]) == ("tide", "2")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", made["last_status_at"])
    assert shoal.json("POST", "/api/v1/featured_tags", ann, json={"name": "tide"}) == made
    empty = shoal.json("POST", "/api/v1/tags/dawn/feature", ann)
    assert (empty["featuring"], empty["following"]) == (True, False)
    shown = shoal.json("GET", f"/api/v1/accounts/{ann.id}/featured_tags")
    assert shown == shoal.json("GET", "/api/v1/featured_tags", ann)
    assert [(one["name"], one["statuses_count"], one["last_status_at"]) for one in shown] == [
        ("dawn", "0", None),
        ("tide", "2", made["last_status_at"]),
    ]
    assert [one["name"] for one in shoal.json("GET", "/api/v1/featured_tags/suggestions", ann)] == ["sea"]
    assert shoal.json("GET", "/api/v1/tags/tide", ann)["featuring"] is True
    assert shoal.json("GET", "/api/v1/tags/tide", ben)["featuring"] is False
    assert "featuring" not in shoal.json("GET", "/api/v1/tags/tide")
    assert shoal.ask("DELETE", f"/api/v1/featured_tags/{made['id']}", ben).status_code == 404
    assert shoal.json("DELETE", f"/api/v1/featured_tags/{made['id']}", ann) == {}
    assert shoal.ask("DELETE", f"/api/v1/featured_tags/{made['id']}", ann).status_code == 404
    assert shoal.json("POST", "/api/v1/tags/dawn/unfeature", ann)["featuring"] is False
    assert shoal.json("GET", "/api/v1/featured_tags", ann) == []


def test_featured_tags_are_limited_to_ten(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    for n in range(10):
        shoal.json("POST", "/api/v1/featured_tags", ann, json={"name": f"tag{n}"})
    for name in ("tag10", "", "no tag"):
        assert shoal.ask("POST", "/api/v1/featured_tags", ann, json={"name": name}).status_code == 422
    assert len(shoal.json("GET", "/api/v1/featured_tags", ann)) == 10
    assert shoal.json("GET", "/api/v2/instance")["configuration"]["accounts"]["max_featured_tags"] == 10


def test_followed_tags_are_paginated_with_history(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    for name in ("one", "two", "three"):
        shoal.json("POST", f"/api/v1/tags/{name}/follow", ann)
    first = shoal.ask("GET", "/api/v1/followed_tags?limit=2", ann)
    assert [one["name"] for one in first.json()] == ["three", "two"]
    assert all(one["following"] and len(one["history"]) == 7 for one in first.json())
    following = re.match(r'<([^>]*)>; rel="next"', first.headers["link"])
    assert following
    assert [one["name"] for one in shoal.json("GET", following[1], ann)] == ["one"]
    newest = re.search(r'<([^>]*)>; rel="prev"', first.headers["link"])
    assert newest
    assert shoal.json("GET", newest[1], ann) == []

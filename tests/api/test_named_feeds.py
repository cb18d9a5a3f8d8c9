"""Named feeds over the API: reading with parameters and cursors, and managing those of the server."""

from __future__ import annotations

import re
from typing import Any

import pytest

from shoal.commands import moderation
from shoal.core.model import Role
from tests.api.in_memory_network import NetworkFixture, Someone

ADMIN = "/api/shoal/v1/admin/feeds"
FEEDS = "/api/shoal/v1/feeds"
BREAD = {"sources": [{"from": "tag", "tag": "bread"}]}
BEST = {
    **BREAD,
    "order": {"by": "expression", "expression": "likes * $weight - age_hours"},
    "parameters": {"weight": {"type": "number", "default": 0, "minimum": -10, "maximum": 10}},
}


@pytest.fixture
def admin(shoal: NetworkFixture) -> Someone:
    admin = shoal.join("olga", ("read", "write", "admin:read", "admin:write"))
    shoal.run(moderation.set_role(shoal.network.writes, admin.member.id, Role.ADMIN))
    return admin


def texts(statuses: list[dict[str, Any]]) -> list[str]:
    return [re.sub("<[^>]*>", "", status["content"]) for status in statuses]


def write(shoal: NetworkFixture, who: Someone, number: int) -> list[str]:
    """Post this number of statuses, and return their ids."""
    made = [shoal.json("POST", "/api/v1/statuses", who, json={"status": f"{at} #bread"})["id"] for at in range(number)]
    shoal.settle()
    return made


def test_feed_in_order_of_time_is_paged_by_ids(shoal: NetworkFixture, admin: Someone) -> None:
    shoal.json("POST", ADMIN, admin, json={"name": "bread", "title": "Bread", "declaration": BREAD})
    ids = write(shoal, admin, 5)
    first = shoal.ask("GET", f"{FEEDS}/bread", "", params={"limit": 2})
    assert texts(first.json()) == ["4 #bread", "3 #bread"]
    assert first.json()[0]["shoal"]["explanation"] == {
        "sources": ["tag bread"],
        "score": None,
        "contributions": [],
        "places_lost": 0,
        "group": None,
    }
    link = first.links["next"]["url"]
    following = shoal.ask("GET", link[link.index("/api/") :], "")
    assert texts(following.json()) == ["2 #bread", "1 #bread"]
    newer = shoal.json("GET", f"{FEEDS}/bread", "", params={"min_id": ids[0], "limit": 2})
    assert texts(newer) == ["2 #bread", "1 #bread"]


def test_ranked_feed_takes_parameters_explains_scores_and_is_paged_by_cursor(
    shoal: NetworkFixture, admin: Someone
) -> None:
    shoal.json("POST", ADMIN, admin, json={"name": "best", "declaration": BEST})
    ids = write(shoal, admin, 4)
    shoal.json("POST", f"/api/v1/statuses/{ids[0]}/favourite", shoal.join("ben"))
    shoal.settle()
    first = shoal.ask("GET", f"{FEEDS}/best", admin, params={"limit": 3, "parameters[weight]": "5"})
    assert texts(first.json())[0] == "0 #bread"
    explanation = first.json()[0]["shoal"]["explanation"]
    assert [each["name"] for each in explanation["contributions"]] == ["likes * $weight", "-age_hours"]
    assert explanation["contributions"][0]["contribution"] == 5.0
    assert explanation["score"] == sum(each["contribution"] for each in explanation["contributions"])
    link = first.links["next"]["url"]
    assert "parameters%5Bweight%5D=5" in link
    following = shoal.ask("GET", link[link.index("/api/") :], admin)
    assert len(following.json()) == 1
    assert "next" not in following.links
    assert texts(shoal.json("GET", f"{FEEDS}/best", admin))[0] == "3 #bread"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"max_id": "5"}, "max_id: this feed is ranked, and is paged by cursor"),
        ({"cursor": "x"}, "cursor: as the page before gave it"),
        ({"parameters[weight]": "11"}, "weight: expected a number from -10 to 10 (got '11')"),
        ({"parameters[size]": "1"}, "size: unknown parameter of this feed; allowed are weight"),
    ],
)
def test_invalid_request_for_a_feed_is_refused(
    shoal: NetworkFixture, admin: Someone, query: dict[str, str], message: str
) -> None:
    shoal.json("POST", ADMIN, admin, json={"name": "best", "declaration": BEST})
    answer = shoal.ask("GET", f"{FEEDS}/best", admin, params=query)
    assert (answer.status_code, message in answer.json()["error"]) == (422, True)


def test_recipe_feed_needs_a_member(shoal: NetworkFixture, admin: Someone) -> None:
    shoal.json("POST", ADMIN, admin, json={"name": "best", "declaration": {**BREAD, "order": {"by": "recipe"}}})
    assert shoal.ask("GET", f"{FEEDS}/best", "").status_code == 401
    write(shoal, shoal.join("ben"), 1)
    (status,) = shoal.json("GET", f"{FEEDS}/best", admin)
    assert "freshness" in [each["name"] for each in status["shoal"]["explanation"]["contributions"]]


def test_admin_creates_changes_and_deletes_feeds_of_the_server(shoal: NetworkFixture, admin: Someone) -> None:
    made = shoal.json("POST", ADMIN, admin, json={"name": "bread", "declaration": BREAD})
    assert (made["name"], made["title"], made["ranked"]) == ("bread", "bread", False)
    assert made["declaration"] == BREAD
    assert made["cost"]["parts"][0] == {"name": "tag bread", "reads": 1, "candidates": 0}
    assert shoal.json("GET", f"{FEEDS}/bread/declaration", "") == made
    changed = shoal.json("PUT", f"{ADMIN}/bread", admin, json={"title": "Bread", "declaration": BEST})
    assert (changed["title"], changed["ranked"]) == ("Bread", True)
    assert shoal.json("GET", FEEDS, "") == [changed]
    taken = shoal.ask("POST", ADMIN, admin, json={"name": "bread", "declaration": BREAD})
    assert (taken.status_code, "there is a feed 'bread' already" in taken.json()["error"]) == (422, True)
    for declaration, message in (
        ({"sources": []}, "sources: "),
        ({"sources": [{"from": "nearby", "latitude": at, "longitude": 0, "radius_km": 500} for at in range(20)]}, ""),
    ):
        answer = shoal.ask("PUT", f"{ADMIN}/bread", admin, json={"declaration": {**BEST, **declaration}})
        assert (answer.status_code, message in answer.json()["error"]) == (422, True)
    shoal.json("DELETE", f"{ADMIN}/bread", admin)
    assert shoal.ask("GET", f"{FEEDS}/bread", "").status_code == 404


def test_member_cannot_manage_feeds_of_the_server(shoal: NetworkFixture) -> None:
    ben = shoal.join("ben", ("read", "write", "admin:read", "admin:write"))
    body = {"name": "bread", "declaration": BREAD}
    assert shoal.ask("POST", ADMIN, ben, json=body).status_code == 403
    assert shoal.ask("PUT", f"{ADMIN}/bread", ben, json=body).status_code == 403
    assert shoal.ask("DELETE", f"{ADMIN}/bread", ben).status_code == 403
    assert shoal.json("GET", FEEDS, ben) == []


def test_member_creates_shares_copies_and_deletes_feeds(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    made = shoal.json("POST", FEEDS, ann, json={"title": "Bread", "declaration": BREAD})
    assert (made["title"], made["account_id"], made["shared"], made["origin_id"]) == ("Bread", ann.id, False, None)
    path = f"{FEEDS}/{made['id']}"
    assert shoal.ask("GET", path, ben).status_code == 404
    assert shoal.json("PUT", path, ann, json={"shared": True})["shared"] is True
    assert shoal.json("GET", f"{path}/declaration", ben)["declaration"] == BREAD
    assert made["link"].endswith(f"{path}/declaration")
    copied = shoal.json("POST", f"{path}/copy", ben, json={"title": "Mine"})
    assert (copied["title"], copied["account_id"], copied["origin_id"]) == ("Mine", ben.id, made["id"])
    assert [feed["id"] for feed in shoal.json("GET", FEEDS, ben)] == [copied["id"]]
    for method, body in (("PUT", {"title": "x"}), ("DELETE", None)):
        assert shoal.ask(method, path, ben, json=body).status_code == 404
    shoal.json("DELETE", path, ann)
    assert shoal.ask("GET", path, ben).status_code == 404


def test_own_and_followed_feeds_are_lists_that_clients_page_by_ids(shoal: NetworkFixture, admin: Someone) -> None:
    shoal.json("POST", ADMIN, admin, json={"name": "best", "title": "Best", "declaration": BEST})
    ann = shoal.join("ann")
    friends = shoal.json("POST", "/api/v1/lists", ann, json={"title": "Friends"})
    made = shoal.json("POST", FEEDS, ann, json={"title": "Bread", "declaration": BREAD})
    followed = shoal.json("POST", f"{FEEDS}/best/follow", ann)
    assert [(each["id"], each["title"]) for each in shoal.json("GET", "/api/v1/lists", ann)] == [
        (friends["id"], "Friends"),
        (made["id"], "Bread"),
        (followed["id"], "Best"),
    ]
    assert shoal.json("GET", f"/api/v1/lists/{made['id']}", ann)["title"] == "Bread"
    assert shoal.json("GET", f"/api/v1/lists/{made['id']}/accounts", ann) == []
    ids = write(shoal, admin, 5)
    newest_first = ids[::-1]
    for list_id in (made["id"], followed["id"]):
        path = f"/api/v1/timelines/list/{list_id}"
        first = shoal.json("GET", path, ann, params={"limit": 2})
        assert [status["id"] for status in first] == newest_first[:2]
        second = shoal.json("GET", path, ann, params={"limit": 2, "max_id": first[-1]["id"]})
        assert [status["id"] for status in second] == newest_first[2:4]
    (newest,) = write(shoal, admin, 1)
    for list_id in (made["id"], followed["id"]):
        path = f"/api/v1/timelines/list/{list_id}"
        newer = shoal.json("GET", path, ann, params={"since_id": newest_first[0]})
        assert [status["id"] for status in newer] == [newest]
    for method, path, body in (
        ("PUT", f"/api/v1/lists/{made['id']}", {"title": "x"}),
        ("DELETE", f"/api/v1/lists/{made['id']}", None),
        ("POST", f"/api/v1/lists/{made['id']}/accounts", {"account_ids": [admin.id]}),
    ):
        answer = shoal.ask(method, path, ann, json=body)
        assert (answer.status_code, "this list is a named feed" in answer.json()["error"]) == (422, True)
    stranger = shoal.join("ben")
    assert shoal.ask("GET", f"/api/v1/timelines/list/{made['id']}", stranger).status_code == 404
    shoal.json("POST", f"{FEEDS}/best/unfollow", ann)
    assert [each["title"] for each in shoal.json("GET", "/api/v1/lists", ann)] == ["Friends", "Bread"]


def test_dry_run_shows_statuses_and_compares_them_with_a_feed(shoal: NetworkFixture, admin: Someone) -> None:
    shoal.json("POST", ADMIN, admin, json={"name": "bread", "declaration": BREAD})
    write(shoal, admin, 3)
    oldest = {**BREAD, "order": {"by": "expression", "expression": "age_hours"}}
    path = f"{FEEDS}/dry_run"
    shown = shoal.json("POST", path, admin, json={"declaration": oldest, "feed": "bread", "limit": 2})
    assert texts([each["status"] for each in shown["statuses"]]) == ["0 #bread", "1 #bread"]
    assert [each["position_before"] for each in shown["statuses"]] == [None, 2]
    assert shown["statuses"][0]["status"]["shoal"]["explanation"]["contributions"][0]["name"] == "age_hours"
    assert (shown["cost"]["candidates"], shown["comparison"]["overlap"]) == (200, 0.5)
    assert texts(shown["comparison"]["lost"]) == ["2 #bread"]
    alone = shoal.json("POST", path, admin, json={"declaration": BREAD})
    assert alone["comparison"] is None
    same = shoal.json("POST", path, admin, json={"declaration": BREAD, "other": BREAD})
    assert same["comparison"]["rank_biased_overlap"] == pytest.approx(1.0)
    for body, message in (
        ({"declaration": {"sources": []}}, "sources: "),
        ({"declaration": BREAD, "other": BREAD, "feed": "bread"}, "other: cannot be combined with feed"),
        ({"declaration": BREAD, "parameters": {"x": "1"}}, "x: unknown parameter"),
    ):
        answer = shoal.ask("POST", path, admin, json=body)
        assert (answer.status_code, message in answer.json()["error"]) == (422, True)
    assert shoal.ask("POST", path, "", json={"declaration": BREAD}).status_code == 401


def test_read_position_of_a_feed_is_set_and_unread_statuses_are_counted(shoal: NetworkFixture, admin: Someone) -> None:
    shoal.json("POST", ADMIN, admin, json={"name": "bread", "declaration": BREAD})
    ids = write(shoal, admin, 3)
    ann, path = shoal.join("ann"), f"{FEEDS}/bread/unread"
    assert shoal.json("GET", path, ann) == {"count": 3, "more": False, "last_read_id": None}
    expected = {"count": 1, "more": False, "last_read_id": ids[1]}
    assert shoal.json("PUT", path, ann, json={"last_read_id": ids[1]}) == expected
    assert shoal.json("GET", path, ann) == expected
    assert shoal.ask("GET", path, "").status_code == 401


def test_dry_run_takes_parameters_as_json_values(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    write(shoal, ann, 1)
    for weight in (5, 5.0, "5"):
        body = {"declaration": BEST, "parameters": {"weight": weight}}
        assert len(shoal.json("POST", f"{FEEDS}/dry_run", ann, json=body)["statuses"]) == 1
    order = {"by": "expression", "expression": 'if($on, 1, 0) + if($topic == "7", 2, 0)'}
    types = {"on": {"type": "boolean", "default": False}, "topic": {"type": "text", "default": ""}}
    body = {"declaration": {**BREAD, "order": order, "parameters": types}, "parameters": {"on": True, "topic": 7}}
    (found,) = shoal.json("POST", f"{FEEDS}/dry_run", ann, json=body)["statuses"]
    assert found["status"]["shoal"]["explanation"]["score"] == 3.0


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"from": "list", "list": "5"}, "sources[0].list: expected the id of one of your lists (got 5)"),
        ({"from": "feed", "feed": "nothing"}, "sources[0].feed: there is no feed 'nothing'"),
        ({"from": "kind", "kind": "nothing"}, "sources[0].kind: there is no kind 'nothing'"),
        ({"from": "author", "author": "nobodyhere"}, "sources[0].author: there is no member 'nobodyhere'"),
    ],
)
def test_source_that_does_not_exist_is_refused_with_its_name(
    shoal: NetworkFixture, source: dict[str, str], message: str
) -> None:
    answer = shoal.ask("POST", FEEDS, shoal.join("ann"), json={"title": "Mine", "declaration": {"sources": [source]}})
    assert (answer.status_code, message in answer.json()["error"]) == (422, True)


def test_saved_parameters_apply_to_the_feed_as_a_list(shoal: NetworkFixture, admin: Someone) -> None:
    shoal.json("POST", ADMIN, admin, json={"name": "best", "declaration": BEST})
    ben = shoal.join("ben")
    ids = write(shoal, ben, 3)
    shoal.json("POST", f"/api/v1/statuses/{ids[0]}/favourite", ben)
    shoal.settle()
    feed = shoal.json("GET", FEEDS, ben)[0]
    timeline = f"/api/v1/timelines/list/{feed['id']}"
    assert texts(shoal.json("GET", timeline, ben))[0] == "2 #bread"
    refused = shoal.ask("PUT", f"{FEEDS}/best/parameters", ben, json={"parameters": {"weight": 5}})
    assert (refused.status_code, refused.json()["error"]) == (422, "id: follow the feed first")
    shoal.json("POST", f"{FEEDS}/best/follow", ben)
    saved = shoal.json("PUT", f"{FEEDS}/best/parameters", ben, json={"parameters": {"weight": 5}})
    assert saved == {"parameters": {"weight": 5.0}} == shoal.json("GET", f"{FEEDS}/best/parameters", ben)
    assert texts(shoal.json("GET", timeline, ben))[0] == "0 #bread"
    wrong = shoal.ask("PUT", f"{FEEDS}/best/parameters", ben, json={"parameters": {"weight": 50}})
    assert (wrong.status_code, "weight: expected a number" in wrong.json()["error"]) == (422, True)
    assert shoal.json("PUT", f"{FEEDS}/best/parameters", ben, json={}) == {"parameters": {}}
    assert texts(shoal.json("GET", timeline, ben))[0] == "2 #bread"
    assert shoal.ask("GET", f"{FEEDS}/best/parameters", "").status_code == 401


def test_list_of_feeds_costs_the_same_reads_for_few_and_many_feeds_and_contained_feeds(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")

    def made(title: str, declaration: object) -> str:
        answer = shoal.json("POST", FEEDS, ann, json={"title": title, "declaration": declaration})
        return str(answer["id"])

    inner = [made(f"{number}", BREAD) for number in range(10)]
    reads: list[int] = []
    for contained in (inner[:1], inner):
        for title in contained:
            made(title, {"sources": [{"from": "feed", "feed": id_} for id_ in contained]})
        shoal.graph.reads.clear()
        shoal.ask("GET", FEEDS, ann)
        reads.append(len(shoal.graph.reads))
    assert reads[0] == reads[1]
    listed = shoal.json("GET", FEEDS, ann)
    assert listed == [shoal.json("GET", f"{FEEDS}/{feed['id']}/declaration", ann) for feed in listed]
    assert listed[0]["cost"] != listed[-1]["cost"]

"""The For you timeline as a list, for clients that support only home and lists."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture

LISTS = "/api/v1/lists"
TIMELINE = "/api/v1/timelines/list/1"


@pytest.fixture
def listing(monkeypatch: pytest.MonkeyPatch) -> Iterator[NetworkFixture]:
    # A test machine may be slow.
    monkeypatch.setattr("shoal.queries.foryou.feed.list_page.__kwdefaults__", {"deadline": 60.0})
    with network_fixture(for_you_list=True) as shoal:
        yield shoal


def people(shoal: NetworkFixture, posts: int = 25) -> tuple[Someone, Someone, list[str]]:
    """Ann follows Ben, who posts."""
    ann, ben = map(shoal.join, ("ann", "ben"))
    shoal.json("POST", f"/api/v1/accounts/{ben.id}/follow", ann)
    ids = [shoal.json("POST", "/api/v1/statuses", ben, json={"status": f"post {n}"})["id"] for n in range(posts)]
    shoal.settle()
    return ann, ben, ids


def ids_of(shoal: NetworkFixture, path: str, who: Someone) -> list[str]:
    return [status["id"] for status in shoal.json("GET", path, who)]


def test_foryou_list_precedes_lists_of_member(listing: NetworkFixture) -> None:
    ann = listing.join("ann")
    made = listing.json("POST", LISTS, ann, json={"title": "close friends"})
    for_you = {"id": "1", "title": "For you", "replies_policy": "list", "exclusive": False}
    assert listing.json("GET", LISTS, ann) == [for_you, made]
    assert listing.json("GET", f"{LISTS}/1", ann) == for_you
    assert listing.json("GET", f"{LISTS}/1/accounts", ann) == []


def test_foryou_list_disabled_returns_404(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    assert shoal.json("GET", LISTS, ann) == []
    for path in (f"{LISTS}/1", f"{LISTS}/1/accounts", TIMELINE):
        assert shoal.ask("GET", path, ann).status_code == 404


def test_foryou_list_update_is_refused(listing: NetworkFixture) -> None:
    ann, ben, _ = people(listing, 1)
    for method, path, body in (
        ("PUT", f"{LISTS}/1", {"title": "mine"}),
        ("DELETE", f"{LISTS}/1", {}),
        ("POST", f"{LISTS}/1/accounts", {"account_ids": [ben.id]}),
        ("DELETE", f"{LISTS}/1/accounts", {"account_ids": [ben.id]}),
    ):
        refused = listing.ask(method, path, ann, json=body)
        assert refused.status_code == 422
        assert "the server generates the list" in refused.json()["error"]
    assert listing.json("GET", f"{LISTS}/1", ann)["title"] == "For you"


def test_foryou_list_timeline_pages_by_max_id_and_by_link_are_equal(listing: NetworkFixture) -> None:
    ann, _, posts = people(listing)
    by_id: list[str] = []
    while page := ids_of(listing, f"{TIMELINE}?limit=10" + (f"&max_id={by_id[-1]}" if by_id else ""), ann):
        by_id += page
    assert sorted(by_id) == sorted(posts)
    by_link, path = [], f"{TIMELINE}?limit=10"
    while path:
        answer = listing.ask("GET", path, ann)
        assert answer.headers["shoal-feed"] == "for_you"
        by_link += [status["id"] for status in answer.json()]
        link = re.search(r'<https?://[^/]+([^>]*)>; rel="next"', answer.headers.get("link", ""))
        path = link[1] if link else ""
    assert by_link == by_id


@pytest.mark.parametrize("newer", ["since_id", "min_id"])
def test_foryou_list_timeline_with_since_id_returns_only_new_statuses(listing: NetworkFixture, newer: str) -> None:
    ann, ben, _ = people(listing)
    first = ids_of(listing, f"{TIMELINE}?limit=10", ann)
    assert ids_of(listing, f"{TIMELINE}?{newer}={first[0]}", ann) == []
    fresh = listing.json("POST", "/api/v1/statuses", ben, json={"status": "fresh"})["id"]
    listing.settle()
    assert ids_of(listing, f"{TIMELINE}?{newer}={first[0]}", ann) == [fresh]
    assert ids_of(listing, f"{TIMELINE}?max_id={fresh}&limit=10", ann) == first
    rest = ids_of(listing, f"{TIMELINE}?max_id={first[-1]}&limit=40", ann)
    assert len({fresh, *first, *rest}) == 26 == 1 + len(first) + len(rest)


def test_foryou_list_timeline_with_unknown_max_id_returns_first_page(listing: NetworkFixture) -> None:
    ann, _, _ = people(listing)
    first = ids_of(listing, f"{TIMELINE}?limit=40", ann)
    assert ids_of(listing, f"{TIMELINE}?max_id=123456789&limit=40", ann) == first


def test_foryou_list_timeline_skips_statuses_deleted_or_muted_between_pages(listing: NetworkFixture) -> None:
    ann, ben, posts = people(listing)
    first = ids_of(listing, f"{TIMELINE}?limit=5", ann)
    gone = next(id_ for id_ in posts if id_ not in first)
    listing.json("DELETE", f"/api/v1/statuses/{gone}", ben)
    assert gone not in ids_of(listing, f"{TIMELINE}?limit=40&max_id={first[-1]}", ann)
    listing.json("POST", f"/api/v1/accounts/{ben.id}/mute", ann)
    assert ids_of(listing, f"{TIMELINE}?limit=40&max_id={first[-1]}", ann) == []


def test_foryou_list_timeline_with_ranking_off_is_chronological_home_timeline(listing: NetworkFixture) -> None:
    ann, _, posts = people(listing)
    listing.json("PUT", "/api/shoal/v1/ranking/switch", ann, json={"on": False})
    answer = listing.ask("GET", f"{TIMELINE}?limit=10", ann)
    assert answer.headers["shoal-feed"] == "home; reason=off"
    assert [status["id"] for status in answer.json()] == posts[:-11:-1]
    assert ids_of(listing, f"{TIMELINE}?limit=10&max_id={posts[-10]}", ann) == posts[-11:-21:-1]

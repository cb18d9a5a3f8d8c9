"""Picked interests and feedback over HTTP."""

from __future__ import annotations

import pytest

from tests.api.in_memory_network import NetworkFixture, picture

INTERESTS = "/api/shoal/v1/interests"
FEEDBACK = "/api/shoal/v1/feedback"


def test_interests_can_be_listed_picked_and_deleted(shoal: NetworkFixture) -> None:
    ann, ben = map(shoal.join, ("ann", "ben"))
    media = shoal.json("POST", "/api/v2/media", ben, files={"file": ("sand.png", picture(), "image/png")})
    body = {"status": "low #tide", "media_ids": [media["id"]]}
    status = shoal.json("POST", "/api/v1/statuses", ben, json=body)
    shoal.settle()
    (offered,) = shoal.json("GET", INTERESTS, ann)
    assert (offered["name"], offered["uses"], offered["picked"]) == ("tide", 1, False)
    assert offered["url"].endswith("/tags/tide")
    assert offered["status"]["id"] == status["id"]
    assert offered["status"]["media_attachments"][0]["preview_url"]
    picked = shoal.json("PUT", INTERESTS, ann, json={"tags": ["#Fog"]})
    assert [(one["name"], one["picked"], one["status"] is None) for one in picked] == [
        ("fog", True, True),
        ("tide", False, False),
    ]
    assert [one["name"] for one in shoal.json("DELETE", INTERESTS, ann)] == ["tide"]
    for wrong in ({"tags": ["two words"]}, {"tags": ["a"] * 51}, {}):
        assert shoal.ask("PUT", INTERESTS, ann, json=wrong).status_code in {400, 422}


def test_feedback_returns_ranking_change_and_can_be_listed_and_undone(shoal: NetworkFixture) -> None:
    ann, ben = map(shoal.join, ("ann", "ben"))
    status = shoal.json("POST", "/api/v1/statuses", ben, json={"status": "low #tide"})["id"]
    path = f"/api/shoal/v1/statuses/{status}/feedback"
    assert shoal.json("POST", path, ann, json={"direction": "less"}) == {
        "account_id": ben.id,
        "tag": None,
        "taps": -1,
        "term": "author",
        "weight": 3.0,
        "value_before": 0.0,
        "value": -0.4,
        "contribution_before": 0.0,
        "contribution": pytest.approx(-1.2),
        "words": "posts by @ben count 1.20 less than before",
    }
    more = shoal.json("POST", path, ann, json={"direction": "more", "tag": "Tide"})
    assert (more["account_id"], more["tag"], more["taps"], more["term"]) == (None, "tide", 1, "tags")
    listed = shoal.json("GET", FEEDBACK, ann)
    assert [(one["taps"], one["account"]["username"]) for one in listed["accounts"]] == [(-1, "ben")]
    assert listed["tags"] == [{"name": "tide", "taps": 1}]
    assert shoal.json("DELETE", path, ann, params={"tag": "tide"})["taps"] == 0
    assert shoal.json("GET", FEEDBACK, ann)["tags"] == []
    assert shoal.json("DELETE", FEEDBACK, ann) == {"accounts": [], "tags": []}
    assert shoal.ask("POST", path, ann, json={"direction": "sideways"}).status_code in {400, 422}
    assert shoal.ask("POST", "/api/shoal/v1/statuses/5/feedback", ann, json={"direction": "less"}).status_code == 404

"""The For you timeline over HTTP: pages, explanations, recipe, switch, seen statuses and the why_not endpoint."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from tests.api.in_memory_network import NetworkFixture, Someone

FOR_YOU = "/api/shoal/v1/timelines/for_you"
RANKING = "/api/shoal/v1/ranking"


class Scene(NamedTuple):
    """Ann follows Ben, who likes what Cyd posts."""

    ann: Someone
    ben: Someone
    cyd: Someone
    posts: list[str]


@pytest.fixture
def scene(shoal: NetworkFixture, monkeypatch: pytest.MonkeyPatch) -> Scene:
    # A test machine may be slow.
    monkeypatch.setattr("shoal.queries.foryou.feed.page.__kwdefaults__", {"explain": False, "deadline": 60.0})
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    shoal.json("POST", f"/api/v1/accounts/{ben.id}/follow", ann)
    posts = [shoal.json("POST", "/api/v1/statuses", cyd, json={"status": f"post {n} #sea"})["id"] for n in range(25)]
    shoal.json("POST", f"/api/v1/statuses/{posts[0]}/favourite", ben)
    for n in range(25):
        shoal.json("POST", "/api/v1/statuses", ben, json={"status": f"ben's {n}"})
    shoal.settle()
    return Scene(ann, ben, cyd, posts)


def test_foryou_timeline_pages_follow_next_link_without_duplicates(shoal: NetworkFixture, scene: Scene) -> None:
    path, found = f"{FOR_YOU}?limit=15&explain=true", []
    while path:
        answer = shoal.ask("GET", path, scene.ann)
        assert answer.headers["shoal-feed"] == "for_you"
        assert answer.headers["cache-control"] == "private, no-store"
        found += answer.json()
        link = re.fullmatch(r'<https?://[^/]+(/.*)>; rel="next"', answer.headers.get("link", ""))
        path = link[1] if link else ""
    ids = [status["id"] for status in found]
    assert len(ids) == len(set(ids)) > 25
    assert scene.posts[0] in ids[:5]
    for status in found:
        ranking = status["shoal"]["ranking"]
        assert sum(term["contribution"] for term in ranking["terms"]) == pytest.approx(ranking["score"], abs=1e-6)
        assert all(term["words"] or not term["value"] for term in ranking["terms"])
        assert ranking["sources"]


def test_foryou_timeline_without_explain_parameter_omits_ranking_details(shoal: NetworkFixture, scene: Scene) -> None:
    (first, *_) = shoal.json("GET", f"{FOR_YOU}?limit=1", scene.ann)
    assert "ranking" not in first.get("shoal", {})
    assert shoal.json("GET", f"/api/v1/statuses/{first['id']}", scene.ann)["content"] == first["content"]


def test_ranking_recipe_can_be_updated_set_from_preset_and_reset(shoal: NetworkFixture, scene: Scene) -> None:
    before = shoal.json("GET", RANKING, scene.ann)
    assert (before["own"], before["on"]) == (False, True)
    assert set(before["presets"]) == {"balanced", "friends_first", "fresh", "explore", "nearby", "popular"}
    assert before["recipe"] == before["presets"]["balanced"]
    changed = shoal.json("PUT", RANKING, scene.ann, json={"weights": {"friends": 9.5}, "exploration": 0.25})
    assert changed["own"]
    assert changed["recipe"]["weights"] == {**before["recipe"]["weights"], "friends": 9.5}
    assert changed["recipe"]["exploration"] == 0.25
    fresh = shoal.json("PUT", RANKING, scene.ann, data={"preset": "fresh", "author_most": "7"})
    assert fresh["recipe"] == {**before["presets"]["fresh"], "author_most": 7}
    refusals: list[tuple[dict[str, object], str]] = [
        ({"weights": {"friends": 11}}, "weights"),
        ({"weights": {"frends": 1}}, "frends"),
        ({"preset": "none"}, "preset"),
        ({"half_life_hours": 0}, "half_life_hours"),
    ]
    for wrong, word in refusals:
        refused = shoal.ask("PUT", RANKING, scene.ann, json=wrong)
        assert refused.status_code == 422
        assert word in refused.json()["error"]
    assert shoal.json("GET", RANKING, scene.ann) == fresh
    assert shoal.json("DELETE", RANKING, scene.ann) == before


def test_ranking_recipe_link_can_be_imported_by_other_member(shoal: NetworkFixture, scene: Scene) -> None:
    mine = shoal.json("PUT", RANKING, scene.ann, json={"preset": "explore", "weights": {"friends": 0.123456789}})
    link = mine["link"]
    assert "/recipe?" in link
    assert "friends=0.123456789" in link
    page = shoal.ask("GET", link.partition(".test")[2])
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "0.123457" in page.text
    assert "default: 2" in page.text
    taken = shoal.json("PUT", RANKING, scene.ben, json={"link": link.replace("shoal.test", "elsewhere.example")})
    assert (taken["recipe"], taken["link"], taken["own"]) == (mine["recipe"], link, True)
    assert shoal.json("PUT", RANKING, scene.ben, json={"link": "friends=4"})["recipe"]["weights"]["friends"] == 4
    refusals: list[tuple[dict[str, object], str]] = [
        ({"link": link, "preset": "fresh"}, "cannot be combined with other parameters"),
        ({"link": "https://elsewhere.example/recipe"}, "numbers by their names"),
        ({"link": "?frends=4"}, "frends"),
        ({"link": "?friends=11"}, "weights.friends"),
        ({"link": "?friends=4" + "0" * 1_024}, "link"),
    ]
    for wrong, words in refusals:
        refused = shoal.ask("PUT", RANKING, scene.ben, json=wrong)
        assert refused.status_code == 422
        assert words in refused.json()["error"]
    assert shoal.ask("GET", "/recipe").status_code == 422
    for who in (scene.ann, scene.ben):
        shoal.json("DELETE", RANKING, who)


def test_foryou_timeline_with_ranking_switched_off_returns_home_timeline(shoal: NetworkFixture, scene: Scene) -> None:
    assert shoal.json("PUT", f"{RANKING}/switch", scene.ann, json={"on": False})["on"] is False
    answer = shoal.ask("GET", FOR_YOU, scene.ann)
    assert answer.headers["shoal-feed"] == "home; reason=off"
    assert "link" not in answer.headers
    home = shoal.json("GET", "/api/v1/timelines/home", scene.ann)
    assert [status["id"] for status in answer.json()] == [status["id"] for status in home]
    assert shoal.json("PUT", f"{RANKING}/switch", scene.ann, json={"on": True})["on"] is True
    assert shoal.ask("GET", FOR_YOU, scene.ann).headers["shoal-feed"] == "for_you"


def test_foryou_timeline_ranks_seen_status_lower(shoal: NetworkFixture, scene: Scene) -> None:
    shoal.json("PUT", RANKING, scene.ann, json={"weights": {"seen": -10}})
    first = shoal.json("GET", f"{FOR_YOU}?limit=1", scene.ann)[0]["id"]
    assert shoal.json("POST", "/api/shoal/v1/seen", scene.ann, json={"ids": [first]}) == {}
    assert shoal.json("GET", f"{FOR_YOU}?limit=1", scene.ann)[0]["id"] != first
    for ids in ([], [first] * 201):
        assert shoal.ask("POST", "/api/shoal/v1/seen", scene.ann, json={"ids": ids}).status_code == 422


def test_foryou_timeline_excludes_author_who_opted_out(shoal: NetworkFixture, scene: Scene) -> None:
    shoal.json("PATCH", "/api/v1/accounts/update_credentials", scene.cyd, data={"shoal[rankable]": "false"})
    assert shoal.json("GET", "/api/v1/preferences", scene.cyd)["shoal:rankable"] is False
    names = {status["account"]["username"] for status in shoal.json("GET", f"{FOR_YOU}?limit=40", scene.ann)}
    assert names == {"ben"}


def test_foryou_why_not_endpoint_returns_stage_and_rule_that_exclude_status(
    shoal: NetworkFixture, scene: Scene
) -> None:
    path = "/api/shoal/v1/statuses/{}/why_not".format
    shown = shoal.json("GET", path(scene.posts[0]), scene.ann)
    assert (shown["stage"], shown["place"]) == ("shown", 1)
    own = shoal.json("GET", path(scene.posts[0]), scene.cyd)
    assert (own["stage"], own["rule"], own["place"], own["words"]) == ("filter", "own", None, "it is your own")
    assert shoal.ask("GET", path(1), scene.ann).status_code == 404


@pytest.mark.parametrize("cursor", ["x", "AAAAAAAAAAAAAAAAAAA", "gAAAAAAAAAAAAAAA", "a" * 65, "é"])
def test_foryou_timeline_with_invalid_cursor_is_refused(shoal: NetworkFixture, scene: Scene, cursor: str) -> None:
    refused = shoal.ask("GET", f"{FOR_YOU}?cursor={cursor}", scene.ann)
    assert refused.status_code == 422
    assert "cursor" in refused.json()["error"]

"""A followers-only boost is visible only to followers: by id, on the booster's profile, and in `reblogged_by`."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.api.http.test_server import reads_of
from tests.api.in_memory_network import NetworkFixture, Someone


class Scene(NamedTuple):
    """Ben shared Ann's public post for his followers; Cyd follows him, Dan does not."""

    ann: Someone
    ben: Someone
    cyd: Someone
    dan: Someone
    post_id: str
    share_id: str


@pytest.fixture
def scene(shoal: NetworkFixture) -> Scene:
    ann, ben, cyd, dan = map(shoal.join, ("ann", "ben", "cyd", "dan"))
    shoal.json("POST", f"/api/v1/accounts/{ben.id}/follow", cyd)
    post = shoal.json("POST", "/api/v1/statuses", ann, json={"status": "hello"})
    share = shoal.json("POST", f"/api/v1/statuses/{post['id']}/reblog", ben, json={"visibility": "private"})
    shoal.settle()
    return Scene(ann, ben, cyd, dan, post["id"], share["id"])


def test_private_boost_by_id_is_visible_only_to_followers(shoal: NetworkFixture, scene: Scene) -> None:
    for path in (scene.share_id, f"{scene.share_id}/context", f"{scene.share_id}/history"):
        asked = [shoal.ask("GET", f"/api/v1/statuses/{path}", who).status_code for who in (*scene[1:4], "")]
        assert asked == [200, 200, 404, 404], path
    assert shoal.ask("POST", f"/api/v1/statuses/{scene.share_id}/favourite", scene.dan).status_code == 404
    assert shoal.ask("GET", f"/@ben/{scene.share_id}").status_code == 404


def test_private_boost_on_profile_is_visible_only_to_followers(shoal: NetworkFixture, scene: Scene) -> None:
    path = f"/api/v1/accounts/{scene.ben.id}/statuses"
    assert [len(shoal.json("GET", path, who)) for who in (scene.ben, scene.cyd, scene.dan, "")] == [1, 1, 0, 0]
    assert "hello" not in shoal.ask("GET", "/@ben").text


def test_reblogged_by_lists_only_public_boosts(shoal: NetworkFixture, scene: Scene) -> None:
    path = f"/api/v1/statuses/{scene.post_id}/reblogged_by"
    for who in (scene.ben, scene.cyd, scene.dan, "", scene.ann):
        assert shoal.json("GET", path, who) == []
    shoal.json("POST", f"/api/v1/statuses/{scene.post_id}/reblog", scene.dan)
    shoal.settle()
    assert [account["username"] for account in shoal.json("GET", path)] == ["dan"]


def test_reblogged_by_read_count_is_independent_of_boost_count(shoal: NetworkFixture, scene: Scene) -> None:
    path = f"/api/v1/statuses/{scene.post_id}/reblogged_by"
    costs = [reads_of(shoal, scene.cyd, path)]
    for n in range(12):
        shoal.json("POST", f"/api/v1/statuses/{scene.post_id}/reblog", shoal.join(f"more{n}"))
    shoal.settle()
    costs.append(reads_of(shoal, scene.cyd, path))
    assert costs[0] == costs[1]


def test_home_timeline_aggregates_boosts_of_one_status(shoal: NetworkFixture) -> None:
    ann, ben, cyd, eve = map(shoal.join, ("ann", "ben", "cyd", "eve"))
    for other in (ben, cyd, eve):
        shoal.json("POST", f"/api/v1/accounts/{other.id}/follow", ann)
    theirs = shoal.json("POST", "/api/v1/statuses", ben, json={"status": "hello", "shoal": {"data": {"n": 1}}})
    afar = shoal.json("POST", "/api/v1/statuses", shoal.join("dan"), json={"status": "from afar"})
    for post in (theirs, afar):
        for other in (cyd, eve):
            shoal.json("POST", f"/api/v1/statuses/{post['id']}/reblog", other)
    shoal.settle()
    shared, own = shoal.json("GET", "/api/v1/timelines/home", ann)
    assert (shared["reblog"]["id"], shared["account"]["acct"], own["id"]) == (afar["id"], "cyd", theirs["id"])
    assert [one["acct"] for one in shared["shoal"]["shared_by"]["accounts"]] == ["eve"]
    assert shared["shoal"]["shared_by"]["count"] == 1
    assert "shared_by" not in shared["reblog"].get("shoal", {})
    assert [one["acct"] for one in own["shoal"]["shared_by"]["accounts"]] == ["cyd", "eve"]
    assert own["shoal"]["shared_by"]["count"] == 2
    assert "shared_by" not in shoal.json("GET", f"/api/v1/statuses/{theirs['id']}", ann).get("shoal", {})
    shoal.json("PATCH", "/api/v1/accounts/update_credentials", ann, data={"shoal[aggregate_reblogs]": "0"})
    plain = shoal.json("GET", "/api/v1/timelines/home", ann)
    assert [one["account"]["acct"] for one in plain] == ["eve", "cyd", "eve", "cyd", "ben"]
    assert all("shared_by" not in one.get("shoal", {}) for one in plain)

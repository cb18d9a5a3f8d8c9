"""The catch-up timeline over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.api.in_memory_network import NetworkFixture

CATCH_UP = "/api/shoal/v1/timelines/catch_up"


def test_catch_up_timeline_returns_posts_of_rare_posters_then_best_posts_and_number_of_omitted_posts(
    shoal: NetworkFixture,
) -> None:
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    for friend in (ben, cyd):
        shoal.json("POST", f"/api/v1/accounts/{friend.id}/follow", ann)
    rare = shoal.json("POST", "/api/v1/statuses", cyd, json={"status": "rare"})
    often = [shoal.json("POST", "/api/v1/statuses", ben, json={"status": f"post {n}"})["id"] for n in range(5)]
    shoal.settle()
    since = (datetime.now(UTC) - timedelta(days=2)).isoformat()
    found = shoal.json("GET", CATCH_UP, ann, params={"since": since, "explain": "true"})
    assert [status["id"] for status in found["quiet"]] == [rare["id"]]
    assert {status["id"] for status in found["best"]} < set(often)
    assert (len(found["best"]), found["left_out"], found["by_time"]) == (2, 3, False)
    assert found["since"][:16] == since[:16]
    assert found["words"].startswith("That is the best since ")
    for status in (*found["quiet"], *found["best"]):
        ranking = status["shoal"]["ranking"]
        assert sum(term["contribution"] for term in ranking["terms"]) == pytest.approx(ranking["score"], abs=1e-6)
    plain = shoal.json("GET", CATCH_UP, ann)
    assert plain["quiet"][0]["content"] == rare["content"]
    assert "ranking" not in plain["quiet"][0].get("shoal", {})


@pytest.mark.parametrize("since", ["yesterday", "2999-01-01T00:00:00Z"])
def test_catch_up_timeline_with_invalid_or_future_since_is_refused(shoal: NetworkFixture, since: str) -> None:
    refused = shoal.ask("GET", CATCH_UP, shoal.join("ann"), params={"since": since})
    assert refused.status_code == 422
    assert "since" in refused.json()["error"]

"""Timeline markers over HTTP."""

from __future__ import annotations

import re

import pytest

from tests.api.in_memory_network import NetworkFixture


def test_markers_endpoint_omits_timeline_without_marker(shared: NetworkFixture) -> None:
    ann = shared.join("ann")
    assert shared.json("GET", "/api/v1/markers?timeline[]=home&timeline[]=notifications", ann) == {}
    assert shared.json("GET", "/api/v1/markers", ann) == {}


def test_marker_version_increments_on_each_update(shared: NetworkFixture) -> None:
    ben = shared.join("ben")
    first = shared.json("POST", "/api/v1/markers", ben, json={"home": {"last_read_id": "103"}})
    assert set(first) == {"home"}
    assert (first["home"]["last_read_id"], first["home"]["version"]) == ("103", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["home"]["updated_at"])
    both = {"home": {"last_read_id": "104"}, "notifications": {"last_read_id": "7"}}
    shared.json("POST", "/api/v1/markers", ben, json=both)
    found = shared.json("GET", "/api/v1/markers?timeline[]=home&timeline[]=notifications", ben)
    assert [(found[name]["last_read_id"], found[name]["version"]) for name in ("home", "notifications")] == [
        ("104", 2),
        ("7", 1),
    ]
    # A marker that the request omits is unchanged.
    assert set(shared.json("GET", "/api/v1/markers?timeline=notifications", ben)) == {"notifications"}


@pytest.mark.parametrize("way", ["form", "json", "query"])
def test_marker_update_accepts_form_json_and_query(shared: NetworkFixture, way: str) -> None:
    who = shared.join(f"by_{way}")
    if way == "json":
        shared.json("POST", "/api/v1/markers", who, json={"notifications": {"last_read_id": 42}})
    else:
        given = {"notifications[last_read_id]": "42"}
        shared.json("POST", "/api/v1/markers", who, **{"data" if way == "form" else "params": given})
    found = shared.json("GET", "/api/v1/markers?timeline=notifications", who)
    assert found["notifications"]["last_read_id"] == "42"


def test_marker_update_with_empty_or_invalid_id_sets_nothing(shared: NetworkFixture) -> None:
    cyd = shared.join("cyd")
    assert shared.json("POST", "/api/v1/markers", cyd, json={}) == {}
    assert shared.json("POST", "/api/v1/markers", cyd, json={"list:1": {"last_read_id": "1"}}) == {}
    for wrong in ("x", "-", str(2**63)):
        answer = shared.ask("POST", "/api/v1/markers", cyd, json={"home": {"last_read_id": wrong}})
        assert answer.status_code == 404
    assert shared.json("GET", "/api/v1/markers?timeline[]=home", cyd) == {}


def test_markers_endpoint_omits_internal_marker_of_cleared_notifications(shared: NetworkFixture) -> None:
    dan, eve = shared.join("dan"), shared.join("eve")
    shared.json("POST", "/api/v1/statuses", eve, json={"status": "@dan"})
    shared.settle()
    shared.json("POST", "/api/v1/notifications/clear", dan)
    asked = "timeline[]=notifications cleared&timeline[]=notifications&timeline[]=cleared"
    assert shared.json("GET", f"/api/v1/markers?{asked}", dan) == {}

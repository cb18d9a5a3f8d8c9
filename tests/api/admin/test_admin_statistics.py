"""Admin API: measures, dimensions and retention."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shoal.core.model import Role
from shoal.graph.schema import tag_id
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture, picture

MEASURES = "/api/v1/admin/measures"
DIMENSIONS = "/api/v1/admin/dimensions"
RETENTION = "/api/v1/admin/retention"
DAY = timedelta(days=1)
ELSEWHERE = {"domain": "elsewhere.example"}


@pytest.fixture
def w() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


@pytest.fixture
def mod(w: NetworkFixture) -> Someone:
    return w.staff("mo", Role.MODERATOR)


def week() -> dict[str, str]:
    """Return a period of seven days up to tomorrow, because a test may run at midnight."""
    now = datetime.now(UTC)
    return {"start_at": (now - 5 * DAY).isoformat(), "end_at": (now + DAY).isoformat()}


def measured(w: NetworkFixture, mod: Someone, *keys: str, **more: Any) -> dict[str, Any]:
    found = w.json("POST", MEASURES, mod, json={**week(), "keys": keys, **more})
    assert [one["key"] for one in found] == list(keys)
    return {one["key"]: one for one in found}


def ranked(w: NetworkFixture, mod: Someone, *keys: str, **more: Any) -> dict[str, list[tuple[str, str, str]]]:
    found = w.json("POST", DIMENSIONS, mod, json={**week(), "keys": keys, **more})
    assert [one["key"] for one in found] == list(keys)
    return {one["key"]: [(row["key"], row["human_key"], row["value"]) for row in one["data"]] for one in found}


def busy(w: NetworkFixture) -> tuple[Someone, Someone]:
    """Ann posts twice; Ben likes, shares and replies; Cyd only joins."""
    ann, ben, _ = w.join("ann"), w.join("ben"), w.join("cyd")
    media = w.json("POST", "/api/v2/media", ann, files={"file": ("a.png", picture(), "image/png")})["id"]
    form = {"status": "the #dawn", "language": "en", "media_ids": [media]}
    post = w.json("POST", "/api/v1/statuses", ann, json=form)["id"]
    w.json("POST", "/api/v1/statuses", ann, json={"status": "#dawn #tide", "language": "de"})
    w.json("POST", f"/api/v1/statuses/{post}/favourite", ben)
    w.json("POST", f"/api/v1/statuses/{post}/reblog", ben)
    w.json("POST", "/api/v1/statuses", ben, json={"status": "so #dawn", "in_reply_to_id": post, "language": "en"})
    return ann, ben


def test_admin_measures_count_recorded_activity(w: NetworkFixture, mod: Someone) -> None:
    ann, ben = busy(w)
    w.json("POST", "/api/v1/reports", ann, json={"account_id": ben.id})
    filed = w.json("POST", "/api/v1/reports", ben, json={"account_id": ann.id})["id"]
    w.json("POST", f"/api/v1/admin/reports/{filed}/resolve", mod)
    found = measured(w, mod, "active_users", "new_users", "interactions", "opened_reports", "resolved_reports")
    totals = {key: (one["total"], one["previous_total"]) for key, one in found.items()}
    assert totals == {
        "active_users": ("2", "0"),
        "new_users": ("4", "0"),
        "interactions": ("3", "0"),
        "opened_reports": ("2", "0"),
        "resolved_reports": ("1", "0"),
    }
    for one in found.values():
        days = [datetime.fromisoformat(day["date"]) for day in one["data"]]
        assert [day - days[0] for day in days] == [n * DAY for n in range(7)]
        assert days[0].isoformat().endswith("T00:00:00+00:00")
        assert sum(int(day["value"]) for day in one["data"]) == int(one["total"])
        assert one["unit"] is None


def test_admin_measures_of_tag_accept_id_or_name(w: NetworkFixture, mod: Someone) -> None:
    busy(w)
    w.settle()
    for text in (str(-tag_id("dawn")), "Dawn"):
        asked = {key: {"id": text} for key in ("tag_accounts", "tag_uses", "tag_servers")}
        found = measured(w, mod, *asked, **asked)
        assert [(one["total"], one["previous_total"]) for one in found.values()] == [("2", "0"), ("3", "0"), ("1", "0")]
        w.graph.reads.clear()
        measured(w, mod, "tag_uses", tag_uses={"id": text})
        alone = len(w.graph.reads)
        w.graph.reads.clear()
        measured(w, mod, *asked, **asked)
        assert len(w.graph.reads) == alone
    assert measured(w, mod, "tag_uses", tag_uses={"id": "123"})["tag_uses"]["total"] == "0"
    asked = {key: {"id": "dawn"} for key in ("tag_languages", "tag_servers")}
    assert ranked(w, mod, *asked, **asked) == {
        "tag_languages": [("en", "English", "2"), ("de", "Deutsch", "1")],
        "tag_servers": [("shoal.test", "shoal.test", "3")],
    }


def test_admin_measures_and_dimensions_of_remote_domain_are_empty(w: NetworkFixture, mod: Someone) -> None:
    kinds = ("accounts", "media_attachments", "reports", "statuses", "follows", "followers")
    asked = {f"instance_{kind}": ELSEWHERE for kind in kinds}
    found = measured(w, mod, *asked, **asked)
    assert {one["total"] for one in found.values()} == {"0"}
    assert (found["instance_media_attachments"]["unit"], found["instance_accounts"]["unit"]) == ("bytes", None)
    asked = dict.fromkeys(("instance_accounts", "instance_languages"), ELSEWHERE)
    assert ranked(w, mod, *asked, **asked) == {"instance_accounts": [], "instance_languages": []}


def test_admin_dimensions_are_sorted_and_respect_limit(w: NetworkFixture, mod: Someone) -> None:
    ann, _ = busy(w)
    found = ranked(w, mod, "languages", "sources", "servers", "space_usage", "software_versions")
    assert found["languages"] == [("en", "English", "2"), ("de", "Deutsch", "1")]
    assert sorted(int(row[2]) for row in found["sources"]) == [1, 2]
    assert {row[0] for row in found["sources"]} >= {str(ann.app_id)}
    assert found["servers"] == [("shoal.test", "shoal.test", "3")]
    ((key, _, size),) = found["space_usage"]
    assert key == "media"
    assert int(size) > 0
    assert [row[0] for row in found["software_versions"]] == ["shoal", "python"]
    assert ranked(w, mod, "languages", limit=1)["languages"] == [("en", "English", "2")]


@pytest.mark.parametrize("frequency", ["day", "month"])
def test_admin_retention_lists_cohorts_and_their_rates(w: NetworkFixture, mod: Someone, frequency: str) -> None:
    busy(w)
    now = datetime.now(UTC)
    start, end = now - 40 * DAY, now + DAY
    form = {"start_at": start.isoformat(), "end_at": end.isoformat(), "frequency": frequency}
    cohorts = w.json("POST", RETENTION, mod, data=form)
    assert {cohort["frequency"] for cohort in cohorts} == {frequency}
    assert [cohort["period"] for cohort in cohorts] == [held["date"] for held in cohorts[0]["data"]]
    for place, cohort in enumerate(cohorts):
        assert [held["date"] for held in cohort["data"]] == [each["period"] for each in cohorts[place:]]
    assert sum(int(cohort["data"][0]["value"]) for cohort in cohorts) == 2
    assert max(held["rate"] for cohort in cohorts for held in cohort["data"]) == 0.5
    if frequency == "month":
        assert {datetime.fromisoformat(cohort["period"]).day for cohort in cohorts} == {1}


GOOD = {"start_at": "2026-01-01", "end_at": "2026-02-01T12:00:00Z"}


@pytest.mark.parametrize(
    ("path", "form", "words"),
    [
        (MEASURES, {**GOOD, "keys": []}, "keys"),
        (MEASURES, {**GOOD, "keys": ["everything"]}, "keys"),
        (MEASURES, {"keys": ["new_users"], "start_at": "long ago", "end_at": "2026-01-01"}, "start_at"),
        (MEASURES, {"keys": ["new_users"], "start_at": "1969-12-31", "end_at": "1970-01-02"}, "start_at"),
        (MEASURES, {"keys": ["new_users"], "start_at": "2026-01-02", "end_at": "2026-01-01"}, "end_at"),
        (MEASURES, {"keys": ["new_users"], "start_at": "2024-01-01", "end_at": "2026-01-01"}, "end_at"),
        (MEASURES, {**GOOD, "keys": ["tag_uses"]}, "tag_uses"),
        (MEASURES, {**GOOD, "keys": ["tag_uses"], "tag_uses": {"id": "no tag"}}, "tag"),
        (MEASURES, {**GOOD, "keys": ["instance_accounts"]}, "instance_accounts"),
        (
            MEASURES,
            {**GOOD, "keys": ["instance_accounts"], "instance_accounts": {"domain": "SHOAL.test"}},
            "another_server",
        ),
        (DIMENSIONS, {**GOOD, "keys": ["languages"], "limit": 0}, "limit"),
        (DIMENSIONS, {**GOOD, "keys": ["languages"], "limit": 101}, "limit"),
        (DIMENSIONS, {**GOOD, "keys": ["active_users"]}, "keys"),
        (RETENTION, {**GOOD, "frequency": "year"}, "frequency"),
        (RETENTION, {"start_at": "2025-06-01", "end_at": "2026-01-01"}, "end_at"),
    ],
)
def test_admin_statistics_with_invalid_parameters_return_422(
    w: NetworkFixture, mod: Someone, path: str, form: Any, words: str
) -> None:
    answer = w.ask("POST", path, mod, json=form)
    assert answer.status_code == 422
    assert words in answer.json()["error"].lower().replace(" ", "_")


def test_admin_statistics_without_period_cover_last_30_days(w: NetworkFixture, mod: Someone) -> None:
    (measure,) = w.json("POST", MEASURES, mod, json={"keys": ["new_users"]})
    days = [datetime.fromisoformat(day["date"]).date() for day in measure["data"]]
    assert len(days) == 30
    assert days[-1] == datetime.now(UTC).date()
    assert [one["key"] for one in w.json("POST", DIMENSIONS, mod, json={"keys": ["languages"]})] == ["languages"]
    assert len(w.json("POST", RETENTION, mod, json={})) == 30


def test_admin_statistics_with_only_end_at_start_29_days_earlier(w: NetworkFixture, mod: Someone) -> None:
    end = datetime.now(UTC).date() - timedelta(days=3)
    (measure,) = w.json("POST", MEASURES, mod, json={"keys": ["new_users"], "end_at": end.isoformat()})
    days = [datetime.fromisoformat(day["date"]).date() for day in measure["data"]]
    assert (days[0], days[-1]) == (end - timedelta(days=29), end)

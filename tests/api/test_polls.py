"""Polls, pins, muted threads and scheduled statuses over HTTP."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shoal.mastodon_api.entities.serializers import moment
from shoal.scheduler import Agenda
from tests.api.in_memory_network import NetworkFixture, Someone, picture

POLL = {"options": ["tea", "coffee"], "expires_in": 600}


def ask(shoal: NetworkFixture, who: Someone, **poll: Any) -> Any:
    return shoal.json("POST", "/api/v1/statuses", who, json={"status": "What?", "poll": {**POLL, **poll}})


def later(minutes: float) -> str:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()


def test_poll_entity_has_exactly_mastodon_keys(shared: NetworkFixture) -> None:
    ann, ben = shared.join("poll_ann"), shared.join("poll_ben")
    status = ask(shared, ann)
    poll = status["poll"]
    assert poll == {
        "id": poll["id"],
        "expires_at": poll["expires_at"],
        "expired": False,
        "multiple": False,
        "votes_count": 0,
        "voters_count": None,
        "voted": True,
        "own_votes": [],
        "options": [{"title": "tea", "votes_count": 0}, {"title": "coffee", "votes_count": 0}],
        "emojis": [],
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", poll["expires_at"])
    path = f"/api/v1/polls/{poll['id']}"
    assert shared.json("GET", path, ann) == poll
    nobody = shared.json("GET", path)
    assert "voted" not in nobody
    assert "own_votes" not in nobody
    asked = shared.json("GET", path, ben)
    assert (asked["voted"], asked["own_votes"]) == (False, [])
    voted = shared.json("POST", f"{path}/votes", ben, json={"choices": [1]})
    assert (voted["voted"], voted["own_votes"], voted["votes_count"]) == (True, [1], 1)
    assert voted["options"][1] == {"title": "coffee", "votes_count": 1}
    assert shared.json("GET", f"/api/v1/statuses/{status['id']}", ben)["poll"] == voted
    share = shared.json("POST", f"/api/v1/statuses/{status['id']}/reblog", ann)
    assert (share["poll"], share["reblog"]["poll"]["votes_count"]) == (None, 1)


@pytest.mark.parametrize(
    "sent",
    [{"json": {"choices": [0, 1]}}, {"json": {"choices": ["0", "1"]}}, {"data": {"choices[]": ["0", "1"]}}],
    ids=["numbers", "texts", "a form"],
)
def test_poll_vote_accepts_number_string_and_form_choices(shoal: NetworkFixture, sent: dict[str, Any]) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    poll = ask(shoal, ann, multiple="1", hide_totals=True)["poll"]
    assert [option["votes_count"] for option in poll["options"]] == [None, None]
    voted = shoal.json("POST", f"/api/v1/polls/{poll['id']}/votes", ben, **sent)
    assert (voted["own_votes"], voted["votes_count"], voted["voters_count"]) == ([0, 1], 2, 1)
    assert [option["votes_count"] for option in voted["options"]] == [None, None]


def test_poll_vote_that_is_invalid_or_repeated_returns_mastodon_error_message(shared: NetworkFixture) -> None:
    ann, ben, cyd = (shared.join(f"vote_{name}") for name in ("ann", "ben", "cyd"))
    path = f"/api/v1/polls/{ask(shared, ann)['poll']['id']}/votes"
    for choices, words in (
        ([7], "The chosen vote option does not exist"),
        ([0, 1], "You have already voted on this poll"),
    ):
        answer = shared.ask("POST", path, ben, json={"choices": choices})
        assert (answer.status_code, words in answer.json()["error"]) == (422, True)
    shared.json("POST", path, ben, json={"choices": [0]})
    answer = shared.ask("POST", path, ben, json={"choices": [1]})
    assert (answer.status_code, "You have already voted on this poll" in answer.json()["error"]) == (422, True)
    assert shared.ask("POST", path, ann, json={"choices": [0]}).status_code == 422
    assert shared.ask("POST", path, cyd, json={}).status_code == 400
    assert shared.ask("POST", path, cyd, json={"choices": []}).status_code == 400
    secret = {"status": "x", "visibility": "private", "poll": POLL}
    hidden = shared.json("POST", "/api/v1/statuses", ann, json=secret)["poll"]["id"]
    assert shared.ask("GET", f"/api/v1/polls/{hidden}", ben).status_code == 404
    assert shared.ask("POST", f"/api/v1/polls/{hidden}/votes", ben, json={"choices": [0]}).status_code == 404
    for id_ in ("1", "x", "9" * 30):
        assert shared.ask("GET", f"/api/v1/polls/{id_}", ben).status_code == 404


def test_poll_edit_appears_in_status_history(shared: NetworkFixture) -> None:
    ann = shared.join("edit_ann")
    status = ask(shared, ann)
    path = f"/api/v1/statuses/{status['id']}"
    same = shared.json("PUT", path, ann, json={"status": "What, then?"})
    assert same["poll"]["id"] == status["poll"]["id"]
    other = shared.json("PUT", path, ann, json={"status": "What, then?", "poll": {**POLL, "options": ["gin", "rum"]}})
    assert other["poll"]["id"] != status["poll"]["id"]
    history = shared.json("GET", f"{path}/history", ann)
    titles = [[option["title"] for option in edit["poll"]["options"]] for edit in history]
    assert titles == [["tea", "coffee"], ["tea", "coffee"], ["gin", "rum"]]
    gone = shared.json("DELETE", path, ann)
    assert (gone["text"], gone["poll"]["id"]) == ("What, then?", other["poll"]["id"])
    assert shared.ask("GET", f"/api/v1/polls/{other['poll']['id']}", ann).status_code == 404


def test_poll_blank_options_are_omitted(shared: NetworkFixture) -> None:
    ann = shared.join("rows_ann")
    assert len(ask(shared, ann, options=["a", "", "b", " "])["poll"]["options"]) == 2
    body = {"status": "no poll", "poll": {"options": []}}
    assert shared.json("POST", "/api/v1/statuses", ann, json=body)["poll"] is None


def test_pinned_statuses_are_listed_on_profile_up_to_five(shared: NetworkFixture) -> None:
    ann, ben = shared.join("pin_ann"), shared.join("pin_ben")
    ids = [shared.json("POST", "/api/v1/statuses", ann, json={"status": str(n)})["id"] for n in range(6)]
    for id_ in ids[:5]:
        assert shared.json("POST", f"/api/v1/statuses/{id_}/pin", ann)["pinned"] is True
    listed = f"/api/v1/accounts/{ann.id}/statuses?pinned=true"
    assert [one["id"] for one in shared.json("GET", listed)] == ids[4::-1]
    assert all(one["pinned"] for one in shared.json("GET", listed, ann))
    assert all("pinned" not in one for one in shared.json("GET", listed, ben))
    answer = shared.ask("POST", f"/api/v1/statuses/{ids[5]}/pin", ann)
    assert (answer.status_code, answer.json()["error"]) == (
        422,
        "Validation failed: You have already pinned the maximum number of posts",
    )
    assert shared.ask("POST", f"/api/v1/statuses/{ids[0]}/pin", ben).status_code == 422
    assert shared.json("POST", f"/api/v1/statuses/{ids[0]}/unpin", ann)["pinned"] is False
    share = shared.json("POST", f"/api/v1/statuses/{ids[1]}/reblog", ann)
    assert (share["pinned"], share["reblog"]["pinned"]) == (False, True)


def test_thread_mute_sets_muted_flag_on_all_statuses(shared: NetworkFixture) -> None:
    ann, ben = shared.join("mute_ann"), shared.join("mute_ben")
    root = shared.json("POST", "/api/v1/statuses", ann, json={"status": "root"})["id"]
    reply = shared.json("POST", "/api/v1/statuses", ben, json={"status": "x", "in_reply_to_id": root})["id"]
    assert shared.json("POST", f"/api/v1/statuses/{reply}/mute", ann)["muted"] is True
    assert shared.json("GET", f"/api/v1/statuses/{root}", ann)["muted"] is True
    assert shared.json("GET", f"/api/v1/statuses/{root}", ben)["muted"] is False
    assert shared.json("POST", f"/api/v1/statuses/{root}/unmute", ann)["muted"] is False


def test_scheduled_status_is_created_rescheduled_and_deleted(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    body = {"status": "later", "scheduled_at": later(10), "visibility": "unlisted", "poll": POLL, "language": "en"}
    headers = {"Idempotency-Key": "once"}
    made = shoal.json("POST", "/api/v1/statuses", ann, json=body, headers=headers)
    assert shoal.json("POST", "/api/v1/statuses", ann, json=body, headers=headers) == made
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", made["scheduled_at"])
    assert made == {
        "id": made["id"],
        "scheduled_at": made["scheduled_at"],
        "media_attachments": [],
        "params": {
            "text": "later",
            "poll": {**POLL, "multiple": False, "hide_totals": False},
            "media_ids": None,
            "sensitive": False,
            "spoiler_text": "",
            "visibility": "unlisted",
            "in_reply_to_id": None,
            "language": "en",
            "application_id": ann.app_id,
            "idempotency": None,
            "scheduled_at": None,
            "with_rate_limit": False,
        },
    }
    path = f"/api/v1/scheduled_statuses/{made['id']}"
    assert shoal.json("GET", path, ann) == made
    for method, more in (("GET", {}), ("PUT", {"json": {"scheduled_at": later(20)}}), ("DELETE", {})):
        assert shoal.ask(method, path, ben, **more).status_code == 404
    moved = shoal.json("PUT", path, ann, json={"scheduled_at": "2030-01-31T12:00:00+01:00"})
    assert (moved["id"], moved["scheduled_at"]) == (made["id"], moment(1_896_087_600_000))
    assert shoal.ask("PUT", path, ann, json={"scheduled_at": later(4)}).status_code == 422
    assert shoal.json("DELETE", path, ann) == {}
    assert shoal.json("GET", "/api/v1/scheduled_statuses", ann) == []
    assert shoal.ask("GET", path, ann).status_code == 404


def test_scheduled_status_failed_at_due_time_shows_reason_and_notifies_author(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    parent = shoal.json("POST", "/api/v1/statuses", ben, json={"status": "parent"})["id"]
    body = {"status": "reply", "scheduled_at": later(10), "in_reply_to_id": parent}
    made = shoal.json("POST", "/api/v1/statuses", ann, json=body)
    shoal.json("DELETE", f"/api/v1/statuses/{parent}", ben)
    then = int((datetime.now(UTC) + timedelta(minutes=11)).timestamp() * 1000)
    shoal.run(Agenda(shoal.network.writes, clock=lambda: then).once())
    shoal.run(shoal.network.settle())
    path = f"/api/v1/scheduled_statuses/{made['id']}"
    refused = {"refused": "A post or file that this post refers to no longer exists"}
    assert shoal.json("GET", path, ann) == {**made, "shoal": refused}
    (notice,) = shoal.json("GET", "/api/v1/notifications", ann)
    assert (notice["type"], notice["account"]["id"]) == ("shoal:scheduled_status_failed", ann.id)
    (group,) = shoal.json("GET", "/api/v2/notifications", ann)["notification_groups"]
    assert group["type"] == "shoal:scheduled_status_failed"
    assert "shoal" not in shoal.json("PUT", path, ann, json={"scheduled_at": later(20)})
    assert shoal.json("GET", "/api/v1/notifications", ann) == []


def test_scheduled_statuses_are_paginated(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    photo = shoal.json("POST", "/api/v2/media", ann, files={"file": picture()})["id"]
    ids = []
    for n in range(5):
        body = {"status": str(n), "scheduled_at": later(10 + n), "media_ids": [photo]}
        ids.append(shoal.json("POST", "/api/v1/statuses", ann, json=body)["id"])
    first = shoal.ask("GET", "/api/v1/scheduled_statuses?limit=2", ann)
    assert [one["id"] for one in first.json()] == ids[:2:-1]
    assert [one["id"] for one in first.json()[0]["media_attachments"]] == [photo]
    assert first.links["next"]["url"].endswith(f"limit=2&max_id={ids[3]}")
    second = shoal.json("GET", f"/api/v1/scheduled_statuses?limit=2&max_id={ids[3]}", ann)
    assert [one["id"] for one in second] == [ids[2], ids[1]]
    above = shoal.json("GET", f"/api/v1/scheduled_statuses?limit=2&min_id={ids[1]}", ann)
    assert [one["id"] for one in above] == [ids[3], ids[2]]
    assert shoal.json("GET", f"/api/v1/accounts/{ann.id}/statuses", ann) == []


def test_scheduled_status_less_than_five_minutes_ahead_is_refused(shared: NetworkFixture) -> None:
    ann = shared.join("near_ann")
    answer = shared.ask("POST", "/api/v1/statuses", ann, json={"status": "x", "scheduled_at": later(4)})
    assert (answer.status_code, answer.json()["error"]) == (
        422,
        "Validation failed: Scheduled at must be at least 5 minutes in the future",
    )


def test_status_deletion_with_delete_media_deletes_pictures(shared: NetworkFixture) -> None:
    ann = shared.join("delete_ann")
    for asked, there in ((False, 200), (True, 404)):
        photo = shared.json("POST", "/api/v2/media", ann, files={"file": picture()})["id"]
        id_ = shared.json("POST", "/api/v1/statuses", ann, json={"media_ids": [photo]})["id"]
        gone = shared.json("DELETE", f"/api/v1/statuses/{id_}?delete_media={str(asked).lower()}", ann)
        assert [one["id"] for one in gone["media_attachments"]] == [photo]
        assert shared.ask("GET", f"/api/v1/media/{photo}", ann).status_code == there


def test_instance_configuration_includes_poll_and_pin_limits(shared: NetworkFixture) -> None:
    for version in ("v1", "v2"):
        allowed = shared.json("GET", f"/api/{version}/instance")["configuration"]
        assert allowed["polls"] == {
            "max_options": 4,
            "max_characters_per_option": 50,
            "min_expiration": 300,
            "max_expiration": 2_629_746,
        }
        assert allowed["accounts"]["max_pinned_statuses"] == 5

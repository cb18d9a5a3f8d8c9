"""Accounts over HTTP: follow requests, follows, mutes, notes, endorsements, profiles and preferences."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from shoal.core.ids import shard_of
from shoal.core.model import Role
from shoal.graph.contract import Batch
from tests.api.in_memory_network import NetworkFixture, Someone, picture

EVERY_KEY = {
    "id": "",
    "following": False,
    "showing_reblogs": False,
    "notifying": False,
    "languages": None,
    "followed_by": False,
    "blocking": False,
    "blocked_by": False,
    "muting": False,
    "muting_notifications": False,
    "muting_expires_at": None,
    "requested": False,
    "requested_by": False,
    "domain_blocking": False,
    "endorsed": False,
    "note": "",
}


def do(shoal: NetworkFixture, who: Someone, verb: str, whom: Someone, **more: Any) -> Any:
    return shoal.json("POST", f"/api/v1/accounts/{whom.id}/{verb}", who, **more)


def stand(whom: Someone, **what: Any) -> dict[str, Any]:
    return {**EVERY_KEY, "id": whom.id, **what}


def change(shoal: NetworkFixture, who: Someone, **more: Any) -> Any:
    return shoal.json("PATCH", "/api/v1/accounts/update_credentials", who, **more)


def names(accounts: list[dict[str, Any]]) -> list[str]:
    return [account["username"] for account in accounts]


def test_follow_requests_of_locked_account_are_listed_authorized_and_rejected(shoal: NetworkFixture) -> None:
    shy, ann, ben = map(shoal.join, ("shy", "ann", "ben"))
    assert change(shoal, shy, data={"locked": "true"})["locked"] is True
    assert do(shoal, ann, "follow", shy) == stand(shy, requested=True, showing_reblogs=True)
    wish = {"reblogs": False, "notify": True, "languages": ["en"]}
    asked = stand(shy, requested=True, notifying=True, languages=["en"])
    assert do(shoal, ben, "follow", shy, json=wish) == asked
    assert shoal.json("GET", f"/api/v1/accounts/relationships?id={shy.id}", ben) == [asked]
    assert shoal.json("GET", "/api/v1/accounts/verify_credentials", shy)["source"]["follow_requests_count"] == 2
    assert names(shoal.json("GET", "/api/v1/follow_requests", shy)) == ["ben", "ann"]
    first = shoal.ask("GET", "/api/v1/follow_requests?limit=1", shy)
    assert names(first.json()) == ["ben"]
    following = re.match(r'<([^>]*)>; rel="next"', first.headers["link"])
    assert following
    assert names(shoal.json("GET", following[1], shy)) == ["ann"]
    answered = shoal.json("POST", f"/api/v1/follow_requests/{ann.id}/authorize", shy)
    assert answered == stand(ann, followed_by=True)
    assert shoal.json("POST", f"/api/v1/follow_requests/{ben.id}/reject", shy) == stand(ben)
    for verb in ("authorize", "reject"):
        for whom in (ann.id, ben.id, "1", "x"):
            assert shoal.ask("POST", f"/api/v1/follow_requests/{whom}/{verb}", shy).status_code == 404
    assert shoal.json("GET", "/api/v1/follow_requests", shy) == []
    assert shoal.json("GET", f"/api/v1/accounts/relationships?id={shy.id}", ann) == [
        stand(shy, following=True, showing_reblogs=True)
    ]


def test_follow_options_are_saved_and_updated_by_repeated_follow(shoal: NetworkFixture) -> None:
    ann, ben = map(shoal.join, ("ann", "ben"))
    assert do(shoal, ann, "follow", ben, json={"reblogs": "0", "notify": True, "languages": ["en", "de"]}) == stand(
        ben, following=True, notifying=True, languages=["en", "de"]
    )
    expected = stand(ben, following=True, showing_reblogs=True, notifying=True, languages=["en", "de"])
    assert do(shoal, ann, "follow", ben, data={"reblogs": "true"}) == expected
    assert do(shoal, ann, "follow", ben) == expected
    for wrong in ({"languages": ["x" * 36]}, {"languages": ["en"] * 101}, {"reblogs": ["true"]}):
        assert shoal.ask("POST", f"/api/v1/accounts/{ben.id}/follow", ann, json=wrong).status_code == 422
    assert do(shoal, ann, "unfollow", ben) == stand(ben)


def test_mute_with_duration_is_listed_with_expiry(shoal: NetworkFixture) -> None:
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    found = do(shoal, ann, "mute", ben, data={"duration": "3600", "notifications": "false"})
    assert (found["muting"], found["muting_notifications"]) == (True, False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["muting_expires_at"])
    assert do(shoal, ann, "mute", cyd) == stand(cyd, muting=True, muting_notifications=True)
    listed = shoal.json("GET", "/api/v1/mutes", ann)
    assert [(one["username"], one["mute_expires_at"]) for one in listed] == [
        ("cyd", None),
        ("ben", found["muting_expires_at"]),
    ]
    account = shoal.json("GET", f"/api/v1/accounts/{ben.id}")
    assert listed[1] == {**account, "mute_expires_at": found["muting_expires_at"]}
    for duration in ("-1", "99999999999", "soon"):
        answer = shoal.ask("POST", f"/api/v1/accounts/{ben.id}/mute", ann, data={"duration": duration})
        assert answer.status_code == 422
    assert do(shoal, ann, "unmute", ben) == stand(ben)


def test_relationship_includes_note_and_endorsement(shoal: NetworkFixture) -> None:
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    assert do(shoal, ann, "note", ben, json={"comment": "met at sea"}) == stand(ben, note="met at sea")
    assert shoal.ask("POST", f"/api/v1/accounts/{ben.id}/note", ann, json={"comment": "x" * 2001}).status_code == 422
    assert do(shoal, ann, "note", ben, json={"comment": ""}) == do(shoal, ann, "note", ben) == stand(ben)
    refused = shoal.ask("POST", f"/api/v1/accounts/{ben.id}/endorse", ann)
    assert (refused.status_code, "following" in refused.json()["error"]) == (422, True)
    for other in (ben, cyd):
        do(shoal, ann, "follow", other)
    assert do(shoal, ann, "endorse", ben)["endorsed"] is True
    assert do(shoal, ann, "pin", cyd)["endorsed"] is True
    assert names(shoal.json("GET", "/api/v1/endorsements", ann)) == ["cyd", "ben"]
    assert names(shoal.json("GET", f"/api/v1/accounts/{ann.id}/endorsements")) == ["cyd", "ben"]
    assert do(shoal, ann, "unpin", cyd)["endorsed"] is False
    do(shoal, ann, "unfollow", ben)
    assert shoal.json("GET", "/api/v1/endorsements", ann) == []


def test_remove_from_followers_removes_follower_idempotently(shoal: NetworkFixture) -> None:
    ann, ben = map(shoal.join, ("ann", "ben"))
    do(shoal, ben, "follow", ann)
    assert do(shoal, ann, "remove_from_followers", ben) == do(shoal, ann, "remove_from_followers", ben) == stand(ben)
    assert shoal.json("GET", f"/api/v1/accounts/{ann.id}/followers") == []


@pytest.mark.parametrize("verb", ["remove_from_followers", "endorse", "unendorse", "note", "mute", "follow"])
def test_account_action_on_unknown_account_returns_404(shared: NetworkFixture, verb: str) -> None:
    ann = shared.join(f"ann_{verb}")
    for nobody in ("1", "x", "9" * 30):
        assert shared.ask("POST", f"/api/v1/accounts/{nobody}/{verb}", ann).status_code == 404


def test_familiar_followers_accept_ids_in_query_and_get_body(shoal: NetworkFixture) -> None:
    ann, ben, cyd, dan = map(shoal.join, ("ann", "ben", "cyd", "dan"))
    for one, other in ((ann, ben), (ann, dan), (ben, cyd), (dan, cyd)):
        do(shoal, one, "follow", other)
    path = "/api/v1/accounts/familiar_followers"
    asked = shoal.json("GET", f"{path}?id[]={cyd.id}&id[]={ben.id}&id[]=12", ann)
    assert [(one["id"], names(one["accounts"])) for one in asked] == [(cyd.id, ["dan", "ben"]), (ben.id, [])]
    assert shoal.json("GET", path, ann, json={"id": [cyd.id, ben.id]}) == asked
    change(shoal, cyd, json={"hide_collections": True})
    assert shoal.json("GET", f"{path}?id={cyd.id}", ann) == [{"id": cyd.id, "accounts": []}]


def test_hide_collections_shows_followers_and_following_to_owner_only(shoal: NetworkFixture) -> None:
    ann, ben = map(shoal.join, ("ann", "ben"))
    do(shoal, ann, "follow", ben)
    do(shoal, ben, "follow", ann)
    assert change(shoal, ann, json={"hide_collections": True})["source"]["hide_collections"] is True
    for what in ("followers", "following"):
        path = f"/api/v1/accounts/{ann.id}/{what}"
        assert shoal.json("GET", path) == shoal.json("GET", path, ben) == []
        assert names(shoal.json("GET", path, ann)) == ["ben"]
    shown = shoal.json("GET", f"/api/v1/accounts/{ann.id}")
    assert (shown["hide_collections"], shown["followers_count"], shown["following_count"]) == (True, 1, 1)


def test_update_credentials_changes_flags_source_fields_and_pictures(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    shown = change(
        shoal,
        ann,
        data={
            "locked": "1",
            "bot": "true",
            "discoverable": "false",
            "indexable": "false",
            "source[privacy]": "private",
            "source[sensitive]": "true",
            "source[language]": "de",
            "source[quote_policy]": "public",
            "fields_attributes[1][name]": "sea",
            "fields_attributes[1][value]": "tide",
            "fields_attributes[0][name]": "home",
            "fields_attributes[0][value]": "harbour",
            "attribution_domains[]": "example.org",
        },
        files={"avatar": ("blob", picture()), "header": ("blob", picture(60, 20))},
    )
    assert [shown[key] for key in ("locked", "bot", "discoverable", "indexable", "noindex")] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert [field["name"] for field in shown["fields"]] == ["home", "sea"]
    source = shown["source"]
    assert (source["privacy"], source["sensitive"], source["language"]) == ("private", True, "de")
    assert (source["discoverable"], source["indexable"]) == (False, False)
    for which in ("avatar", "header"):
        assert not shown[which].endswith("missing.png")
        bare = shoal.json("DELETE", f"/api/v1/profile/{which}", ann)
        assert bare[which].endswith("missing.png")
        assert shoal.json("DELETE", f"/api/v1/profile/{which}", ann) == bare
    five = [{"name": str(n), "value": "x"} for n in range(5)]
    shoal.settle()
    before = shoal.state()
    answer = shoal.ask("PATCH", "/api/v1/accounts/update_credentials", ann, json={"fields_attributes": five})
    assert answer.status_code == 422
    assert shoal.state() == before


def test_preferences_reflect_profile_settings(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    expected = {
        "posting:default:visibility": "public",
        "posting:default:sensitive": False,
        "posting:default:language": None,
        "reading:expand:media": "default",
        "reading:expand:spoilers": False,
        "reading:autoplay:gifs": False,
        "shoal:aggregate_reblogs": True,
        "shoal:rankable": True,
        "shoal:findable_by_email": False,
    }
    assert shoal.json("GET", "/api/v1/preferences", ann) == expected
    change(shoal, ann, json={"source": {"privacy": "unlisted", "sensitive": True, "language": "fr"}})
    change(shoal, ann, data={"shoal[aggregate_reblogs]": "false"})
    assert shoal.json("GET", "/api/v1/preferences", ann) == {
        **expected,
        "posting:default:visibility": "unlisted",
        "posting:default:sensitive": True,
        "posting:default:language": "fr",
        "shoal:aggregate_reblogs": False,
    }


@pytest.mark.parametrize(
    ("role", "permissions", "name"),
    [(Role.NONE, "0", None), (Role.MODERATOR, "1308", "Moderator"), (Role.ADMIN, "1048575", "Admin")],
)
def test_account_roles_show_staff_role_and_permissions(
    shoal: NetworkFixture, role: Role, permissions: str, name: str | None
) -> None:
    ann = shoal.join("ann")
    batch = Batch(shard_of(ann.member.id))
    batch.obj_set(replace(ann.member, role=role, version=2))
    shoal.run(shoal.network.writes.graph.commit(batch))
    own = shoal.json("GET", "/api/v1/accounts/verify_credentials", ann)
    assert own["role"]["permissions"] == permissions
    assert [one["name"] for one in own["roles"]] == ([name] if name else [])
    assert shoal.json("GET", f"/api/v1/accounts/{ann.id}")["roles"] == own["roles"]


_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def history(shoal: NetworkFixture, who: Someone, whom: Someone) -> Any:
    return shoal.json("GET", f"/api/shoal/v1/relationships/{whom.id}/history", who)


def test_relationship_history_lists_follow_periods_for_both_accounts(shoal: NetworkFixture) -> None:
    ann, ben = map(shoal.join, ("ann", "ben"))
    known = history(shoal, ann, ben)
    assert (known["id"], known["following"], known["followed_by"]) == (ben.id, [], [])
    assert _MOMENT.fullmatch(known["known_since"])
    do(shoal, ann, "follow", ben)
    do(shoal, ann, "unfollow", ben)
    do(shoal, ann, "follow", ben)
    again, before = history(shoal, ann, ben)["following"]
    assert again["until"] is None
    assert all(_MOMENT.fullmatch(moment) for moment in (again["since"], before["since"], before["until"]))
    assert before["since"] <= before["until"] <= again["since"]
    assert history(shoal, ben, ann)["followed_by"] == [again, before]
    assert history(shoal, ben, ann)["following"] == []


def test_relationship_history_never_shows_follows_between_other_accounts(shoal: NetworkFixture) -> None:
    ann, ben = map(shoal.join, ("ann", "ben"))
    eve = shoal.staff("eve", Role.ADMIN)
    do(shoal, ann, "follow", ben)
    for other in (ann, ben, eve):
        told = history(shoal, eve, other)
        assert (told["following"], told["followed_by"]) == ([], [])
    assert shoal.ask("GET", f"/api/shoal/v1/relationships/{ben.id}/history").status_code == 401
    assert shoal.ask("GET", "/api/shoal/v1/followers/by_day").status_code == 401
    assert shoal.ask("GET", "/api/shoal/v1/relationships/12345/history", eve).status_code == 404
    assert shoal.json("GET", "/api/shoal/v1/followers/by_day?days=1", eve)[0]["gained"] == 0


def test_followers_by_day_returns_gained_lost_and_total(shoal: NetworkFixture) -> None:
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    for one in (ben, cyd):
        do(shoal, one, "follow", ann)
    do(shoal, ben, "unfollow", ann)
    series = shoal.json("GET", "/api/shoal/v1/followers/by_day", ann)
    assert len(series) == 90
    assert [day["day"] for day in series] == sorted({day["day"] for day in series})
    assert sum(day["gained"] for day in series) == 2
    assert sum(day["lost"] for day in series) == 1
    assert series[-1]["followers"] == 1
    assert len(shoal.json("GET", "/api/shoal/v1/followers/by_day?days=400", ann)) == 400
    for days in ("0", "401", "many"):
        assert shoal.ask("GET", f"/api/shoal/v1/followers/by_day?days={days}", ann).status_code == 422

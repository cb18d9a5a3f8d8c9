"""Every route about one thing of somebody's own, called by another member: nothing of it is told, and nothing is done.

A new route with an id in its path belongs to one of the prefixes below; one that belongs to none fails the first test.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pytest

from shoal.http.routes import Route
from shoal.mastodon_api.routes import table
from shoal.settings import Settings
from tests.api.world import Someone, World, picture, world

SECRET = "what only ann may read"

Make = Callable[[World, Someone, Someone], str]
"""Makes one thing of the first member's, with the secret in it where it can hold one; its id. The second stands by."""


def post(path: str, **body: Any) -> Make:
    """A thing that one request makes."""

    def make(shoal: World, ann: Someone, _ben: Someone) -> str:
        return str(shoal.json("POST", path, ann, json=body)["id"])

    return make


def listed(path: str) -> Make:
    """The first thing of a list."""

    def make(shoal: World, ann: Someone, _ben: Someone) -> str:
        first = shoal.json("GET", path, ann)[0]
        return str(first["id"])

    return make


def group(shoal: World, ann: Someone, _ben: Someone) -> str:
    """Notifications that are alike."""
    groups = shoal.json("GET", "/api/v2/notifications", ann)["notification_groups"]
    return str(groups[0]["group_key"])


def held_back(shoal: World, ann: Someone, ben: Someone) -> str:
    """Hold back a notification from ben until ann decides about it."""
    shoal.json("PATCH", "/api/v2/notifications/policy", ann, json={"for_not_following": "filter"})
    shoal.json("POST", "/api/v1/statuses", ben, json={"status": f"@{ann.member.name} hello"})
    shoal.settle()
    return listed("/api/v1/notifications/requests")(shoal, ann, ben)


def session(shoal: World, ann: Someone, _ben: Someone) -> str:
    """Where ann is logged in."""
    return str(shoal.json("GET", "/api/shoal/v1/sessions", ann)[0]["id"])


def poll(shoal: World, ann: Someone, _ben: Someone) -> str:
    """One that only followers see."""
    asked = {"options": [SECRET, "tea"], "expires_in": 3600}
    made = shoal.json("POST", "/api/v1/statuses", ann, json={"status": "?", "visibility": "private", "poll": asked})
    return str(made["poll"]["id"])


def keyword(shoal: World, ann: Someone, ben: Someone) -> str:
    """One of a filter."""
    made = FILTER(shoal, ann, ben)
    return str(shoal.json("GET", f"/api/v2/filters/{made}", ann)["keywords"][0]["id"])


def filtered_status(shoal: World, ann: Someone, ben: Someone) -> str:
    """One of a filter."""
    made, status = FILTER(shoal, ann, ben), shoal.json("POST", "/api/v1/statuses", ann, json={"status": "x"})
    return str(shoal.json("POST", f"/api/v2/filters/{made}/statuses", ann, json={"status_id": status["id"]})["id"])


def upload(shoal: World, ann: Someone, _ben: Someone) -> str:
    """A picture that says what it shows."""
    made = shoal.json("POST", "/api/v2/media", ann, files={"file": ("a", picture())}, data={"description": SECRET})
    return str(made["id"])


FILTER = post(
    "/api/v2/filters", title=SECRET, context=["home"], keywords_attributes=[{"keyword": SECRET, "whole_word": True}]
)
_LATER = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=2)).isoformat()

OWNED: Mapping[str, Make] = {
    "/api/v1/statuses/": post("/api/v1/statuses", status=SECRET, visibility="private"),
    "/api/v1/pleroma/statuses/": post("/api/v1/statuses", status=SECRET, visibility="private"),
    "/api/shoal/v1/statuses/": post("/api/v1/statuses", status=SECRET, visibility="private"),
    "/api/v1/media/": upload,
    "/api/v1/scheduled_statuses/": post("/api/v1/statuses", status=SECRET, scheduled_at=_LATER),
    "/api/v1/lists/": post("/api/v1/lists", title=SECRET),
    "/api/shoal/v1/albums/": post("/api/shoal/v1/albums", title=SECRET),
    "/api/shoal/v1/invites/": post("/api/shoal/v1/invites"),
    "/api/v1/timelines/list/": post("/api/v1/lists", title=SECRET),
    "/api/v2/filters/keywords/": keyword,
    "/api/v2/filters/statuses/": filtered_status,
    "/api/v2/filters/": FILTER,
    "/api/v1/filters/": post("/api/v1/filters", phrase=SECRET, context=["home"]),
    "/api/v1/featured_tags/": post("/api/v1/featured_tags", name="annsowntag"),
    "/api/v1/notifications/requests/": held_back,
    "/api/v1/notifications/": listed("/api/v1/notifications"),
    "/api/v2/notifications/": group,
    "/api/v1/conversations/": listed("/api/v1/conversations"),
    "/api/v1/polls/": poll,
    "/api/shoal/v1/sessions/": session,
}
"""By the beginning of their paths: things that are one member's alone."""

SHARED = (
    "/api/v1/accounts/",
    "/api/shoal/v1/accounts/",
    "/api/v1/admin/",
    "/api/v1/follow_requests/",
    "/api/shoal/v1/relationships/",
    "/api/v1/suggestions/",
    "/api/v1/tags/",
    "/api/shoal/v1/tags/",
    "/api/v1/timelines/tag/",
    # Whoever has its text may see it, and nobody else can say it.
    "/api/shoal/v1/receipts/",
)
"""Beginnings of paths about what others may see as well, or about what the caller has with it."""

ABOUT_ONE = [route for route in table(Settings()) if "{" in route.path]


def owned(route: Route) -> str:
    """The longest beginning that the path of a route has among the owned ones, or nothing."""
    before = route.path.partition("{")[0]
    return before if before in OWNED else ""


MINE = [route for route in ABOUT_ONE if owned(route)]
BODY = {
    "status": "mine",
    "title": "mine",
    "description": "mine",
    "phrase": "mine",
    "keyword": "mine",
    "context": ["home"],
    "replies_policy": "none",
    "choices": [0],
    "visibility": "public",
    "direction": "less",
}


class Cast(msgspec.Struct):
    """Ann, who has one of each thing, and ben, who has nothing of it."""

    shoal: World
    ann: Someone
    ben: Someone
    own: str
    """A status of ben's."""
    things: dict[str, str]


@pytest.fixture(scope="module")
def cast() -> Iterator[Cast]:
    """One world for all routes: nothing here may change it."""
    with world(invitations="members") as shoal:
        ann, ben = shoal.join("ann"), shoal.join("ben")
        # Not ben: he would have his own part in it.
        said = {"status": f"@ann {SECRET}", "visibility": "direct"}
        shoal.json("POST", "/api/v1/statuses", shoal.join("carol"), json=said)
        shoal.settle()
        wanted = {owned(route) for route in MINE}
        own = shoal.json("POST", "/api/v1/statuses", ben, json={"status": "ben's own"})["id"]
        things = {prefix: make(shoal, ann, ben) for prefix, make in OWNED.items() if prefix in wanted}
        shoal.settle()
        yield Cast(shoal, ann, ben, own, things)


def test_every_route_about_one_thing_says_whose_it_is() -> None:
    unplaced = [route.path for route in ABOUT_ONE if not owned(route) and not route.path.startswith(SHARED)]
    assert not unplaced


@pytest.mark.parametrize("route", MINE, ids=lambda route: f"{route.method} {route.path}")
def test_another_member_learns_nothing_and_does_nothing(cast: Cast, route: Route) -> None:
    path = re.sub(r"\{\w+\}", cast.things[owned(route)], route.path.replace("{emoji}", "👍"), count=1)
    path = re.sub(r"\{\w+\}", cast.ann.id, path)
    before = cast.shoal.state()
    answer = cast.shoal.ask(
        route.method, path, cast.ben, json={**BODY, "account_ids": [cast.ben.id], "status_id": cast.own}
    )
    assert answer.status_code in {403, 404, 410, 422}, answer.text
    assert SECRET not in answer.text
    assert cast.shoal.state() == before


@pytest.mark.parametrize("prefix", sorted({owned(route) for route in MINE}))
def test_the_owner_has_it(cast: Cast, prefix: str) -> None:
    reading = [route for route in MINE if owned(route) == prefix and route.method == "GET" and route.path.endswith("}")]
    for route in reading:
        path = re.sub(r"\{\w+\}", cast.things[prefix], route.path.replace("{emoji}", "👍"))
        assert cast.shoal.ask("GET", path, cast.ann).status_code == 200

"""Call every route for a member's own resource as another member: it reveals nothing and changes nothing.

A new route with an id in its path belongs to one of the prefixes below; one that belongs to none fails the first test.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pytest

from shoal.commands import declared_reactions, publishing
from shoal.core.publishing import HeldContent
from shoal.core.reactions import Reaction
from shoal.http.routes import Route
from shoal.mastodon_api.routes import table
from shoal.settings import Settings
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture, picture

COOKED = Reaction(name="cooked", title="Cooked it")
SECRET = "what only ann may read"

Make = Callable[[NetworkFixture, Someone, Someone], str]
"""Creates a resource of the first member, with the secret in it if it has text, and returns its id."""


def post(path: str, **body: Any) -> Make:
    """Return a function that creates a resource with one request."""

    def make(shoal: NetworkFixture, ann: Someone, _ben: Someone) -> str:
        return str(shoal.json("POST", path, ann, json=body)["id"])

    return make


def listed(path: str) -> Make:
    """Return a function that returns the id of the first item of a list."""

    def make(shoal: NetworkFixture, ann: Someone, _ben: Someone) -> str:
        first = shoal.json("GET", path, ann)[0]
        return str(first["id"])

    return make


def group(shoal: NetworkFixture, ann: Someone, _ben: Someone) -> str:
    """Return the key of the first notification group."""
    groups = shoal.json("GET", "/api/v2/notifications", ann)["notification_groups"]
    return str(groups[0]["group_key"])


def held_back(shoal: NetworkFixture, ann: Someone, ben: Someone) -> str:
    """Create a notification request from ben to ann."""
    shoal.json("PATCH", "/api/v2/notifications/policy", ann, json={"for_not_following": "filter"})
    shoal.json("POST", "/api/v1/statuses", ben, json={"status": f"@{ann.member.name} hello"})
    shoal.settle()
    return listed("/api/v1/notifications/requests")(shoal, ann, ben)


def session(shoal: NetworkFixture, ann: Someone, _ben: Someone) -> str:
    """Return the id of ann's session."""
    return str(shoal.json("GET", "/api/shoal/v1/sessions", ann)[0]["id"])


def held(shoal: NetworkFixture, ann: Someone, _ben: Someone) -> str:
    """Hold a post of ann for approval."""
    content = HeldContent(id=0, owner_id=ann.member.id, kind="post", text=SECRET)
    return str(shoal.run(publishing.hold(shoal.writes, content)).held_id)


def poll(shoal: NetworkFixture, ann: Someone, _ben: Someone) -> str:
    """Create a followers-only poll."""
    asked = {"options": [SECRET, "tea"], "expires_in": 3600}
    made = shoal.json("POST", "/api/v1/statuses", ann, json={"status": "?", "visibility": "private", "poll": asked})
    return str(made["poll"]["id"])


def keyword(shoal: NetworkFixture, ann: Someone, ben: Someone) -> str:
    """Create a filter keyword."""
    made = FILTER(shoal, ann, ben)
    return str(shoal.json("GET", f"/api/v2/filters/{made}", ann)["keywords"][0]["id"])


def filtered_status(shoal: NetworkFixture, ann: Someone, ben: Someone) -> str:
    """Create a filter status."""
    made, status = FILTER(shoal, ann, ben), shoal.json("POST", "/api/v1/statuses", ann, json={"status": "x"})
    return str(shoal.json("POST", f"/api/v2/filters/{made}/statuses", ann, json={"status_id": status["id"]})["id"])


def upload(shoal: NetworkFixture, ann: Someone, _ben: Someone) -> str:
    """Upload a picture with the secret as its description."""
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
    "/api/shoal/v1/feeds/": post("/api/shoal/v1/feeds", title=SECRET, declaration={"sources": [{"from": "everybody"}]}),
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
    "/api/shoal/v1/held/": held,
}
"""Resources of a single member, by path prefix."""

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
    # A receipt is a bearer secret: its text grants access.
    "/api/shoal/v1/receipts/",
    # For server keys, which act for no member.
    "/api/shoal/v1/members/",
    "/api/shoal/v1/by-external-id/",
    "/api/shoal/v1/kinds/",
    "/api/shoal/v1/reactions/",
    "/api/shoal/v1/events/schemas/",
    "/api/shoal/v1/webhooks/",
    "/api/shoal/v1/moderation/",
    "/api/shoal/v1/admin/",
)
"""Path prefixes of shared resources and of the caller's relation to them."""

ABOUT_ONE = [route for route in table(Settings()) if "{" in route.path]


def owned(route: Route) -> str:
    """Return the route's path prefix if it is in OWNED, else an empty string."""
    before = route.path.partition("{")[0]
    return before if before in OWNED else ""


def named(route: Route) -> str:
    """Return the route's path, with the reaction that it names."""
    return route.path.replace("{emoji}", "👍").replace("/reactions/{name}", f"/reactions/{COOKED.name}")


MINE = [route for route in ABOUT_ONE if owned(route)]
BODY = {
    "last_read_id": "1",
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
    """Ann owns one resource of each type; ben owns none of them."""

    shoal: NetworkFixture
    ann: Someone
    ben: Someone
    own: str
    """The id of a status of ben."""
    things: dict[str, str]


@pytest.fixture(scope="module")
def cast() -> Iterator[Cast]:
    """Return one network for the tests of all routes: no request of these tests may change it."""
    with network_fixture(invitations="members") as shoal:
        ann, ben = shoal.join("ann"), shoal.join("ben")
        shoal.run(declared_reactions.declare(shoal.writes, COOKED))
        # Not from ben, because he would be a participant.
        said = {"status": f"@ann {SECRET}", "visibility": "direct"}
        shoal.json("POST", "/api/v1/statuses", shoal.join("carol"), json=said)
        shoal.settle()
        wanted = {owned(route) for route in MINE}
        own = shoal.json("POST", "/api/v1/statuses", ben, json={"status": "ben's own"})["id"]
        things = {prefix: make(shoal, ann, ben) for prefix, make in OWNED.items() if prefix in wanted}
        shoal.settle()
        yield Cast(shoal, ann, ben, own, things)


def test_routes_with_id_are_all_classified_by_ownership() -> None:
    unplaced = [route.path for route in ABOUT_ONE if not owned(route) and not route.path.startswith(SHARED)]
    assert not unplaced


@pytest.mark.parametrize("route", MINE, ids=lambda route: f"{route.method} {route.path}")
def test_owned_resource_requested_by_other_member_is_refused_without_effect(cast: Cast, route: Route) -> None:
    path = re.sub(r"\{\w+\}", cast.things[owned(route)], named(route), count=1)
    path = re.sub(r"\{\w+\}", cast.ann.id, path)
    before = cast.shoal.state()
    answer = cast.shoal.ask(
        route.method, path, cast.ben, json={**BODY, "account_ids": [cast.ben.id], "status_id": cast.own}
    )
    assert answer.status_code in {403, 404, 410, 422}, answer.text
    assert SECRET not in answer.text
    assert cast.shoal.state() == before


@pytest.mark.parametrize("prefix", sorted({owned(route) for route in MINE}))
def test_owned_resource_requested_by_owner_returns_200(cast: Cast, prefix: str) -> None:
    reading = [route for route in MINE if owned(route) == prefix and route.method == "GET" and route.path.endswith("}")]
    for route in reading:
        path = re.sub(r"\{\w+\}", cast.things[prefix], named(route))
        assert cast.shoal.ask("GET", path, cast.ann).status_code == 200

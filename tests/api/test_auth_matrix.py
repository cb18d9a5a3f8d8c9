"""Every route, without a token, with too small a scope, by an app alone, by a suspended member: refused, and nothing is done."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import pytest

from shoal.commands import members, moderation, oauth
from shoal.core.model import Role
from shoal.http.authentication import KNOWN, granted
from shoal.http.routes import Route
from shoal.mastodon_api.routes import table
from shoal.settings import Settings
from tests.api.world import SCOPES, Someone, World, world

ROUTES = table(Settings())
GUARDED = [route for route in ROUTES if route.auth in {"app", "client", "user"}]
SCOPED = [route for route in ROUTES if route.scope is not None]
FOR_MEMBERS = [route for route in ROUTES if route.auth == "user"]
FOR_APPS_ALONE = [route for route in ROUTES if route.auth == "client"]
FOR_STAFF = [route for route in ROUTES if route.role is not Role.NONE]
NOT_PUBLIC = [route for route in ROUTES if route.auth != "public"]


class Cast(msgspec.Struct):
    """A world with somebody in it, and a post that things could be done to."""

    world: World
    ann: Someone
    post: str

    def path(self, route: Route) -> str:
        """The path of a route, about what is there."""
        thing = self.post if "/statuses/" in route.path else self.ann.id
        return re.sub(r"\{name\}", "dawn", re.sub(r"\{id\}", thing, route.path))


@pytest.fixture(scope="module")
def cast() -> Iterator[Cast]:
    """One world for all routes: none of the requests here may change it."""
    with world() as made:
        ann = made.join("ann")
        post = made.json("POST", "/api/v1/statuses", ann, json={"status": "hello"})["id"]
        made.settle()
        yield Cast(made, ann, post)


def named(routes: list[Route]) -> pytest.MarkDecorator:
    """A test for each of the routes."""
    return pytest.mark.parametrize("route", routes, ids=lambda route: f"{route.method} {route.path}")


def refused(cast: Cast, route: Route, token: str, status: int, error: str, reads: int) -> None:
    """The route refuses in these words, after so many reads of the graph, and nothing is done."""
    before = cast.world.state()
    cast.world.graph.reads.clear()
    answer = cast.world.ask(route.method, cast.path(route), token, json={"status": "x", "username": "x"})
    assert (answer.status_code, answer.json()) == (status, {"error": error})
    assert len(cast.world.graph.reads) == reads, cast.world.graph.reads
    assert set(cast.world.graph.reads) <= {"obj_get"}
    assert cast.world.state() == before


@named(GUARDED)
def test_without_a_token_nothing_is_read_or_done(cast: Cast, route: Route) -> None:
    refused(cast, route, "", 401, "The access token is invalid", 0)


@named(NOT_PUBLIC)
def test_a_token_that_is_none_is_refused_where_none_is_needed_too(cast: Cast, route: Route) -> None:
    refused(cast, route, "not-a-token", 401, "The access token is invalid", 0)


@named(SCOPED)
def test_a_token_with_every_scope_but_the_one_reads_itself_and_its_member(cast: Cast, route: Route) -> None:
    assert route.scope is not None
    others = [scope for scope in sorted(KNOWN) if not granted(frozenset({scope}), route.scope)]
    token = cast.world.token(cast.ann.app_id, cast.ann.member.id, others)
    refused(cast, route, token, 403, "This action is outside the authorized scopes", 2)


@named(FOR_MEMBERS)
def test_an_app_alone_cannot_act_as_a_member(cast: Cast, route: Route) -> None:
    token = cast.world.token(cast.ann.app_id)
    refused(cast, route, token, 422, "This method requires an authenticated user", 1)


@named(FOR_APPS_ALONE)
def test_a_member_cannot_do_what_is_for_an_app_by_itself(cast: Cast, route: Route) -> None:
    refused(cast, route, cast.ann.token, 403, "This action is not allowed", 2)


def test_only_signing_up_is_for_an_app_by_itself() -> None:
    assert [(route.method, route.path) for route in FOR_APPS_ALONE] == [("POST", "/api/v1/accounts")]


@named(NOT_PUBLIC)
def test_a_suspended_member_may_do_nothing(suspended: tuple[Cast, str], route: Route) -> None:
    cast, token = suspended
    refused(cast, route, token, 403, "Your login is currently disabled", 2)


@named(NOT_PUBLIC)
def test_a_member_who_was_locked_out_may_do_nothing(disabled: tuple[Cast, str], route: Route) -> None:
    cast, token = disabled
    refused(cast, route, token, 403, "Your login is currently disabled", 2)


@named(NOT_PUBLIC)
def test_a_member_who_waits_for_approval_may_do_nothing(pending: tuple[Cast, str], route: Route) -> None:
    cast, token = pending
    refused(cast, route, token, 403, "Your login is currently pending approval", 2)


@named(FOR_STAFF)
def test_every_scope_is_not_enough_for_a_member_without_the_role(cast: Cast, route: Route) -> None:
    token = cast.world.token(cast.ann.app_id, cast.ann.member.id, sorted(KNOWN))
    refused(cast, route, token, 403, "This action is not allowed", 2)


@named([route for route in FOR_STAFF if route.role is Role.ADMIN])
def test_a_moderator_may_not_do_what_is_for_admins(staff: dict[Role, str], cast: Cast, route: Route) -> None:
    refused(cast, route, staff[Role.MODERATOR], 403, "This action is not allowed", 2)


@named(FOR_STAFF)
def test_who_has_the_role_comes_as_far_as_the_thing_itself(staff: dict[Role, str], cast: Cast, route: Route) -> None:
    for role, token in staff.items():
        if role.rank >= route.role.rank:
            path = re.sub(r"\{[a-z]+\}", "1", route.path)
            assert cast.world.ask(route.method, path, token).status_code in {200, 400, 404, 422}


@named(FOR_STAFF)
def test_the_role_is_not_enough_without_the_scope(cast: Cast, staff: dict[Role, str], route: Route) -> None:
    assert staff
    mod = cast.world.run(members.find(cast.world.network.writes, "moderator"))
    assert mod is not None
    assert route.scope is not None
    others = [scope for scope in sorted(KNOWN) if not granted(frozenset({scope}), route.scope)]
    token = cast.world.token(cast.ann.app_id, mod.id, others)
    refused(cast, route, token, 403, "This action is outside the authorized scopes", 2)


@pytest.fixture(scope="module")
def suspended(cast: Cast) -> tuple[Cast, str]:
    """The token of a member who was suspended after it was given."""
    eve = cast.world.join("eve")
    cast.world.run(moderation.suspend(cast.world.network.writes, eve.member.id))
    cast.world.settle()
    return cast, eve.token


@pytest.fixture(scope="module")
def disabled(cast: Cast) -> tuple[Cast, str]:
    """The token of a member who was locked out after it was given."""
    dan = cast.world.join("dan")
    cast.world.run(moderation.disable(cast.world.network.writes, dan.member.id))
    cast.world.settle()
    return cast, dan.token


@pytest.fixture(scope="module")
def pending(cast: Cast) -> tuple[Cast, str]:
    """The token of a member who waits for approval."""
    pia = cast.world.run(members.register(cast.world.network.writes, "pia", pending=True))
    cast.world.settle()
    made = oauth.issue_token(cast.world.network.writes, cast.ann.app_id, pia.id, SCOPES, generation=0)
    return cast, cast.world.run(made).text


@pytest.fixture(scope="module")
def staff(cast: Cast) -> dict[Role, str]:
    """Tokens with every scope, of a member with each role."""
    tokens = {}
    for role in (Role.MODERATOR, Role.ADMIN):
        writes = cast.world.network.writes
        made = cast.world.run(members.register(writes, role.value, reserved=True))
        cast.world.run(moderation.set_role(writes, made.id, role))
        tokens[role] = cast.world.token(cast.ann.app_id, made.id, sorted(KNOWN))
    cast.world.settle()
    return tokens


def test_what_is_open_to_all_is_little() -> None:
    assert {(route.method, route.path) for route in ROUTES if route.auth == "public"} == {
        ("GET", "/health"),
        ("GET", "/ready"),
        ("POST", "/api/shoal/v1/come_back"),
        ("GET", "/api/shoal/v1/receipts/{receipt}"),
        ("GET", "/.well-known/nodeinfo"),
        ("GET", "/nodeinfo/2.0"),
        ("GET", "/api/v1/instance"),
        ("GET", "/api/v2/instance"),
        ("GET", "/.well-known/host-meta"),
        ("GET", "/.well-known/webfinger"),
        *(
            ("GET", f"/api/v1/instance/{what}")
            for what in (
                "activity",
                "domain_blocks",
                "extended_description",
                "languages",
                "peers",
                "privacy_policy",
                "rules",
                "terms_of_service",
                "translation_languages",
            )
        ),
        ("GET", "/api/v1/custom_emojis"),
        ("GET", "/openapi.json"),
        ("GET", "/docs"),
        ("GET", "/api/v1/streaming/health"),
        ("POST", "/api/v1/apps"),
        ("GET", "/.well-known/oauth-authorization-server"),
        ("POST", "/oauth/token"),
        ("POST", "/oauth/revoke"),
        ("GET", "/api/shoal/v1/tags/{name}/related"),
    }


ASKING = {
    "/oauth/userinfo",
    "/api/v1/admin/canonical_email_blocks/test",
    "/api/v1/admin/measures",
    "/api/v1/admin/dimensions",
    "/api/v1/admin/retention",
    "/api/shoal/v1/contacts",
    "/api/shoal/v1/contacts/archive",
}
"""These take a question in a body, and change nothing."""


def test_what_changes_something_needs_a_scope_to_write() -> None:
    assert all(
        route.auth in {"user", "app", "client"} and (route.scope or "").startswith(("write:", "admin:write", "push"))
        for route in ROUTES
        if route.method != "GET" and route.auth != "public" and route.path not in ASKING
    )

"""Every route refuses requests with a missing, insufficient or suspended token and changes no data."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import pytest

from shoal.commands import members, moderation, oauth
from shoal.core.model import Role
from shoal.http.authentication import KNOWN, granted
from shoal.http.routes import Route
from shoal.mastodon_api.routes import table
from shoal.settings import Settings
from tests.api.in_memory_network import SCOPES, NetworkFixture, Someone, network_fixture

ROUTES = table(Settings())
GUARDED = [route for route in ROUTES if route.auth in {"app", "client", "user", "server"}]
SCOPED = [route for route in ROUTES if route.scope is not None]
FOR_MEMBERS = [route for route in ROUTES if route.auth == "user"]
FOR_APPS_ALONE = [route for route in ROUTES if route.auth == "client"]
FOR_STAFF = [route for route in ROUTES if route.role is not Role.NONE]
NOT_PUBLIC = [route for route in ROUTES if route.auth != "public"]


class Cast(msgspec.Struct):
    """A network with one member and one post, which are the targets of requests."""

    network_fixture: NetworkFixture
    ann: Someone
    post: str

    def path(self, route: Route) -> str:
        """Return the path of a route with the ids filled in."""
        thing = self.post if "/statuses/" in route.path else self.ann.id
        return re.sub(r"\{name\}", "dawn", re.sub(r"\{id\}", thing, route.path))


@pytest.fixture(scope="module")
def cast() -> Iterator[Cast]:
    """Return one network for the tests of all routes: no request of these tests may change it."""
    with network_fixture() as made:
        ann = made.join("ann")
        post = made.json("POST", "/api/v1/statuses", ann, json={"status": "hello"})["id"]
        made.settle()
        yield Cast(made, ann, post)


class Refusal(NamedTuple):
    """An expected refusal."""

    status: int
    error: str
    reads: int
    """Number of graph reads before the route refuses."""


def assert_refused(cast: Cast, routes: list[Route], token: Callable[[Route], str], refusal: Refusal) -> None:
    """Assert that each of the routes refuses a request with the token for it, and that no request changes anything."""
    tokens = {route: token(route) for route in routes}
    before = cast.network_fixture.state()
    wrong = []
    for route, text in tokens.items():
        cast.network_fixture.graph.reads.clear()
        answer = cast.network_fixture.ask(route.method, cast.path(route), text, json={"status": "x", "username": "x"})
        expected = answer.status_code == refusal.status and answer.json() == {"error": refusal.error}
        reads = list(cast.network_fixture.graph.reads)
        if not expected or reads != ["obj_get"] * refusal.reads:
            wrong.append((route.method, route.path, answer.status_code, answer.text, reads))
    assert routes
    assert wrong == []
    assert cast.network_fixture.state() == before


def without(cast: Cast, member: int) -> Callable[[Route], str]:
    """Return a function that issues a member's token with every scope except the one that the route requires."""

    @functools.cache
    def token(scope: str) -> str:
        others = [other for other in sorted(KNOWN) if not granted(frozenset({other}), scope)]
        return cast.network_fixture.token(cast.ann.app_id, member, others)

    return lambda route: token(route.scope or "")


def test_guarded_route_without_token_is_refused_before_any_read(cast: Cast) -> None:
    assert_refused(cast, GUARDED, lambda _: "", Refusal(401, "The access token is invalid", 0))


def test_unknown_token_is_refused_even_on_optional_auth_routes(cast: Cast) -> None:
    assert_refused(cast, NOT_PUBLIC, lambda _: "not-a-token", Refusal(401, "The access token is invalid", 0))


def test_token_without_required_scope_is_refused(cast: Cast) -> None:
    refusal = Refusal(403, "This action is outside the authorized scopes", 2)
    assert_refused(cast, SCOPED, without(cast, cast.ann.member.id), refusal)


def test_app_token_on_member_route_is_refused(cast: Cast) -> None:
    token = cast.network_fixture.token(cast.ann.app_id)
    assert_refused(cast, FOR_MEMBERS, lambda _: token, Refusal(422, "This method requires an authenticated user", 1))


def test_member_token_on_app_route_is_refused(cast: Cast) -> None:
    assert_refused(cast, FOR_APPS_ALONE, lambda _: cast.ann.token, Refusal(403, "This action is not allowed", 2))


def test_app_token_is_required_only_by_account_registration_route() -> None:
    assert [(route.method, route.path) for route in FOR_APPS_ALONE] == [("POST", "/api/v1/accounts")]


def test_suspended_member_is_refused_by_every_route(suspended: tuple[Cast, str]) -> None:
    cast, token = suspended
    assert_refused(cast, NOT_PUBLIC, lambda _: token, Refusal(403, "Your login is currently disabled", 2))


def test_disabled_member_is_refused_by_every_route(disabled: tuple[Cast, str]) -> None:
    cast, token = disabled
    assert_refused(cast, NOT_PUBLIC, lambda _: token, Refusal(403, "Your login is currently disabled", 2))


def test_pending_member_is_refused_by_every_route(pending: tuple[Cast, str]) -> None:
    cast, token = pending
    assert_refused(cast, NOT_PUBLIC, lambda _: token, Refusal(403, "Your login is currently pending approval", 2))


def test_staff_route_for_member_without_role_is_refused(cast: Cast) -> None:
    token = cast.network_fixture.token(cast.ann.app_id, cast.ann.member.id, sorted(KNOWN))
    assert_refused(cast, FOR_STAFF, lambda _: token, Refusal(403, "This action is not allowed", 2))


def test_admin_route_for_moderator_is_refused(staff: dict[Role, str], cast: Cast) -> None:
    routes = [route for route in FOR_STAFF if route.role is Role.ADMIN]
    assert_refused(cast, routes, lambda _: staff[Role.MODERATOR], Refusal(403, "This action is not allowed", 2))


def test_staff_token_without_required_scope_is_refused(cast: Cast, staff: dict[Role, str]) -> None:
    assert staff
    moderator = cast.network_fixture.run(members.find(cast.network_fixture.network.writes, "moderator"))
    assert moderator is not None
    refusal = Refusal(403, "This action is outside the authorized scopes", 2)
    assert_refused(cast, FOR_STAFF, without(cast, moderator.id), refusal)


@pytest.mark.parametrize("route", FOR_STAFF, ids=lambda route: f"{route.method} {route.path}")
def test_staff_route_for_member_with_role_is_allowed(staff: dict[Role, str], cast: Cast, route: Route) -> None:
    for role, token in staff.items():
        if role.rank >= route.role.rank:
            path = re.sub(r"\{[a-z]+\}", "1", route.path)
            assert cast.network_fixture.ask(route.method, path, token).status_code in {200, 400, 404, 422}


@pytest.fixture(scope="module")
def suspended(cast: Cast) -> tuple[Cast, str]:
    """The token of a member who was suspended after it was issued."""
    eve = cast.network_fixture.join("eve")
    cast.network_fixture.run(moderation.suspend(cast.network_fixture.network.writes, eve.member.id))
    cast.network_fixture.settle()
    return cast, eve.token


@pytest.fixture(scope="module")
def disabled(cast: Cast) -> tuple[Cast, str]:
    """The token of a member who was disabled after it was issued."""
    dan = cast.network_fixture.join("dan")
    cast.network_fixture.run(moderation.disable(cast.network_fixture.network.writes, dan.member.id))
    cast.network_fixture.settle()
    return cast, dan.token


@pytest.fixture(scope="module")
def pending(cast: Cast) -> tuple[Cast, str]:
    """The token of a member with a pending registration."""
    pia = cast.network_fixture.run(members.register(cast.network_fixture.network.writes, "pia", pending=True))
    cast.network_fixture.settle()
    made = oauth.issue_token(cast.network_fixture.network.writes, cast.ann.app_id, pia.id, SCOPES, generation=0)
    return cast, cast.network_fixture.run(made).text


@pytest.fixture(scope="module")
def staff(cast: Cast) -> dict[Role, str]:
    """Tokens with every scope, of a member with each role."""
    tokens = {}
    for role in (Role.MODERATOR, Role.ADMIN):
        writes = cast.network_fixture.network.writes
        made = cast.network_fixture.run(members.register(writes, role.value, reserved=True))
        cast.network_fixture.run(moderation.set_role(writes, made.id, role))
        tokens[role] = cast.network_fixture.token(cast.ann.app_id, made.id, sorted(KNOWN))
    cast.network_fixture.settle()
    return tokens


def test_public_routes_match_allowlist() -> None:
    assert {(route.method, route.path) for route in ROUTES if route.auth == "public"} == {
        ("GET", "/api/shoal/v1/events/schemas/{type}"),
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
        ("GET", "/api/shoal/v1/reactions"),
    }


ASKING = {
    "/oauth/userinfo",
    "/api/v1/admin/canonical_email_blocks/test",
    "/api/v1/admin/measures",
    "/api/v1/admin/dimensions",
    "/api/v1/admin/retention",
    "/api/shoal/v1/contacts",
    "/api/shoal/v1/contacts/archive",
    "/api/shoal/v1/feeds/dry_run",
}
"""Read-only routes that take a query in the request body."""


def test_mutating_routes_require_write_scope() -> None:
    assert all(
        route.auth in {"user", "app", "client"} and (route.scope or "").startswith(("write:", "admin:write", "push"))
        for route in ROUTES
        if route.method != "GET" and route.auth not in {"public", "server"} and route.path not in ASKING
    )
    assert all(route.scope for route in ROUTES if route.method != "GET" and route.auth == "server")

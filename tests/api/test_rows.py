"""A row and its handler agree, or a type checker says so: each `type: ignore` below is a mistake that it finds.

mypy refuses one that is not needed, so a mistake that it finds no more fails `make check`.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from shoal import mastodon_api as api_package
from shoal.core.model import Role
from shoal.http.pagination import PageQuery, StatusesQuery
from shoal.http.routes import Route
from shoal.mastodon_api import context as endpoints
from shoal.mastodon_api.context import Context, One


class Named(msgspec.Struct, frozen=True):
    """Parameters without an id."""

    name: str


async def about_nothing(context: Context, _params: None) -> object:
    """Take no parameters."""
    return context.deps.settings.title


async def about_one(_context: Context, params: One) -> object:
    """Take an id."""
    return params.id


async def a_page(_context: Context, params: PageQuery) -> object:
    """Take the place of a page."""
    return params.limit


def test_a_kind_hands_its_words_on_and_a_row_may_say_something_else() -> None:
    staff = endpoints.staff.having(scope="admin:read")
    assert staff("GET", "/a", about_nothing, answer=dict) == Route(
        "GET", "/a", about_nothing, limit_class="api", role=Role.MODERATOR, scope="admin:read", answer=dict
    )
    changed = staff("GET", "/a", about_nothing, role=Role.ADMIN, limit_class="login", answer=dict)
    assert (changed.role, changed.limit_class, changed.scope) == (Role.ADMIN, "login", "admin:read")


def test_a_kind_that_takes_parameters_gives_them_to_each_row() -> None:
    one = endpoints.route.taking(One).having(scope="read")
    assert one("GET", "/a/{id}", about_one, answer=dict) == endpoints.route(
        "GET", "/a/{id}", about_one, params=One, scope="read", answer=dict
    )


def test_a_handler_may_take_less_than_its_row_declares() -> None:
    assert endpoints.route("GET", "/a", a_page, params=StatusesQuery, scope="read", answer=dict).params is StatusesQuery


def test_no_row_is_made_without_a_kind() -> None:
    """A bare `Route` takes any handler with any parameters."""
    api = Path(api_package.__file__).parent
    made = re.compile(r"(?<!class )\bRoute\(|partial\(Route\b")
    bare = {str(path.relative_to(api)) for path in api.rglob("*.py") if made.search(path.read_text())}
    assert bare == {"context.py"}


def test_a_type_checker_finds_a_handler_that_its_row_does_not_fit() -> None:
    endpoints.route("GET", "/a/{id}", about_one, scope="read", answer=dict)  # type: ignore[arg-type]
    endpoints.route("GET", "/a/{id}", about_one, params=Named, scope="read", answer=dict)  # type: ignore[arg-type]
    endpoints.route("GET", "/a", about_nothing, params=Named, scope="read", answer=dict)  # type: ignore[arg-type]
    endpoints.statuses_page("GET", "/a/{id}", about_one, scope="read")  # type: ignore[arg-type]


def test_a_type_checker_finds_what_a_row_or_the_bundle_does_not_have() -> None:
    with pytest.raises(TypeError, match="Unexpected keyword argument 'scopes'"):
        endpoints.public("GET", "/a", about_nothing, scopes="read")  # type: ignore[call-overload]

    async def too_curious(context: Context, params: One) -> object:
        password = context.deps.password  # type: ignore[attr-defined]
        return password, params.name  # type: ignore[attr-defined]

    assert too_curious.__name__ in str(endpoints.one("GET", "/a/{id}", too_curious, scope="read", answer=dict).handler)

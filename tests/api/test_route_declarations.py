"""A route takes its parameters from its handler's annotation, and the type checker finds mistakes in its declaration.

mypy refuses an unused `type: ignore`, so `make check` fails if mypy stops finding one of these mistakes.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shoal import mastodon_api as api_package
from shoal.core.model import Role
from shoal.http.routes import Route
from shoal.mastodon_api.context import Context, One, Router
from shoal.settings import Settings


async def about_nothing(context: Context, _params: None) -> object:
    """Take no parameters."""
    return context.app.settings.title


async def about_one(_context: Context, params: One) -> object:
    """Take an id."""
    return params.id


def declared(router: Router, settings: Settings | None = None) -> list[Route]:
    """Return the routes of a router."""
    return list(router.routes(settings or Settings()))


def test_router_route_takes_parameters_from_handler_annotation() -> None:
    router = Router()
    router.get("/a", scope="read", answer=dict)(about_nothing)
    router.delete("/a/{id}", scope="write", answer=dict)(about_one)
    assert declared(router) == [
        Route("GET", "/a", about_nothing, limit_class="api", scope="read", answer=dict),
        Route("DELETE", "/a/{id}", about_one, limit_class="api", scope="write", params=One, answer=dict),
    ]


def test_router_options_are_defaults_that_route_overrides() -> None:
    router = Router(role=Role.MODERATOR, scope="admin:read", answer=dict)
    router.get("/a")(about_nothing)
    router.post("/a", role=Role.ADMIN, limit_class="login")(about_nothing)
    first, second = declared(router)
    assert (first.role, first.limit_class, first.scope) == (Role.MODERATOR, "api", "admin:read")
    assert (second.role, second.limit_class, second.scope) == (Role.ADMIN, "login", "admin:read")


def test_router_max_body_given_as_function_is_computed_from_settings() -> None:
    router = Router(scope="read", answer=dict)
    router.post("/a", max_body=lambda settings: 2 * settings.max_upload_bytes)(about_nothing)
    assert declared(router, Settings(max_upload_bytes=1_000))[0].max_body == 2_000


def test_routes_are_created_only_through_router() -> None:
    """A bare `Route` takes any handler with any parameters."""
    api = Path(api_package.__file__).parent
    made = re.compile(r"(?<!class )\bRoute\(|partial\(Route\b")
    bare = {str(path.relative_to(api)) for path in api.rglob("*.py") if made.search(path.read_text())}
    assert bare == {"context.py"}


def test_route_declaration_with_invalid_option_or_attribute_fails_type_check() -> None:
    router = Router(scopes="read")  # type: ignore[call-arg]
    router.get("/a", answer=dict)(about_nothing)
    with pytest.raises(TypeError, match="Unexpected keyword argument 'scopes'"):
        declared(router)

    @router.get("/b/{id}")
    async def too_curious(context: Context, params: One) -> object:
        password = context.app.password  # type: ignore[attr-defined]
        return password, params.name  # type: ignore[attr-defined]

    async def about_a_path(path: Path, params: One) -> object:
        return path / str(params.id)

    router.get("/c/{id}")(about_a_path)  # type: ignore[type-var]

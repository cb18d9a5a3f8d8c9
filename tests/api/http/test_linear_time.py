"""The API processes every text parameter in linear time, whether it accepts or refuses the text."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from _pytest.mark import ParameterSet

from shoal.core.model import Role
from shoal.http.routes import Route
from shoal.mastodon_api.routes import table
from shoal.settings import Settings
from tests.api.in_memory_network import NetworkFixture, Someone
from tests.example_counts import DEEP
from tests.linear_time import assert_linear

UNITS = (
    *("marks out of order", "half-width sound marks", "emoji sequences", "flags", "one long word", "tags", "mentions"),
    *("links", "links in parentheses", "spaces", "nested brackets", "phrases", "dotted words"),
)
_EVERY = 1 if DEEP else 3
"""The first test tier sends every third unit to a field; consecutive fields get different units."""
CHARACTERS = {"GET": 3_000}
"""Length of the shorter text: a character may take nine bytes in a query and six in a body; httpx limits URLs to 64 KB."""


def _holds_text(kind: Any) -> bool:
    return kind is str or any(map(_holds_text, get_args(kind)))


def _fields() -> list[ParameterSet]:
    found = [
        (route, field.encode_name)
        for route in table(Settings())
        if route.params is not None and not route.stub
        for field in msgspec.structs.fields(route.params)
        if _holds_text(field.type)
    ]
    return [
        pytest.param(route, field, UNITS[number % _EVERY :: _EVERY], id=f"{route.path}-{field}")
        for number, (route, field) in enumerate(found)
    ]


@pytest.fixture(scope="module")
def admin(shared: NetworkFixture) -> Someone:
    """An admin, who may call most routes."""
    return shared.staff("dora", Role.ADMIN)


@pytest.mark.parametrize(("route", "field", "units"), _fields())
def test_text_parameter_of_double_length_takes_at_most_double_time(
    shared: NetworkFixture, admin: Someone, route: Route, field: str, units: tuple[str, ...]
) -> None:
    path = route.path.replace("{id}", admin.id)

    def send(text: str) -> object:
        given = "params" if route.method == "GET" else "data"
        others = {"status": "x"} if route.path == "/api/v1/statuses" and field != "status" else {}
        return shared.ask(route.method, path, admin, **{given: {**others, field: text}})

    for unit in units:
        assert_linear(send, unit, CHARACTERS.get(route.method, 5_000))

"""The handler of a route reads every parameter that the route declares.

The route table lists the declared parameters; the test finds the parameters read in the source of the handler and its callees.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cache, partial
from typing import Any, get_origin

import msgspec
import pytest
from msgspec import structs

from shoal.http.routes import Route
from shoal.mastodon_api import instance, search
from shoal.mastodon_api.routes import table
from shoal.settings import Settings

SAME_EITHER_WAY = {
    ("GET", "/api/v1/directory"): {"local"},
    ("GET", "/api/v1/admin/accounts"): {"local"},
}
"""Parameters that change nothing: all accounts are local, so asking for local ones alone returns all."""

ROUTES = [route for route in table(Settings()) if route.params is not None and not route.stub]
"""Stubs are excluded because they ignore all parameters."""


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_route_handler_reads_every_declared_parameter(route: Route) -> None:
    assert unread(route) == SAME_EITHER_WAY.get((route.method, route.path), set())


def test_declared_parameter_check_detects_parameters_that_handler_does_not_read() -> None:
    route = next(route for route in ROUTES if route.path == "/api/v2/search")
    assert route.params is not None
    everything = {field.name for field in msgspec.structs.fields(route.params)}
    assert unread(structs.replace(route, handler=instance.languages)) == everything
    assert unread(structs.replace(route, handler=search.accounts)) >= {"type", "account_id", "max_id", "min_id"}


def unread(route: Route) -> set[str]:
    """Return the Python names of the declared parameters that the handler never reads."""
    assert route.params is not None
    read = words_of(route.handler)
    methods = {name for name in read if inspect.isfunction(getattr(route.params, name, None))}
    while methods:
        each = methods.pop()
        more = set[str]().union(*(_look(vars(kind)[each])[0] for kind in route.params.__mro__ if each in vars(kind)))
        methods |= {name for name in more - read if inspect.isfunction(getattr(route.params, name, None))}
        read |= more
    return {field.name for field in msgspec.structs.fields(route.params)} - read


_PACKAGES = ("shoal.mastodon_api", "shoal.http")


def words_of(start: Callable[..., Any]) -> set[str]:
    """Return the attributes read by a function and its callees, with the string constants of functions that call getattr."""
    seen: set[int] = set()
    found: set[str] = set()
    left: list[Any] = [start]
    while left:
        one = left.pop()
        one = one.func if isinstance(one, partial) else get_origin(one) or one
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            found |= {key for key in one if isinstance(key, str)}
            left += one.values()
        elif (isinstance(one, type) or inspect.isroutine(one)) and str(getattr(one, "__module__", "")).startswith(
            _PACKAGES
        ):
            words, leads = _look(one)
            found |= words
            left += leads
    return found


@cache
def _look(one: Callable[..., Any]) -> tuple[set[str], list[Any]]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(one)))
    known = _known(one)
    words, leads = set[str](), list[Any]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            words.add(node.attr)
            if isinstance(node.value, ast.Name):
                leads.append(getattr(known.get(node.value.id), node.attr, None))
        elif isinstance(node, ast.Name):
            leads.append(known.get(node.id))
    if any(isinstance(node, ast.Name) and node.id == "getattr" for node in ast.walk(tree)):
        words |= {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    return words, leads


def _known(one: Callable[..., Any]) -> dict[str, Any]:
    """Return the names that the source may use: module globals and closure variables."""
    if not inspect.isfunction(one):
        return vars(inspect.getmodule(one))
    closed = zip(one.__code__.co_freevars, one.__closure__ or (), strict=True)
    return {**one.__globals__, **{name: cell.cell_contents for name, cell in closed}}

"""Forged forms from other sites (CSRF): each is refused before it changes data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from scripts.web_pages import Subjects, prepared
from shoal import settings
from shoal.commands import oauth
from shoal.core.ranking.recipes import BALANCED, recipe_link
from shoal.http.params import Upload
from shoal.http.routes import Route
from shoal.web.routes import pages
from tests.api.in_memory_network import NetworkFixture, network_fixture, picture
from tests.web.browser import Visitor, member, visitor
from tests.web.pictures import posted

FORMS = [row for row in pages(settings.load({})) if row.method == "POST"]
FIELDS: dict[str, str] = {
    "key": "like-1",
    "link": recipe_link("", BALANCED),
    "name": "sea",
    "options": "Ebb",
    "password": "low tide at dawn",
    "proof": "{reset}",
    "step": "more",
    "text": "Forged",
    "title": "Forged",
    "username": "hal",
}
"""Values of fields that do not accept arbitrary text, by name."""


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture(invitations="members") as made:
        yield made


@pytest.fixture(scope="module")
def subjects(here: NetworkFixture) -> Subjects:
    hal, ann = member(here, "hal"), member(here, "ann")
    posted(here, ann, "Low tide at the #sea", 1)
    posted(here, hal, "My first #sea", 1)
    found = here.run(prepared(here.writes, "hal", "ann", "sea"))
    here.settle()
    return found


def id_for(row: Route, field: str, subjects: Subjects) -> int:
    """Return the id of a suitable subject for a form, by its path."""
    if field in {"member", "ids"} or row.path.startswith(
        ("/members", "/suggestions", "/requests", "/moderation/members")
    ):
        return subjects.author_id
    by_path = {
        "/albums": subjects.album,
        "/conversations": subjects.talk,
        "/lists": subjects.list,
        "/feeds": subjects.feed,
        "/moderation/reports": subjects.report,
        "/moderation/rules": subjects.rule,
        "/moderation/bulk": subjects.bulk,
        "/moderation": subjects.report,
        "/notifications/requests": subjects.sender,
        "/posts/{id}/edit": subjects.own,
        "/posts/{id}/delete": subjects.own,
        "/posts/{id}/albums": subjects.own,
        "/settings/filters": subjects.filter,
    }
    return next((id_ for path, id_ in by_path.items() if row.path.startswith(path)), subjects.id)


def value_for(row: Route, field: inspect.Field, subjects: Subjects) -> str:
    """Return a valid value for a field of a form."""
    kind = field.type
    while isinstance(kind, inspect.VarTupleType | inspect.Metadata):
        kind = kind.item_type if isinstance(kind, inspect.VarTupleType) else kind.type
    if isinstance(kind, inspect.LiteralType):
        return str(kind.values[0])
    if isinstance(kind, inspect.EnumType):
        return str(next(iter(kind.cls)).value)
    if isinstance(kind, inspect.BoolType):
        return "true"
    if isinstance(kind, inspect.StrType) and field.name == "id":
        return "a1"
    if isinstance(kind, inspect.IntType) or field.name in {"id", "ids", "member"}:
        return str(id_for(row, field.name, subjects))
    return FIELDS.get(field.name, "x").format(**subjects._asdict())


def filled_in(row: Route, subjects: Subjects) -> tuple[str, list[tuple[str, str]], dict[str, Any]]:
    """Return the path, the fields and the files of a form with valid values."""
    assert row.params is not None
    described = inspect.type_info(row.params)
    assert isinstance(described, inspect.StructType)
    files = {one.name: ("a.png", picture()) for one in described.fields if _is_file(one)}
    values = {
        one.name: value_for(row, one, subjects)
        for one in described.fields
        if (one.required or f"{{{one.name}}}" in row.path) and one.name not in files
    }
    path = row.path
    for name in list(values):
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", values.pop(name))
    listed = {one.name for one in described.fields if isinstance(one.type, inspect.VarTupleType)}
    fields = [(f"{name}[]" if name in listed else name, value) for name, value in values.items()]
    return path, fields, {name: file for name, file in files.items() if row.max_body > 1 << 16}


def _is_file(field: inspect.Field) -> bool:
    types = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
    return any(isinstance(one, inspect.CustomType) and one.cls is Upload for one in types)


def state_of(here: NetworkFixture) -> list[bytes]:
    """Return everything that is stored: objects and associations."""
    objects = here.run(here.network.store.obj_scan(0, 10_000))
    associations = here.run(here.network.store.assoc_scan((0, 0, 0), 10_000))
    return [msgspec.msgpack.encode(one) for one in (*objects, *associations)]


@pytest.fixture(scope="module")
def hal(here: NetworkFixture, subjects: Subjects) -> Visitor:
    return visitor(here, "hal")


@pytest.fixture(scope="module")
def token(hal: Visitor) -> str:
    """A valid form token of hal."""
    return hal.open("/settings/appearance").form_token


@pytest.fixture(scope="module")
def authorization(here: NetworkFixture) -> list[tuple[str, str]]:
    """The fields of an authorization request of an app."""
    app = here.run(oauth.register(here.writes, "Tide", redirect_uris=("https://app.example/",), scopes=("read",))).app
    asked = {"client_id": str(app.id), "response_type": "code", "redirect_uri": "https://app.example/", "scope": "read"}
    return [*asked.items(), ("do", "allow")]


@pytest.fixture(scope="module")
def other(here: NetworkFixture, subjects: Subjects) -> str:
    """A valid form token of another member."""
    return visitor(here, "ann").open("/settings/appearance").form_token


@pytest.mark.parametrize("row", FORMS, ids=[row.path for row in FORMS])
def test_forged_form_is_refused_without_changes(
    here: NetworkFixture,
    subjects: Subjects,
    hal: Visitor,
    token: str,
    other: str,
    authorization: list[tuple[str, str]],
    row: Route,
) -> None:
    path, fields, files = filled_in(row, subjects)
    if path == "/oauth/authorize":
        fields = authorization
    before = state_of(here)
    for forged, headers in (
        ([], {}),
        ([("form_token", "0" * 128)], {}),
        ([("form_token", other)], {}),
        ([("form_token", token)], {"Sec-Fetch-Site": "cross-site"}),
        ([("form_token", token)], {"Sec-Fetch-Site": "same-site"}),
        ([], {"X-Form-Token": other, "HX-Request": "true"}),
    ):
        answer = hal.post(path, [*fields, *forged], files, multipart=bool(files), headers=headers)
        assert (answer.status, "has expired" in answer.answer.text) == (403, True), (
            forged,
            headers,
            answer.answer.text[:500],
        )
    assert state_of(here) == before

"""What a world really answers is what the description promises: every key of it, and no other."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from shoal.api.calls import Body, Route
from shoal.api.openapi import document_of, name_of
from shoal.api.table import parts, table
from shoal.settings import Settings
from tests.api.golden import answers
from tests.api.world import Someone, World, picture, world

ENDLESS = "/api/v1/streaming"
READING = [
    route
    for route in table(Settings())
    if route.method == "GET" and not isinstance(route.answer, Body) and not route.path.startswith(ENDLESS)
]
QUERIES = {
    "/api/v1/accounts/lookup": {"acct": "ann"},
    "/api/v1/accounts": {"id[]": "{account}"},
    "/api/v1/accounts/relationships": {"id[]": "{account}"},
    "/api/v1/statuses": {"id[]": "{status}"},
}
"""What a route must be asked with to say something."""

NOUNS = {"status": "statuses", "media": "media"}
"""Whose id stands behind which word of a path; an account's behind any other."""


def closed(value: Any) -> Any:
    """A schema that allows no other keys than those that it names."""
    if isinstance(value, dict):
        inner = {key: closed(each) for key, each in value.items()}
        return {**inner, "additionalProperties": False} if isinstance(value.get("properties"), dict) else inner
    return [closed(each) for each in value] if isinstance(value, list) else value


DOCUMENT = document_of(parts(Settings()))
COMPONENTS = closed(copy.deepcopy(DOCUMENT["components"]))


class Cast:
    """A world in which there is one of each thing."""

    def __init__(self, shoal: World) -> None:
        self.shoal = shoal
        answers(shoal)
        self.carol: Someone = shoal.join("carol")
        upload = shoal.json("POST", "/api/v2/media", self.carol, files={"file": ("a.png", picture())})
        said = {"status": "look #dawn @ann", "media_ids": [upload["id"]]}
        status = shoal.json("POST", "/api/v1/statuses", self.carol, json=said)
        for verb in ("favourite", "bookmark"):
            shoal.json("POST", f"/api/v1/statuses/{status['id']}/{verb}", self.carol)
        self.things = {"account": self.carol.id, "status": status["id"], "media": upload["id"]}
        shoal.json("POST", f"/api/v1/accounts/{self._id('ann')}/follow", self.carol)
        shoal.json("POST", f"/api/v1/accounts/{self._id('ben')}/mute", self.carol)
        shoal.settle()

    def _id(self, name: str) -> str:
        return str(self.shoal.json("GET", f"/api/v1/accounts/lookup?acct={name}")["id"])

    def path(self, route: Route) -> str:
        """The path of a route, about what is there."""
        kind = next((kind for kind, noun in NOUNS.items() if f"/{noun}/{{" in route.path), "account")
        filled = re.sub(r"\{(name|tag)\}", "dawn", route.path)
        return filled.replace("{id}", self.things[kind])

    def query(self, route: Route) -> dict[str, str]:
        """What it is asked with."""
        return {key: value.format(**self.things) for key, value in QUERIES.get(route.path, {}).items()}


@pytest.fixture(scope="module")
def cast() -> Iterator[Cast]:
    """One world for all routes."""
    with world() as shoal:
        yield Cast(shoal)


@pytest.mark.parametrize("route", READING, ids=name_of)
def test_an_answer_has_every_key_that_is_promised_and_no_other(cast: Cast, route: Route) -> None:
    told = DOCUMENT["paths"][route.path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    schema = {**closed(copy.deepcopy(told)), "components": COMPONENTS}
    token = cast.carol if route.auth != "app" else cast.shoal.token(cast.carol.app_id)
    for caller in {"public": ("",), "optional": ("", token), "app": (token,), "user": (token,)}[route.auth]:
        answer = cast.shoal.ask("GET", cast.path(route), caller, params=cast.query(route))
        if route.path == "/openapi.json":
            assert answer.json() == DOCUMENT
            continue
        assert answer.status_code == 200, answer.text
        errors = [
            f"{list(error.instance_path)}: {error.message}"
            for error in jsonschema_rs.validator_for(schema).iter_errors(answer.json())
        ]
        assert not errors, errors

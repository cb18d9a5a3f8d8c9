"""The description of the API says what the route table says, and the page says what the description says."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from shoal.http.authentication import KNOWN
from shoal.http.errors import TABLE
from shoal.http.openapi import Schema, document_of, name_of
from shoal.http.reference_page import page_of
from shoal.http.routes import Route
from shoal.mastodon_api.routes import parts, table
from shoal.settings import Settings
from tests.api.harness import Text, make_app
from tests.api.world import World

ROUTES = table(Settings())
DOCUMENT = document_of(parts(Settings()))
OPERATIONS = {(method.upper(), path): item[method] for path, item in DOCUMENT["paths"].items() for method in item}


def schema_of(operation: dict[str, Any], kind: str = "application/json") -> Any:
    """Return the schema of the body that an operation takes."""
    return operation["requestBody"]["content"][kind]["schema"]


def test_every_route_is_described_once_under_a_name_of_its_own() -> None:
    assert sorted(OPERATIONS) == sorted((route.method, route.path) for route in ROUTES)
    assert len({name_of(route) for route in ROUTES}) == len(ROUTES)


def test_every_route_says_what_it_does_and_stands_in_one_part() -> None:
    named = {tag["name"] for tag in DOCUMENT["tags"]}
    assert all(operation["summary"] and set(operation["tags"]) <= named for operation in OPERATIONS.values())


def test_every_reference_leads_somewhere() -> None:
    for reference in references(DOCUMENT):
        found: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
        assert found


def references(value: Any) -> Iterator[str]:
    """Each `$ref` in a document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_schema_is_one() -> None:
    for name in DOCUMENT["components"]["schemas"]:
        jsonschema_rs.validator_for({"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]})
    for operation in OPERATIONS.values():
        for parameter in operation.get("parameters", ()):
            jsonschema_rs.validator_for(parameter["schema"])
        for content in operation.get("requestBody", {"content": {}})["content"].values():
            jsonschema_rs.validator_for(content["schema"])


def test_maxima_stand_in_the_description() -> None:
    asked = schema_of(OPERATIONS["POST", "/api/v1/apps"])
    assert asked["required"] == ["client_name", "redirect_uris"]
    assert asked["properties"]["client_name"]["maxLength"] == 1000
    assert asked["properties"]["redirect_uris"]["maxItems"] == 20


def test_what_is_taken_in_the_path_and_in_the_query_is_told_apart() -> None:
    found = {
        parameter["name"]: parameter for parameter in OPERATIONS["GET", "/api/v1/accounts/{id}/statuses"]["parameters"]
    }
    assert found["id"]["in"] == "path"
    assert found["id"]["required"]
    assert found["max_id"]["in"] == "query"
    assert found["max_id"]["description"] == "Only items older than this."
    assert OPERATIONS["GET", "/api/v1/accounts"]["parameters"][0]["name"] == "id[]"


def test_files_come_as_multipart_alone() -> None:
    upload = OPERATIONS["POST", "/api/v2/media"]["requestBody"]
    assert list(upload["content"]) == ["multipart/form-data"]
    assert schema_of(OPERATIONS["POST", "/api/v2/media"], "multipart/form-data")["required"] == ["file"]
    profile = OPERATIONS["PATCH", "/api/v1/accounts/update_credentials"]
    assert "avatar" not in schema_of(profile)["properties"]
    assert "avatar" in schema_of(profile, "multipart/form-data")["properties"]


@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_who_may_call_and_with_which_scope_is_told(route: Route) -> None:
    scopes = [route.scope] if route.scope else []
    expected = {
        "public": [],
        "optional": [{}, {"OAuth2": scopes}],
        "app": [{"OAuth2": scopes}],
        "client": [{"OAuth2": scopes}],
        "user": [{"OAuth2": scopes}],
    }
    assert OPERATIONS[route.method, route.path]["security"] == expected[route.auth]


def test_every_scope_is_explained() -> None:
    flows = DOCUMENT["components"]["securitySchemes"]["OAuth2"]["flows"]
    assert set(flows) == {"authorizationCode", "clientCredentials", "password"}
    assert all(set(flow["scopes"]) == KNOWN and all(flow["scopes"].values()) for flow in flows.values())


def test_every_error_of_the_table_is_described() -> None:
    statuses = {row.status for row in TABLE} | {408, 431}
    # Of a method that is not there nothing can be told where methods are described.
    assert {int(name.removeprefix("Error")) for name in DOCUMENT["components"]["responses"]} == statuses - {405}


def test_pages_have_a_link_and_others_have_none() -> None:
    paged = OPERATIONS["GET", "/api/v1/timelines/home"]["responses"]["200"]["headers"]
    assert "Link" in paged
    assert "X-RateLimit-Reset" in paged
    assert "Link" not in OPERATIONS["GET", "/api/v1/statuses/{id}"]["responses"]["200"]["headers"]


def test_a_key_that_may_be_left_out_is_not_required() -> None:
    status = DOCUMENT["components"]["schemas"]["Status"]
    assert "account" in status["required"]
    assert "content" in status["required"]
    assert "favourited" not in status["required"]


def test_the_same_table_gives_the_same_bytes() -> None:
    again = document_of(parts(Settings()))
    assert msgspec.json.encode(again) == msgspec.json.encode(DOCUMENT)


def test_a_route_that_declares_no_answer_does_not_start() -> None:
    async def handler(context: Any, params: None) -> object:
        """Nothing."""
        return {}

    with pytest.raises(TypeError, match="no answer is declared"):
        make_app(Route("GET", "/api/v1/new", handler, auth="public", limit_class="api"))


def test_two_structs_of_one_name_get_two_schemas(shoal: World) -> None:
    class Tag(msgspec.Struct):
        other: Text

    async def handler(context: Any, params: None) -> object:
        """Nothing."""
        return {}

    made = parts(Settings())
    more = made[0]._replace(routes=(Route("GET", "/other", handler, auth="public", answer=Tag),))
    names = document_of((*made, more))["components"]["schemas"]
    assert {"Tag", "TestOpenapiTag"} <= set(names)


def test_the_document_and_the_page_are_served(shoal: World) -> None:
    document = shoal.ask("GET", "/openapi.json", headers={"Origin": "https://elsewhere.example"})
    assert document.headers["access-control-allow-origin"] == "*"
    assert document.json() == msgspec.json.decode(msgspec.json.encode(DOCUMENT))
    page = shoal.ask("GET", "/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for route in ROUTES:
        assert f'id="{name_of(route)}"' in page.text
    for name in DOCUMENT["components"]["schemas"]:
        assert f'id="shape-{name}"' in page.text
    ids = set(re.findall(r'id="([^"]+)"', page.text))
    assert set(re.findall(r'href="#([^"]+)"', page.text)) <= ids


def test_while_the_page_is_made_the_server_answers_others(shoal: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def made_late(document: Schema) -> str:
        assert answered.wait(30.0), "nobody else was answered meanwhile"
        return page_of(document)

    monkeypatch.setattr("shoal.http.reference_page.page_of", made_late)

    async def two() -> tuple[int, int]:
        page = asyncio.create_task(shoal.request("GET", "/docs"))
        await asyncio.sleep(0)
        other = await shoal.request("GET", "/api/v1/instance")
        answered.set()
        return (await page).status_code, other.status_code

    assert shoal.run(two()) == (200, 200)

"""The OpenAPI document matches the route table, and the docs page matches the document."""

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
from tests.api.in_memory_network import NetworkFixture

ROUTES = table(Settings())
DOCUMENT = document_of(parts(Settings()))
OPERATIONS = {(method.upper(), path): item[method] for path, item in DOCUMENT["paths"].items() for method in item}


def schema_of(operation: dict[str, Any], kind: str = "application/json") -> Any:
    """Return the schema of an operation's request body."""
    return operation["requestBody"]["content"][kind]["schema"]


def test_openapi_document_describes_each_route_once_under_unique_name() -> None:
    assert sorted(OPERATIONS) == sorted((route.method, route.path) for route in ROUTES)
    assert len({name_of(route) for route in ROUTES}) == len(ROUTES)


def test_openapi_operations_have_summary_and_declared_tags() -> None:
    named = {tag["name"] for tag in DOCUMENT["tags"]}
    assert all(operation["summary"] and set(operation["tags"]) <= named for operation in OPERATIONS.values())


def test_openapi_references_all_resolve() -> None:
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


def test_openapi_schemas_are_valid_json_schema() -> None:
    for name in DOCUMENT["components"]["schemas"]:
        jsonschema_rs.validator_for({"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]})
    for operation in OPERATIONS.values():
        for parameter in operation.get("parameters", ()):
            jsonschema_rs.validator_for(parameter["schema"])
        for content in operation.get("requestBody", {"content": {}})["content"].values():
            jsonschema_rs.validator_for(content["schema"])


def test_openapi_request_body_includes_maximum_lengths() -> None:
    asked = schema_of(OPERATIONS["POST", "/api/v1/apps"])
    assert asked["required"] == ["client_name", "redirect_uris"]
    assert asked["properties"]["client_name"]["maxLength"] == 1000
    assert asked["properties"]["redirect_uris"]["maxItems"] == 20


def test_openapi_parameters_distinguish_path_from_query() -> None:
    found = {
        parameter["name"]: parameter for parameter in OPERATIONS["GET", "/api/v1/accounts/{id}/statuses"]["parameters"]
    }
    assert found["id"]["in"] == "path"
    assert found["id"]["required"]
    assert found["max_id"]["in"] == "query"
    assert found["max_id"]["description"] == "Only items older than this."
    assert OPERATIONS["GET", "/api/v1/accounts"]["parameters"][0]["name"] == "id[]"


def test_openapi_file_fields_appear_only_in_multipart_body() -> None:
    upload = OPERATIONS["POST", "/api/v2/media"]["requestBody"]
    assert list(upload["content"]) == ["multipart/form-data"]
    assert schema_of(OPERATIONS["POST", "/api/v2/media"], "multipart/form-data")["required"] == ["file"]
    profile = OPERATIONS["PATCH", "/api/v1/accounts/update_credentials"]
    assert "avatar" not in schema_of(profile)["properties"]
    assert "avatar" in schema_of(profile, "multipart/form-data")["properties"]


@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_openapi_security_states_required_scope_of_route(route: Route) -> None:
    scopes = [route.scope] if route.scope else []
    expected = {
        "public": [],
        "optional": [{}, {"OAuth2": scopes}],
        "app": [{"OAuth2": scopes}],
        "client": [{"OAuth2": scopes}],
        "user": [{"OAuth2": scopes}],
        "server": [{"ServerKey": scopes}],
    }
    assert OPERATIONS[route.method, route.path]["security"] == expected[route.auth]


def test_openapi_oauth_flows_describe_all_scopes() -> None:
    flows = DOCUMENT["components"]["securitySchemes"]["OAuth2"]["flows"]
    assert set(flows) == {"authorizationCode", "clientCredentials", "password"}
    assert all(set(flow["scopes"]) == KNOWN and all(flow["scopes"].values()) for flow in flows.values())


def test_openapi_responses_describe_all_error_statuses() -> None:
    statuses = {row.status for row in TABLE} | {408, 431}
    # 405 applies to methods that a path does not have, so no operation can describe it.
    assert {int(name.removeprefix("Error")) for name in DOCUMENT["components"]["responses"]} == statuses - {405}


def test_openapi_link_header_appears_only_on_paginated_operations() -> None:
    paged = OPERATIONS["GET", "/api/v1/timelines/home"]["responses"]["200"]["headers"]
    assert "Link" in paged
    assert "X-RateLimit-Reset" in paged
    assert "Link" not in OPERATIONS["GET", "/api/v1/statuses/{id}"]["responses"]["200"]["headers"]


def test_openapi_optional_fields_are_not_required() -> None:
    status = DOCUMENT["components"]["schemas"]["Status"]
    assert "account" in status["required"]
    assert "content" in status["required"]
    assert "favourited" not in status["required"]


def test_openapi_document_generation_is_deterministic() -> None:
    again = document_of(parts(Settings()))
    assert msgspec.json.encode(again) == msgspec.json.encode(DOCUMENT)


def test_app_start_with_route_without_declared_response_fails() -> None:
    async def handler(context: Any, params: None) -> object:
        """Nothing."""
        return {}

    with pytest.raises(TypeError, match="no response is declared"):
        make_app(Route("GET", "/api/v1/new", handler, auth="public", limit_class="api"))


def test_openapi_structs_with_equal_names_get_separate_schemas(shoal: NetworkFixture) -> None:
    class Tag(msgspec.Struct):
        other: Text

    async def handler(context: Any, params: None) -> object:
        """Nothing."""
        return {}

    made = parts(Settings())
    more = made[0]._replace(routes=(Route("GET", "/other", handler, auth="public", answer=Tag),))
    names = document_of((*made, more))["components"]["schemas"]
    assert {"Tag", "TestOpenapiTag"} <= set(names)


def test_openapi_document_and_docs_page_are_served(shoal: NetworkFixture) -> None:
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


def test_docs_page_rendering_does_not_block_other_requests(
    shoal: NetworkFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()

    def made_late(document: Schema) -> str:
        assert answered.wait(30.0), "no other request was answered while the page was rendering"
        return page_of(document)

    monkeypatch.setattr("shoal.http.reference_page.page_of", made_late)

    async def two() -> tuple[int, int]:
        page = asyncio.create_task(shoal.request("GET", "/docs"))
        await asyncio.sleep(0)
        other = await shoal.request("GET", "/api/v1/instance")
        answered.set()
        return (await page).status_code, other.status_code

    assert shoal.run(two()) == (200, 200)

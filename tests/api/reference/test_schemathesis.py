"""Fuzz a running Shoal server with valid and invalid requests: it returns no 5xx, and responses match the OpenAPI document.

The seed is fixed, so failures are reproducible.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from shoal.app.network import Network
from shoal.commands import members, moderation, oauth, server_keys
from shoal.core.model import Role
from shoal.http.openapi import document_of
from shoal.mastodon_api.routes import parts
from shoal.settings import Settings
from tests.api.in_memory_network import served
from tests.example_counts import DEEP, examples

LEAST = examples(400, full=2_500)
"""Minimum number of requests in total."""
SEED = 20_261_122
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
ENDLESS = "/api/v1/streaming"
"""Streaming endpoints, whose responses never finish."""
LEFT_OUT = ("/oauth/revoke", "/openapi.json")
"""The first may revoke the token in use; the second is the document that the tests are generated from."""
FOR_KEYS = ("/api/shoal/v1/members", "/api/shoal/v1/server_key", "/api/shoal/v1/events", "/api/shoal/v1/webhooks")
SCOPES = ("read", "write", "follow", "push", "profile", "admin:read", "admin:write")


class PageContext:
    """A server, a member's token, and the response statuses so far."""

    def __init__(self, url: str, headers: dict[str, str], key: dict[str, str]) -> None:
        self.url = url
        self.headers = headers
        self.key = key
        """The header of a server key, for the routes that need one."""
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.operations = operations(url)

    def ask(self, case: Any) -> None:
        """Send one request and validate the response against the document."""
        headers = self.key if case.operation.path.startswith(FOR_KEYS) else self.headers
        response = case.call(base_url=self.url, headers=headers, timeout=60)
        self.statuses[case.operation.label, response.status_code] += 1
        case.validate_response(response, checks=list(CHECKS))


@pytest.fixture(scope="module")
def visit() -> Iterator[PageContext]:
    """An in-memory server with one admin member who has one post."""
    tokens: list[str] = []

    async def one_admin(network: Network) -> None:
        member = await members.register(network.writes, "dora")
        await moderation.set_role(network.writes, member.id, Role.ADMIN)
        app = (await oauth.register(network.writes, "T", redirect_uris=("urn:x",), scopes=SCOPES)).app
        tokens.append((await oauth.issue_token(network.writes, app.id, member.id, SCOPES)).text)
        tokens.append((await server_keys.create(network.writes, "shop", ("server", "server:webhooks"))).secret)

    with served(first=one_admin) as url, httpx.Client(base_url=url) as client:
        headers, key = ({"Authorization": f"Bearer {token}"} for token in tokens)
        client.post("/api/v1/statuses", json={"status": "hello #dawn"}, headers=headers).raise_for_status()
        yield PageContext(url, headers, key)


def operations(url: str) -> dict[str, Any]:
    """Return the operations by method and path, except streaming endpoints and those in LEFT_OUT."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    found: list[Any] = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    return {one.label: one for one in found if not one.path.startswith(ENDLESS) and one.path not in LEFT_OUT}


def explore(visit: PageContext, operation: Any, mode: GenerationMode, examples: int, seed: int) -> None:
    """Send generated valid or invalid requests to an operation."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def story(case: Any) -> None:
        visit.ask(case)

    story()


OPERATIONS = [
    (method.upper(), path)
    for path, item in document_of(parts(Settings()))["paths"].items()
    for method in item
    if not path.startswith(ENDLESS) and path not in LEFT_OUT
]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
EACH = LEAST // (2 * len(OPERATIONS)) + 2


@pytest.mark.parametrize("operation", OPERATIONS, ids=" ".join)
def test_api_operations_under_fuzzing_conform_to_openapi_document(
    visit: PageContext, operation: tuple[str, str]
) -> None:
    found = visit.operations[" ".join(operation)]
    # Invalid requests cost as much as valid ones, and are refused by the same code: the first tier sends them to a third.
    for mode in MODES if DEEP or OPERATIONS.index(operation) % 3 == 0 else MODES[:1]:
        # No invalid request exists for an operation without input.
        with contextlib.suppress(hypothesis.errors.Unsatisfiable):
            explore(visit, found, mode, EACH, SEED)


def test_api_fuzzing_reaches_minimum_request_count_and_a_third_of_operations_succeed(visit: PageContext) -> None:
    for more in range(1, 100):
        if visit.statuses.total() >= LEAST:
            break
        for operation in visit.operations.values():
            explore(visit, operation, GenerationMode.POSITIVE, EACH, SEED + more)
    assert visit.statuses.total() >= LEAST
    good = {label for label, status in visit.statuses if status < 400}
    assert len(good) > len(OPERATIONS) // 3, sorted(good)

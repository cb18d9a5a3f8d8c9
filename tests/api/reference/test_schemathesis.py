"""Whatever the description allows, and much that it does not, is asked of a served Shoal: it never fails, and answers as described.

Thousands of requests with a fixed seed, so a failure can be had again.
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
from shoal.commands import members, moderation, oauth
from shoal.core.model import Role
from shoal.http.openapi import document_of
from shoal.mastodon_api.routes import parts
from shoal.settings import Settings
from tests.api.world import served
from tests.examples import examples

LEAST = examples(400, full=2_500)
"""Requests in all."""
SEED = 20_261_122
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
ENDLESS = "/api/v1/streaming"
"""These answer as long as one listens."""
LEFT_OUT = ("/oauth/revoke", "/openapi.json")
"""The first may end the token that is asked with, and the second is read to know what to ask."""
SCOPES = ("read", "write", "follow", "push", "profile", "admin:read", "admin:write")


class PageContext:
    """A server, a member's token, and what was answered so far."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.url = url
        self.headers = headers
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.operations = operations(url)

    def ask(self, case: Any) -> None:
        """One request, held against the description."""
        response = case.call(base_url=self.url, headers=self.headers, timeout=30)
        self.statuses[case.operation.label, response.status_code] += 1
        case.validate_response(response, checks=list(CHECKS))


@pytest.fixture(scope="module")
def visit() -> Iterator[PageContext]:
    """A server in memory with one member, who has written something and looks after the place."""
    tokens: list[str] = []

    async def one_admin(network: Network) -> None:
        member = await members.register(network.writes, "dora")
        await moderation.set_role(network.writes, member.id, Role.ADMIN)
        app = (await oauth.register(network.writes, "T", redirect_uris=("urn:x",), scopes=SCOPES)).app
        tokens.append((await oauth.issue_token(network.writes, app.id, member.id, SCOPES)).text)

    with served(first=one_admin) as url, httpx.Client(base_url=url) as client:
        headers = {"Authorization": f"Bearer {tokens[0]}"}
        client.post("/api/v1/statuses", json={"status": "hello #dawn"}, headers=headers).raise_for_status()
        yield PageContext(url, headers)


def operations(url: str) -> dict[str, Any]:
    """Return the described operations by method and path, less those that never end or that end the session."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    found: list[Any] = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    return {one.label: one for one in found if not one.path.startswith(ENDLESS) and one.path not in LEFT_OUT}


def explore(visit: PageContext, operation: Any, mode: GenerationMode, examples: int, seed: int) -> None:
    """Ask an operation so many things, good ones or bad ones."""

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
def test_nothing_that_can_be_asked_breaks_the_server_or_its_word(
    visit: PageContext, operation: tuple[str, str]
) -> None:
    found = visit.operations[" ".join(operation)]
    for mode in MODES:
        # Nothing wrong can be sent to what takes nothing.
        with contextlib.suppress(hypothesis.errors.Unsatisfiable):
            explore(visit, found, mode, EACH, SEED)


def test_thousands_of_requests_were_made_and_some_were_good(visit: PageContext) -> None:
    for more in range(1, 100):
        if visit.statuses.total() >= LEAST:
            break
        for operation in visit.operations.values():
            explore(visit, operation, GenerationMode.POSITIVE, EACH, SEED + more)
    assert visit.statuses.total() >= LEAST
    good = {label for label, status in visit.statuses if status < 400}
    assert len(good) > len(OPERATIONS) // 3, sorted(good)

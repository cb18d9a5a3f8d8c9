"""Sign-up with a proof of work is active immediately; without one it is pending approval."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from shoal.core.model import Role
from shoal.core.signup import is_proof
from tests.api.in_memory_network import BASE, NetworkFixture, network_fixture
from tests.api.oauth_browser import Client
from tests.proof_of_work import find_proof

BITS = 6
DOMAIN = httpx.URL(BASE).netloc.decode()


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture(signup_work=BITS, invitations="staff") as made:
        yield made


def sign_up(here: NetworkFixture, name: str, **given: Any) -> httpx.Response:
    """Submit the sign-up form and return the response."""
    fields = {"username": name, "email": f"{name}@example.org", "password": "a long password", "agreement": True}
    return here.ask("POST", "/api/v1/accounts", here.token(Client(here).app.id), json={**fields, **given})


def proof(name: str, ago: int = 0) -> str:
    return find_proof(DOMAIN, name, BITS, int(time.time()) - ago)


def acts(here: NetworkFixture, answer: httpx.Response) -> bool:
    """Return whether a new member may act."""
    token = answer.json()["access_token"]
    return here.ask("POST", "/api/v1/statuses", token, json={"status": "Hello"}).status_code == 200


def test_sign_up_with_proof_of_work_is_active_immediately(here: NetworkFixture) -> None:
    assert acts(here, sign_up(here, "Ann", proof=proof("ann")))


def test_sign_up_without_proof_of_work_is_pending(here: NetworkFixture) -> None:
    assert not acts(here, sign_up(here, "ben", reason="to read"))
    here.settle()
    waiting = here.json("GET", "/api/v2/admin/accounts?status=pending", here.staff("chief", Role.MODERATOR))
    assert [(one["username"], one["invite_request"]) for one in waiting] == [("ben", "to read")]


@pytest.mark.parametrize("wrong", ["1:1", "nothing", "old", "of another"])
def test_sign_up_with_invalid_proof_of_work_is_refused(here: NetworkFixture, wrong: str) -> None:
    sent = {"old": proof("cleo0", 4_000), "of another": proof("somebody")}.get(wrong, wrong)
    # A random proof is valid for 1 in 64 names.
    names = (f"cleo{n}" for n in range(100))
    name = next(one for one in names if not is_proof(sent, DOMAIN, one, BITS, int(time.time())))
    before = here.state()
    answer = sign_up(here, name, proof=sent)
    assert answer.status_code == 422
    assert "proof: expected a proof of work of 6 bits for this name, at most an hour old" in answer.json()["error"]
    assert len(here.state().objects) == len(before.objects) + 2, "only the app and its token"


def test_instance_publishes_sign_up_proof_of_work_bits(here: NetworkFixture) -> None:
    found = here.json("GET", "/api/v2/instance")
    assert found["configuration"]["accounts"]["signup_work"] == BITS
    assert found["registrations"]["approval_required"] is True


def test_sign_up_with_proof_of_work_disabled_ignores_submitted_proof() -> None:
    with network_fixture() as made:
        assert acts(made, sign_up(made, "ann", proof="nothing"))

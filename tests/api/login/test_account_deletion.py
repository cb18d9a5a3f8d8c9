"""Account deletion over HTTP: immediate logout, cancellation with the password, and a receipt that needs no login."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.api.login.test_sessions import log_in, works
from tests.api.oauth_browser import PASSWORD, Client, register

LEAVE, BACK, RECEIPTS = "/api/shoal/v1/leave", "/api/shoal/v1/come_back", "/api/shoal/v1/receipts"


@pytest.fixture
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        register(made, "ann")
        yield made


def test_account_deletion_hides_and_logs_out_member_and_can_be_cancelled(here: NetworkFixture) -> None:
    client = Client(here)
    token = log_in(here, client, "ann")
    wrong = here.ask("POST", LEAVE, token, json={"password": "not it"})
    assert (wrong.status_code, list(wrong.json()["details"])) == (422, ["password"])
    assert works(here, token)
    told = here.json("POST", LEAVE, token, json={"password": PASSWORD})
    assert (told["username"], told["begun_at"], told["deleted_at"], told["counts"]) == ("ann", None, None, {})
    assert not works(here, token)
    assert here.ask("GET", "/api/v1/accounts/lookup", params={"acct": "ann"}).status_code == 410
    form = {"grant_type": "password", "username": "ann", "password": PASSWORD, "scope": "read", **client.keys}
    refused = here.ask("POST", "/oauth/token", data=form)
    assert (refused.status_code, "to be deleted" in refused.text) == (400, True)
    receipt = here.json("GET", f"{RECEIPTS}/{told['receipt']}")
    assert receipt == {name: value for name, value in told.items() if name != "receipt"}
    assert here.ask("GET", f"{RECEIPTS}/{told['receipt'].swapcase()}").status_code == 404
    assert here.ask("POST", BACK, json={"username": "ann", "password": "not it"}).status_code == 401
    assert here.json("POST", BACK, json={"username": "ann", "password": PASSWORD}) == {}
    assert here.ask("POST", BACK, json={"username": "ann", "password": PASSWORD}).status_code == 403
    assert works(here, log_in(here, client, "ann"))
    assert here.ask("GET", f"{RECEIPTS}/{told['receipt']}").status_code == 404


def test_account_deletion_wrong_passwords_are_rate_limited() -> None:
    with network_fixture(rate_limits=True, limits={"account_guesses": "1/10m"}) as busy:
        register(busy, "ann")
        token = log_in(busy, Client(busy), "ann")
        for status in (422, 429):
            assert busy.ask("POST", LEAVE, token, json={"password": "not it"}).status_code == status
        assert busy.ask("POST", BACK, json={"username": "ann", "password": "not it"}).status_code == 429

"""Sign-up reports the errors of all fields; a new member can post immediately."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.api.oauth_browser import Client

GOOD = {"username": "ann", "email": "ann@example.org", "password": "a long password", "agreement": True}


def sign_up(shoal: NetworkFixture, **given: Any) -> httpx.Response:
    """Submit the sign-up form and return the response."""
    token = shoal.token(Client(shoal).app.id)
    return shoal.ask("POST", "/api/v1/accounts", token, json=given)


def codes(answer: httpx.Response) -> dict[str, list[str]]:
    """Return the error codes of each field."""
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"].startswith("Validation failed: ")
    return {field: [one["error"] for one in found] for field, found in answer.json()["details"].items()}


def test_sign_up_member_can_post_immediately_in_language_of_locale(shared: NetworkFixture) -> None:
    more = {"locale": "pt-BR", "reason": "to read", "date_of_birth": "1990-01-31"}
    token = sign_up(shared, **{**GOOD, "username": "Ana", "email": "ana@example.org"}, **more).json()
    assert token["scope"] == "read write follow push"
    me = shared.json("GET", "/api/v1/accounts/verify_credentials", token["access_token"])
    assert (me["username"], me["source"]["language"]) == ("ana", "pt")
    status = shared.json("POST", "/api/v1/statuses", token["access_token"], json={"status": "Olá"})
    assert status["language"] == "pt"


@pytest.mark.parametrize("locale", ["", "no such place", "x", "12", "en;q=1"])
def test_sign_up_with_invalid_locale_is_accepted(shared: NetworkFixture, locale: str) -> None:
    number = sum(map(ord, locale))
    answer = sign_up(shared, **GOOD | {"username": f"m{number}", "email": f"m{number}@example.org", "locale": locale})
    assert answer.status_code == 200


def test_sign_up_reports_all_invalid_fields(shared: NetworkFixture) -> None:
    before = shared.state()
    assert codes(sign_up(shared)) == {
        "username": ["ERR_BLANK"],
        "email": ["ERR_BLANK"],
        "password": ["ERR_BLANK"],
        "agreement": ["ERR_ACCEPTED"],
    }
    wrong = {"username": "no spaces", "email": "nobody", "password": "short"}
    assert codes(sign_up(shared, **wrong)) == {
        "username": ["ERR_INVALID"],
        "email": ["ERR_INVALID"],
        "password": ["ERR_TOO_SHORT"],
        "agreement": ["ERR_ACCEPTED"],
    }
    long = {"username": "x" * 31, "email": "x" * 300 + "@example.org", "password": "x" * 1_025, "agreement": True}
    assert codes(sign_up(shared, **long)) == {
        "username": ["ERR_TOO_LONG"],
        "email": ["ERR_TOO_LONG"],
        "password": ["ERR_TOO_LONG"],
    }
    assert codes(sign_up(shared, **GOOD | {"username": "admin"})) == {"username": ["ERR_RESERVED"]}
    after = shared.state()
    assert len(after.objects) == len(before.objects) + 8, "only an app and its token for each of the four forms"


def test_sign_up_with_taken_username_and_email_reports_both_fields(shared: NetworkFixture) -> None:
    taken = GOOD | {"username": "bea", "email": "bea@example.org"}
    assert sign_up(shared, **taken).status_code == 200
    assert codes(sign_up(shared, **taken | {"username": "BEA", "email": "Bea@Example.org"})) == {
        "username": ["ERR_TAKEN"],
        "email": ["ERR_TAKEN"],
    }
    assert codes(sign_up(shared, **taken | {"username": "beatrix", "password": "short"})) == {
        "email": ["ERR_TAKEN"],
        "password": ["ERR_TOO_SHORT"],
    }


def test_sign_up_with_member_token_is_refused(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    before = shoal.state()
    answer = shoal.ask("POST", "/api/v1/accounts", ann, json=GOOD)
    assert (answer.status_code, answer.json()) == (403, {"error": "This action is not allowed"})
    assert shoal.state() == before


def test_sign_up_rate_limit_counts_by_address_regardless_of_token() -> None:
    with network_fixture(rate_limits=True) as limited:
        tokens = [limited.join(name).token for name in ("ann", "ben")]
        tokens += [limited.token(Client(limited).app.id) for _ in range(6)]
        answers = [limited.ask("POST", "/api/v1/accounts", token, json={}) for token in tokens]
        assert [answer.status_code for answer in answers] == [403, 403, 422, 422, 422, 429, 429, 429]
        assert answers[0].headers["x-ratelimit-limit"] == "5"

"""Admin API: blocks of e-mail domains and of canonical e-mail addresses."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from shoal.core.model import Role
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture
from tests.api.oauth_browser import Client

DOMAINS = "/api/v1/admin/email_domain_blocks"
ADDRESSES = "/api/v1/admin/canonical_email_blocks"
GOOD = {"password": "a long password", "agreement": True}


@pytest.fixture
def w() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


@pytest.fixture
def boss(w: NetworkFixture) -> Someone:
    return w.staff("boss", Role.ADMIN)


def sign_up(w: NetworkFixture, name: str, email: str) -> httpx.Response:
    token = w.token(Client(w).app.id)
    return w.ask("POST", "/api/v1/accounts", token, json={**GOOD, "username": name, "email": email})


def refused(answer: httpx.Response) -> list[str]:
    """Return the error codes of the email field."""
    assert answer.status_code == 422, answer.text
    return [one["error"] for one in answer.json()["details"]["email"]]


def block(w: NetworkFixture, boss: Someone, domain: str) -> Any:
    return w.json("POST", DOMAINS, boss, json={"domain": domain})


def today() -> int:
    return time.time_ns() // 1_000_000_000 // 86_400 * 86_400


def test_sign_up_with_blocked_email_domain_or_subdomain_is_refused(w: NetworkFixture, boss: Someone) -> None:
    block(w, boss, "Spam.Example")
    for email in ("a@spam.example", "a@SPAM.example", "a@mail.spam.example", "a@a.b.spam.example"):
        answer = sign_up(w, "ann", email)
        assert refused(answer) == ["ERR_BLOCKED"]
        assert answer.json()["error"] == "Validation failed: Email uses a disallowed e-mail provider"
    for number, email in enumerate(("a@other.example", "a@notspam.example", "a@spam.example.org")):
        assert sign_up(w, f"ben{number}", email).status_code == 200


def test_email_domain_block_with_international_name_matches_punycode(w: NetworkFixture, boss: Someone) -> None:
    assert block(w, boss, "bücher.example")["domain"] == "xn--bcher-kva.example"
    assert refused(sign_up(w, "ann", "a@bücher.example")) == ["ERR_BLOCKED"]
    assert refused(sign_up(w, "ann", "a@xn--bcher-kva.example")) == ["ERR_BLOCKED"]


def test_email_domain_block_deletion_allows_sign_up_again(w: NetworkFixture, boss: Someone) -> None:
    made = block(w, boss, "spam.example")
    assert refused(sign_up(w, "ann", "a@spam.example")) == ["ERR_BLOCKED"]
    assert w.json("DELETE", f"{DOMAINS}/{made['id']}", boss) == {}
    assert w.json("GET", DOMAINS, boss) == []
    assert w.ask("GET", f"{DOMAINS}/{made['id']}", boss).status_code == 404
    assert w.ask("DELETE", f"{DOMAINS}/{made['id']}", boss).status_code == 404
    assert sign_up(w, "ann", "a@spam.example").status_code == 200
    assert block(w, boss, "spam.example")["id"] != made["id"]


def test_email_domain_block_history_counts_refused_sign_ups_per_day(w: NetworkFixture, boss: Someone) -> None:
    outer, inner = block(w, boss, "example"), block(w, boss, "spam.example")
    assert [day["day"] for day in outer["history"]] == [str(today() - 86_400 * ago) for ago in range(7)]
    assert {(day["uses"], day["accounts"]) for day in outer["history"]} == {("0", "0")}
    before = today()
    for name in ("ann", "ben", "cara"):
        sign_up(w, name, f"{name}@spam.example")
    assert today() == before, "the day changed during the test"
    assert (w.json("GET", f"{DOMAINS}/{inner['id']}", boss)["history"][0]) == {
        "day": str(before),
        "uses": "3",
        "accounts": "1",
    }
    # All three sign-ups were counted by the block of the most specific domain.
    assert w.json("GET", f"{DOMAINS}/{outer['id']}", boss)["history"][0]["uses"] == "0"


@pytest.mark.parametrize("domain", ["", " ", "no spaces", "a@b", "https://spam.example", "a..b", "-a.b", "x" * 300])
def test_email_domain_block_with_invalid_domain_is_refused(w: NetworkFixture, boss: Someone, domain: str) -> None:
    before = w.state()
    answer = w.ask("POST", DOMAINS, boss, json={"domain": domain})
    assert answer.status_code == 422
    assert "domain" in answer.json()["details"]
    assert w.state() == before


def test_email_domain_block_of_blocked_domain_is_refused(w: NetworkFixture, boss: Someone) -> None:
    block(w, boss, "spam.example")
    answer = w.ask("POST", DOMAINS, boss, json={"domain": "SPAM.example."})
    assert (answer.status_code, answer.json()["error"]) == (422, "Validation failed: Domain has already been taken")


def test_email_domain_blocks_are_paginated_newest_first(w: NetworkFixture, boss: Someone) -> None:
    made = [block(w, boss, f"d{number}.example")["id"] for number in range(5)][::-1]
    first = w.ask("GET", f"{DOMAINS}?limit=2", boss)
    assert [one["id"] for one in first.json()] == made[:2]
    assert 'rel="next"' in first.headers["link"]
    rest = w.ask("GET", f"{DOMAINS}?limit=3&max_id={made[1]}", boss)
    assert [one["id"] for one in rest.json()] == made[2:]
    assert 'rel="next"' not in rest.headers["link"]
    assert [one["id"] for one in w.json("GET", f"{DOMAINS}?limit=2&min_id={made[3]}", boss)] == made[1:3]
    assert [one["id"] for one in w.json("GET", f"{DOMAINS}?since_id={made[1]}", boss)] == made[:1]


def test_sign_up_with_blocked_email_in_any_spelling_is_refused(w: NetworkFixture, boss: Someone) -> None:
    made = w.json("POST", ADDRESSES, boss, json={"email": "Some.Body+news@Example.org"})
    digest = hashlib.sha256(b"somebody@example.org").hexdigest()
    assert made == {"id": made["id"], "canonical_email_hash": digest}
    for email in (
        "somebody@example.org",
        "S.o.m.e.Body@EXAMPLE.org",
        "somebody+x@example.org",
        "\uff53omebody\uff20example.org",
    ):
        # The error is that of a taken address, so that the response does not reveal the block.
        assert refused(sign_up(w, "ann", email)) == ["ERR_TAKEN"]
        assert w.json("POST", f"{ADDRESSES}/test", boss, json={"email": email}) == [made]
    assert w.json("POST", f"{ADDRESSES}/test", boss, json={"email": "body@example.org"}) == []
    assert sign_up(w, "ben", "body@example.org").status_code == 200
    assert w.json("GET", f"{ADDRESSES}/{made['id']}", boss) == made
    assert w.json("GET", ADDRESSES, boss) == [made]
    assert w.json("DELETE", f"{ADDRESSES}/{made['id']}", boss) == {}
    assert w.ask("DELETE", f"{ADDRESSES}/{made['id']}", boss).status_code == 404
    assert sign_up(w, "ann", "somebody@example.org").status_code == 200


def test_canonical_email_block_by_hash_blocks_address(w: NetworkFixture, boss: Someone) -> None:
    digest = hashlib.sha256(b"somebody@example.org").hexdigest()
    w.json("POST", ADDRESSES, boss, json={"canonical_email_hash": digest.upper()})
    assert refused(sign_up(w, "ann", "some.body@example.org")) == ["ERR_TAKEN"]
    again = w.ask("POST", ADDRESSES, boss, json={"email": "somebody@example.org"})
    assert again.json()["error"] == "Validation failed: Canonical email hash has already been taken"


@pytest.mark.parametrize("given", [{}, {"email": "nobody"}, {"canonical_email_hash": "abc"}, {"email": "x" * 3_000}])
def test_canonical_email_block_with_invalid_email_or_hash_is_refused(
    w: NetworkFixture, boss: Someone, given: dict[str, str]
) -> None:
    before = w.state()
    assert w.ask("POST", ADDRESSES, boss, json=given).status_code == 422
    if "canonical_email_hash" not in given:
        assert w.ask("POST", f"{ADDRESSES}/test", boss, json=given).status_code == 422
    assert w.state() == before


def test_sign_up_with_blocked_domain_does_not_reveal_whether_address_is_registered(
    w: NetworkFixture, boss: Someone
) -> None:
    assert sign_up(w, "ann", "ann@spam.example").status_code == 200
    block(w, boss, "spam.example")
    for email in ("ann@spam.example", "nobody@spam.example"):
        answer = sign_up(w, "ben", email)
        assert refused(answer) == ["ERR_BLOCKED"]
        assert answer.json()["error"] == "Validation failed: Email uses a disallowed e-mail provider"


def test_email_domain_block_does_not_affect_existing_member(w: NetworkFixture, boss: Someone) -> None:
    token = sign_up(w, "ann", "ann@spam.example").json()["access_token"]
    block(w, boss, "spam.example")
    assert w.json("GET", "/api/v1/accounts/verify_credentials", token)["username"] == "ann"

"""Limits on wrong passwords per account and per network, and logins of owners from known networks."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from shoal.commands import authentication, credentials, members, oauth
from shoal.core.credentials import Login
from shoal.core.errors import Unavailable
from tests.api.in_memory_network import BASE, NetworkFixture, network_fixture
from tests.api.oauth_browser import CALLBACK, PASSWORD, Visitor, register, text_of
from tests.api.oauth_browser import Client as Registered
from tests.async_runner import eventually

PLACES = authentication.AT_ONCE + authentication.WAITING
HOME, CAFE = "192.0.2.7", "198.51.100.9"


class Guesser:
    """An app that uses the password grant from any address."""

    def __init__(self, shoal: NetworkFixture) -> None:
        self.shoal = shoal
        made = shoal.run(
            oauth.register(shoal.network.writes, "Tide", redirect_uris=(CALLBACK,), scopes=("read", "write"))
        )
        self._keys = {"client_id": str(made.app.id), "client_secret": made.secret, "scope": "read write"}

    async def send(self, name: str, password: str, address: str) -> httpx.Response:
        """Return the response to a login attempt."""
        transport = httpx.ASGITransport(self.shoal.app, client=(address, 1234))
        form = {"grant_type": "password", "username": name, "password": password, **self._keys}
        async with httpx.AsyncClient(transport=transport, base_url=BASE, trust_env=False) as client:
            return await client.post("/oauth/token", data=form)

    def ask(self, name: str, password: str, address: str = CAFE) -> httpx.Response:
        """Send a login attempt and return the response."""
        return self.shoal.run(self.send(name, password, address))

    def statuses(self, name: str, password: str, addresses: list[str]) -> list[int]:
        """Send an attempt from each address in sequence and return the statuses."""
        return [self.ask(name, password, address).status_code for address in addresses]


def addresses(count: int, network: str = "203.0.{}.1") -> list[str]:
    """Return addresses in different networks."""
    return [network.format(number) for number in range(count)]


@pytest.fixture
def guarded() -> Iterator[Guesser]:
    """Limits of three wrong passwords per account and five per network in a day; the login form is not limited."""
    limits = {"login": "off", "account_guesses": "3/24h", "network_guesses": "5/24h"}
    with network_fixture(rate_limits=True, limits=limits) as made:
        yield Guesser(made)


def test_login_wrong_password_limit_per_account_counts_all_addresses(guarded: Guesser) -> None:
    register(guarded.shoal, "ann")
    register(guarded.shoal, "ben")
    assert guarded.statuses("ann", "wrong", addresses(5)) == [400, 400, 400, 429, 429]
    # The correct password is refused too, in any spelling of the name; otherwise an attacker would learn that it is correct.
    assert guarded.statuses("Ann", PASSWORD, [HOME]) == [429]
    assert guarded.statuses("ben", PASSWORD, [HOME]) == [200]


@pytest.mark.parametrize(
    "spelling",
    [
        "\u200bann",
        "ann\u00a0",
        "\ufeff @ann\u2060",
        "\uff20ann",
        "ann@{domain}",
        "@Ann@{domain}",
        "ann\uff20{domain}\u200b",
    ],
)
def test_login_accepts_user_name_with_domain_or_invisible_characters_and_counts_failures_together(
    guarded: Guesser, spelling: str
) -> None:
    register(guarded.shoal, "ann")
    typed = spelling.format(domain=guarded.shoal.network.writes.domain)
    assert guarded.ask(typed, PASSWORD, HOME).status_code == 200
    assert guarded.statuses("ann", "wrong", addresses(3)) == [400] * 3
    assert guarded.statuses(typed, "wrong", addresses(1)) == [429]


@pytest.mark.parametrize("typed", ["a\u200bnn", "ann@other.example", "@ann@other.example", "ann@", "@", "\u200b"])
def test_login_with_name_of_another_server_or_malformed_name_is_refused(guarded: Guesser, typed: str) -> None:
    register(guarded.shoal, "ann")
    assert guarded.ask(typed, PASSWORD, HOME).status_code == 400


def test_login_with_email_address_on_server_domain_is_not_taken_as_user_name(guarded: Guesser) -> None:
    shoal = guarded.shoal
    register(shoal, "ann")
    address = f"ann@{shoal.network.writes.domain}"
    shoal.run(members.register(shoal.network.writes, "ben", email=address, password="another password"))
    assert guarded.statuses(address, "another password", [HOME]) == [200]
    assert guarded.statuses(address, PASSWORD, [HOME]) == [400]


def test_login_wrong_password_limit_applies_to_unknown_username(guarded: Guesser) -> None:
    answers = [guarded.ask("nobody", "wrong", address) for address in addresses(4)]
    assert [answer.status_code for answer in answers] == [400, 400, 400, 429]
    assert 0 < int(answers[3].headers["retry-after"]) <= 86_400


def test_login_wrong_password_limit_per_address_range_counts_all_accounts(guarded: Guesser) -> None:
    names = [f"member{number}" for number in range(6)]
    for network in ("198.51.100.{}", "2001:db8:1:2::{}"):
        one = [guarded.ask(name, "wrong", network.format(at + 1)).status_code for at, name in enumerate(names)]
        assert one == [400] * 5 + [429], network
        names = [f"other{number}" for number in range(6)]
    assert guarded.ask("member0", "wrong", "198.51.101.1").status_code == 400, "another /24"
    assert guarded.ask("member0", "wrong", "2001:db8:1:3::1").status_code == 400, "another /64"


def test_login_with_correct_password_does_not_count_towards_limit(guarded: Guesser) -> None:
    register(guarded.shoal, "ann")
    assert guarded.statuses("ann", PASSWORD, [CAFE] * 7) == [200] * 7
    assert guarded.statuses("ann", "wrong", addresses(4)) == [400, 400, 400, 429]


def test_login_wrong_password_limit_holds_for_concurrent_attempts(guarded: Guesser) -> None:
    register(guarded.shoal, "ann")

    async def all_at_once() -> list[int]:
        answers = await asyncio.gather(*(guarded.send("ann", "wrong", address) for address in addresses(12)))
        return sorted(answer.status_code for answer in answers)

    assert guarded.shoal.run(all_at_once()) == [400] * 3 + [429] * 9


def test_login_lockout_keeps_sessions_and_accepts_password_from_address_range_of_earlier_login(
    guarded: Guesser,
) -> None:
    register(guarded.shoal, "ann")
    token = guarded.ask("ann", PASSWORD, HOME).json()["access_token"]
    assert guarded.statuses("ann", "wrong", addresses(4)) == [400, 400, 400, 429]
    assert guarded.shoal.ask("GET", "/api/v1/accounts/verify_credentials", token).status_code == 200
    assert guarded.statuses("ann", PASSWORD, [CAFE, "192.0.2.200"]) == [429, 200], (
        "an unknown address, then the /24 of an earlier login"
    )
    # Wrong passwords from the address range of an earlier login have a separate counter.
    assert guarded.statuses("ann", "wrong", [HOME] * 4) == [400, 400, 400, 429]


def test_login_stores_address_ranges_of_last_eight_logins_as_hashes_until_password_change(
    guarded: Guesser,
) -> None:
    id_ = register(guarded.shoal, "ann")

    def login() -> Login:
        found = guarded.shoal.run(guarded.shoal.network.store.obj_get((id_,)))[id_]
        node = guarded.shoal.run(guarded.shoal.network.store.obj_get((found.login_id,)))[found.login_id]  # type: ignore[union-attr]
        assert isinstance(node, Login)
        return node

    assert guarded.statuses("ann", PASSWORD, [HOME, *addresses(9), HOME, HOME]) == [200] * 12
    known = login().networks
    assert len(known) == len(set(known)) == 8
    assert all(len(mark) == 8 for mark in known)
    guarded.shoal.run(credentials.set_password(guarded.shoal.network.writes, id_, "another password"))
    assert login().networks == ()


def test_login_wrong_password_limit_includes_authorize_page_and_password_change(guarded: Guesser) -> None:
    shoal = guarded.shoal
    id_ = register(shoal, "ann")
    client = Registered(shoal)
    token = shoal.token(client.app.id, id_)
    visitor = Visitor(shoal)
    visitor.open(client.query())
    assert visitor.press("login", username="ann", password="wrong").status_code == 422
    change = {"current_password": "wrong", "new_password": "a new password"}
    assert shoal.ask("PUT", "/api/shoal/v1/password", token, json=change).status_code == 422
    assert guarded.ask("ann", "wrong").status_code == 400
    page = visitor.press("login", username="ann", password=PASSWORD)
    assert (page.status_code, "Too many wrong passwords" in text_of(page)) == (429, True)
    assert 0 < int(page.headers["retry-after"]) <= 86_400
    assert shoal.ask("PUT", "/api/shoal/v1/password", token, json=change).status_code == 429


def test_login_failures_are_logged_with_name_and_address_without_password(
    guarded: Guesser, caplog: pytest.LogCaptureFixture
) -> None:
    register(guarded.shoal, "ann")
    with caplog.at_level(logging.WARNING, "shoal.logins"):
        guarded.statuses("ann", PASSWORD, [HOME])
        guarded.statuses("ann", "a secret guess", [CAFE])
        guarded.statuses("forged\nline" + "x" * 500, "a secret guess", ["2001:db8::1"])
    told = [record.getMessage() for record in caplog.records if record.name == "shoal.logins"]
    assert told == [
        f"login failed: reason='wrong password' name='ann' address={CAFE}",
        f"login failed: reason='wrong password' name='forged\\nline{'x' * 53}' address=2001:db8::/64",
    ]


def test_password_hashing_overload_returns_503_while_other_requests_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    go, lock = threading.Event(), threading.Lock()
    hashing, most = 0, 0
    verify = authentication._verify

    def watched(password: str, stored: str) -> bool:
        nonlocal hashing, most
        with lock:
            hashing += 1
            most = max(most, hashing)
        assert go.wait(60)
        try:
            return verify(password, stored)
        finally:
            with lock:
                hashing -= 1

    monkeypatch.setattr("shoal.commands.authentication._verify", watched)
    # Fewer request slots than password checks: requests that wait for hashing hold no slot.
    with network_fixture(
        rate_limits=True,
        limits=dict.fromkeys(("login", "token"), "1000/24h"),
        requests_at_work=4,
        requests_waiting=1_000,
    ) as shoal:
        guesser = Guesser(shoal)
        ann = shoal.join("ann")

        async def flood() -> tuple[list[httpx.Response], httpx.Response]:
            sent = [asyncio.create_task(guesser.send(f"name{n}", "wrong", f"203.0.{n}.1")) for n in range(200)]
            await eventually(lambda: _done(sent), 200 - PLACES, 60.0)
            transport = httpx.ASGITransport(shoal.app)
            async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
                other = await client.get("/api/v1/timelines/home", headers={"Authorization": f"Bearer {ann.token}"})
            go.set()
            return await asyncio.gather(*sent), other

        answers, other = shoal.run(flood())
    assert other.status_code == 200
    assert Counter(answer.status_code for answer in answers) == {400: PLACES, 503: 200 - PLACES}
    assert most == authentication.AT_ONCE
    refused = [answer for answer in answers if answer.status_code == 503]
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    # Requests refused with 503 count towards the rate limit.
    assert {answer.headers["x-ratelimit-remaining"] for answer in refused} == {"999"}


async def _done(tasks: list[asyncio.Task[httpx.Response]]) -> int:
    return sum(task.done() for task in tasks)


def test_password_hashing_slots_are_limited_and_released() -> None:
    held = [authentication.hashing_slot() for _ in range(PLACES)]
    for one in held:
        one.__enter__()
    try:
        with pytest.raises(Unavailable), authentication.hashing_slot():
            raise AssertionError("a hashing slot was free")
    finally:
        for one in held:
            one.__exit__(None, None, None)
    with authentication.hashing_slot():
        pass

"""Passkeys over HTTP: added, used alone and as a second factor, for the web app and for apps; and refused responses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from shoal.commands import members, moderation
from shoal.core.model import Role
from shoal.server import build
from tests.api.in_memory_network import BASE, STAFF_SCOPES, NetworkFixture, network_fixture
from tests.api.oauth_browser import Client
from tests.api.oauth_browser import Visitor as AppVisitor
from tests.engines.authenticator_app import code_of
from tests.engines.smtp import post_office
from tests.engines.virtual_authenticator import SoftDevice
from tests.web.browser import PASSWORD, Page, Visitor, member, visitor

PATH, SECOND, QUESTION = "/settings/passkeys", "/settings/second_factor", "/login/passkey"


@pytest.fixture
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        member(made, "ann")
        yield made


def question(browser: Visitor, kind: str) -> Any:
    """Return the challenge that the script of a page requests."""
    page = browser.open(f"{QUESTION}?kind={kind}")
    assert (page.status, page.answer.headers["Cache-Control"]) == (200, "no-store"), page.answer.text
    return json.loads(page.answer.text)


def visitor_from(here: NetworkFixture, address: str) -> Visitor:
    """Return a browser at an IP address."""
    made = visitor(here)
    transport = httpx.ASGITransport(here.app, client=(address, 1))
    made._client = httpx.AsyncClient(
        transport=transport, base_url=BASE, follow_redirects=True, headers=made._client.headers
    )
    return made


def send(browser: Visitor, page: str, path: str, /, **fields: str) -> Page:
    """Send a form of a page with fields filled by a script."""
    return browser.post(path, [("form_token", browser.open(page).form_token), *fields.items()])


def added(ann: Visitor, device: SoftDevice | None = None, **fields: str) -> SoftDevice:
    """Add a passkey of a device."""
    held = device or SoftDevice(BASE)
    answer = held.make(question(ann, "add"))
    done = send(ann, PATH, PATH, **{"name": "Phone", "answer": answer, "current_password": PASSWORD, **fields})
    assert (done.status, done.path) == (200, f"{PATH}?saved=1"), done.text
    return held


def by_passkey(browser: Visitor, device: SoftDevice, to: str = "", **cheat: Any) -> Page:
    """Log in with only a passkey."""
    answer = device.answer(question(browser, "login"), **cheat)
    return send(browser, "/login", "/login/passkey", answer=answer, to=to)


def guarded(ann: Visitor, device: SoftDevice) -> list[str]:
    """Require a passkey as the second factor, and return the recovery codes."""
    answer = device.answer(question(ann, "confirm"))
    done = send(ann, SECOND, f"{SECOND}/passkey", answer=answer, own_password=PASSWORD)
    codes = [one.text for one in done.html.select(".recovery-codes code")]
    assert (done.status, len(codes)) == (200, 10), done.text
    return codes


def test_passkey_is_added_renamed_used_and_removed(here: NetworkFixture) -> None:
    ann = visitor(here, "ann")
    device = added(ann)
    page = ann.open(PATH)
    assert ("Phone" in page.text, "never used" in page.text) == (True, True)
    stranger = visitor(here)
    inside = by_passkey(stranger, device, "/settings/email")
    assert (inside.status, inside.path) == (200, "/settings/email")
    page = ann.open(PATH)
    assert "last used:" in page.text
    one = page.follow("Edit")
    page = send(ann, one.path, one.path, name="My old phone")
    assert "My old phone" in page.text
    wrong = page.follow("Edit").press("Remove", current_password="not it")
    assert (wrong.status, "Incorrect password." in wrong.text) == (422, True)
    gone = wrong.press("Remove", current_password=PASSWORD)
    assert (gone.path, "My old phone" in gone.text) == (f"{PATH}?saved=1", False)
    refused = by_passkey(visitor(here), device)
    assert (refused.status, "does not match an account" in refused.text) == (422, True)
    assert ann.open(one.path).status == 404
    assert stranger.open("/settings").status == 200, "existing logins remain valid"


def test_passkey_logins_from_two_browsers_succeed_in_any_order(here: NetworkFixture) -> None:
    device = added(visitor(here, "ann"))
    first, second = visitor(here), visitor(here)
    answers = [device.answer(question(one, "login")) for one in (first, second)]
    # The later challenge is answered first.
    for browser, answer in ((second, answers[1]), (first, answers[0])):
        assert send(browser, "/login", "/login/passkey", answer=answer).path == "/"


def test_passkey_response_replayed_or_from_wrong_origin_is_refused(here: NetworkFixture) -> None:
    device = added(visitor(here, "ann"))
    answer = device.answer(question(visitor(here), "login"))
    assert send(visitor(here), "/login", "/login/passkey", answer=answer).path == "/"
    again = send(visitor(here), "/login", "/login/passkey", answer=answer)
    assert (again.status, visitor(here).open("/settings").path.startswith("/login")) == (422, True)
    for cheat in ({"origin": "http://elsewhere.test"}, {"verified": False}, {"challenge": b"x" * 40}):
        refused = by_passkey(visitor(here), device, **cheat)
        assert (refused.status, "does not match an account" in refused.text) == (422, True)
    for text in ("", "{}", "[]", "null", '{"id": 1}', "x" * 9_000):
        assert send(visitor(here), "/login", "/login/passkey", answer=text).status in {400, 422}
    # A forged form.
    assert visitor(here).post("/login/passkey", [("form_token", "0" * 128), ("answer", answer)]).status == 403


def test_passkey_challenge_reveals_no_account(here: NetworkFixture) -> None:
    added(visitor(here, "ann"))
    stranger = visitor(here)
    plain = question(stranger, "login")
    for query in ("&username=ann", "&username=nobody", "&name=ann&to=/"):
        asked = json.loads(stranger.open(f"{QUESTION}?kind=login{query}").answer.text)
        assert {**asked, "challenge": ""} == {**plain, "challenge": ""}
    assert plain.keys() == {"challenge", "rpId", "userVerification"}
    assert (plain["rpId"], plain["userVerification"]) == ("shoal.test", "required")
    assert stranger.open(f"{QUESTION}?kind=second").status == 404
    for kind in ("confirm", "add"):
        assert stranger.open(f"{QUESTION}?kind={kind}").path.startswith("/login?to=")
    unknown = by_passkey(stranger, added(visitor(here, "ann")), handle=(7).to_bytes(8))
    known = by_passkey(stranger, SoftDevice(BASE, held=added(visitor(here, "ann")).held), signature=b"x")
    assert (unknown.status, unknown.text) == (known.status, known.text)


def test_passkey_as_second_factor_is_required_after_password(here: NetworkFixture) -> None:
    ann = visitor(here, "ann")
    device = added(ann)
    assert visitor(here).open("/login").press("Log in", username="ann", password=PASSWORD).path == "/"
    codes = guarded(ann, device)
    assert "requires a passkey" in ann.open(SECOND).text
    other = visitor(here)
    asked = other.open("/settings/email").press("Log in", username="ann", password=PASSWORD)
    assert (asked.path.split("?")[0], "Use a passkey of @ann" in asked.text) == ("/login/code", True)
    assert other.open("/settings/email").path.startswith("/login"), "the password alone does not log in"
    step = question(other, "second")
    assert len(step["allowCredentials"]) == 1
    assert step["userVerification"] == "preferred"
    refused = send(other, "/login/code", "/login/code", code=device.answer(step, origin="http://elsewhere.test"))
    assert (refused.status, "does not belong to this account" in refused.text) == (422, True)
    answer = device.answer(question(other, "second"), verified=False)
    assert send(other, "/login/code", "/login/code", code=answer, to="/settings/email").path == "/settings/email"
    third = visitor(here)
    third.open("/login").press("Log in", username="ann", password=PASSWORD)
    assert send(third, "/login/code", "/login/code", code=answer).status == 422, "it was used"
    assert third.open("/login/code").press("Log in", code=codes[0]).path == "/"
    # The passkey alone still logs in, without a code.
    assert by_passkey(visitor(here), device).path == "/"
    # Turning it off requires the password and a passkey.
    page = ann.open(PATH).follow("Edit")
    stays = page.press("Remove", current_password=PASSWORD, code=codes[1])
    assert (stays.status, "is your second factor" in stays.text) == (403, True)
    off = send(ann, SECOND, f"{SECOND}/off", code=device.answer(question(ann, "confirm")), current_password=PASSWORD)
    assert off.path == f"{SECOND}?saved=1"
    assert visitor(here).open("/login").press("Log in", username="ann", password=PASSWORD).path == "/"


def test_second_factor_accepts_authenticator_app_or_passkey(here: NetworkFixture) -> None:
    ann = visitor(here, "ann")
    page = ann.open(SECOND)
    key = page.one("code.key").text.replace(" ", "")
    page.press("Turn on", code=code_of(key, -1), current_password=PASSWORD)
    refused = send(ann, PATH, PATH, answer=SoftDevice(BASE).make(question(ann, "add")), current_password=PASSWORD)
    assert (refused.status, "Incorrect code or passkey" in refused.text) == (422, True)
    device = added(ann, code=code_of(key))
    browser = visitor(here)
    asked = browser.open("/login").press("Log in", username="ann", password=PASSWORD)
    assert "Use a passkey or enter the code" in asked.text
    done = send(browser, "/login/code", "/login/code", code=device.answer(question(browser, "second")))
    assert done.path == "/"
    made = send(ann, SECOND, f"{SECOND}/codes", renewal_code=device.answer(question(ann, "confirm")))
    assert len(made.html.select(".recovery-codes code")) == 10


def test_oauth_authorization_accepts_passkey_alone_or_as_second_factor(here: NetworkFixture) -> None:
    ann = visitor(here, "ann")
    device, app = added(ann), Client(here)
    query = app.query(state="s" * 3_900)

    def asked(browser: AppVisitor, kind: str) -> Any:
        return here.run(browser.web.get(QUESTION, params={"kind": kind})).json()

    alone = AppVisitor(here)
    alone.open(query)
    wrong = alone.press("passkey", second=device.answer(asked(alone, "login"), origin="http://elsewhere.test"))
    assert (wrong.status_code, "does not match an account" in wrong.text) == (422, True)
    alone.press("passkey", second=device.answer(asked(alone, "login")))
    alone.follow()
    assert re.search(r"[?&]code=([^&]+)", alone.press("allow").headers["location"])
    guarded(ann, device)
    besides = AppVisitor(here)
    besides.open(query)
    besides.press("login", username="ann", password=PASSWORD)
    assert "Use a passkey of @ann" in besides.follow().text
    assert besides.press("allow").status_code == 403, "the login is not complete yet"
    besides.open(query)
    assert besides.press("code", second=device.answer(asked(besides, "second"), present=False)).status_code == 422
    besides.press("code", second=device.answer(asked(besides, "second")))
    besides.follow()
    sent = re.search(r"[?&]code=([^&]+)", besides.press("allow").headers["location"])
    assert sent is not None
    assert app.exchange(sent[1]).status_code == 200


def test_passkey_login_of_suspended_member_shows_same_error_as_their_password_login(here: NetworkFixture) -> None:
    ann = here.run(members.find(here.network.writes, "ann"))
    assert ann is not None
    device = added(visitor(here, "ann"))
    here.run(moderation.suspend(here.network.writes, ann.id))
    by_word = visitor(here).open("/login").press("Log in", username="ann", password=PASSWORD)
    refused = by_passkey(visitor(here), device)
    assert (refused.status, refused.text) == (by_word.status, by_word.text.replace('value="ann"', ""))
    assert "currently disabled" in refused.text


def test_passkey_failures_are_rate_limited_without_blocking_password_login() -> None:
    limits = {"login": "off", "account_guesses": "3/24h", "network_guesses": "100/24h"}
    with network_fixture(rate_limits=True, limits=limits) as busy:
        member(busy, "ann")
        device = added(visitor(busy, "ann"))
        answers = [by_passkey(visitor(busy), device, signature=b"x") for _ in range(4)]
        assert [one.status for one in answers] == [422, 422, 422, 429]
        # Until the end of the UTC day.
        assert 0 < int(answers[-1].answer.headers["Retry-After"]) <= 86_400
        assert visitor(busy).open("/login").press("Log in", username="ann", password=PASSWORD).path == "/"
        assert by_passkey(visitor(busy), device).status == 429, "the failures came from this address"
        # Other addresses have separate limits.
        assert by_passkey(visitor_from(busy, "192.0.2.7"), device).path == "/"


def test_passkey_satisfies_staff_second_factor_requirement() -> None:
    with network_fixture(staff_second_factor=True) as strict:
        ann = member(strict, "ann")
        strict.run(moderation.set_role(strict.network.writes, ann.id, Role.ADMIN))
        browser = visitor(strict, "ann")
        device = added(browser)
        # Having a passkey is not enough: the password alone would still log in.
        assert browser.open("/moderation").path == f"{SECOND}?needed=1"
        guarded(browser, device)
        assert browser.open("/moderation").path == "/moderation"
        token = strict.token(Client(strict).app.id, ann.id, STAFF_SCOPES)
        assert strict.ask("GET", "/api/v1/admin/reports", token).status_code == 200
        assert "can't turn this off" in browser.open(SECOND).text
        other = visitor(strict)
        by_passkey(other, device)
        assert other.open("/moderation").path == "/moderation"


def test_passkey_login_from_new_network_sends_mail() -> None:
    with post_office() as office, network_fixture(mail=office.url) as here:
        member(here, "ann")
        device = added(visitor(here, "ann"))
        here.settle()
        office.take()

        def from_(address: str) -> list[str]:
            assert by_passkey(visitor_from(here, address), device).path == "/"
            here.settle()
            return [mail.subject for mail in office.take()]

        # The address range from which the passkey was added is remembered, so no mail is sent.
        assert from_("127.0.0.9") == []
        assert from_("192.0.2.7") == ["New login to @ann"]
        assert from_("192.0.2.9") == [], "this network is known"
        assert from_("198.51.100.7") == ["New login to @ann"]
        assert from_("198.51.100.7") == []


def test_password_reset_keeps_passkeys_and_second_factor() -> None:
    with post_office() as office, network_fixture(mail=office.url) as here:
        member(here, "ann")
        ann = visitor(here, "ann")
        device = added(ann)
        guarded(ann, device)
        here.settle()
        assert {mail.subject for mail in office.take()} == {
            "New passkey for @ann",
            "Two-factor authentication is on for @ann",
        }
        visitor(here).open("/forgotten").press("Send e-mail", username="ann")
        here.settle()
        (mail,) = office.take()
        browser = visitor(here)
        asked = browser.open(mail.path).press("Set password", password="high tide at noon")
        assert asked.path.startswith("/login/code")
        done = send(browser, "/login/code", "/login/code", code=device.answer(question(browser, "second")))
        assert done.path == "/"
        assert by_passkey(visitor(here), device).path == "/"


def test_passkey_registration_for_shared_demo_account_is_refused(here: NetworkFixture) -> None:
    ann = here.run(members.find(here.network.writes, "ann"))
    assert ann is not None
    here.app = build(replace(here.app_parts, demo_member=ann.id))
    browser = visitor(here, "ann")
    answer = SoftDevice(BASE).make(question(browser, "add"))
    refused = send(browser, PATH, PATH, answer=answer, current_password=PASSWORD)
    assert (refused.status, "disabled for the shared demo account" in refused.text) == (403, True)

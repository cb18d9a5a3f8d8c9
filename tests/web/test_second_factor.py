"""The second factor in the browser: enabled with an authenticator app, required at login, and mandatory for staff if configured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from shoal.commands import account_deletions, members, moderation, second_factor, sessions
from shoal.core.model import Role
from shoal.server import build
from tests.api.in_memory_network import STAFF_SCOPES, NetworkFixture, network_fixture
from tests.api.oauth_browser import Client
from tests.api.oauth_browser import Visitor as AppVisitor
from tests.engines.authenticator_app import code_of
from tests.engines.smtp import post_office
from tests.web.browser import PASSWORD, Page, Visitor, member, visitor

PATH = "/settings/second_factor"


@pytest.fixture
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        member(made, "ann")
        yield made


def key_on(page: Page) -> str:
    """Return the key that the page shows."""
    return page.one("code.key").text.replace(" ", "")


def turned_on(ann: Visitor) -> tuple[str, list[str]]:
    """Enable the second factor, and return the key and the recovery codes. The code of the previous time step is used."""
    page = ann.open(PATH)
    key = key_on(page)
    done = page.press("Turn on", code=code_of(key, -1), current_password=PASSWORD)
    assert (done.status, done.answer.headers["Cache-Control"]) == (200, "no-store"), done.text
    return key, [one.text for one in done.html.select(".recovery-codes code")]


def test_second_factor_is_enabled_and_required_at_login(here: NetworkFixture) -> None:
    ann = visitor(here, "ann")
    page = ann.open(PATH)
    key = key_on(page)
    assert (page.answer.headers["Cache-Control"], page.one(".qr-code svg") is not None) == ("no-store", True)
    wrong = page.press("Turn on", code="000000", current_password=PASSWORD)
    assert (wrong.status, "Incorrect code" in wrong.text, key_on(wrong)) == (422, True, key)
    wrong = page.press("Turn on", code=code_of(key, -1), current_password="not it")
    assert (wrong.status, "Incorrect password." in wrong.text, key_on(wrong)) == (422, True, key)
    done = wrong.press("Turn on", code=code_of(key, -1), current_password=PASSWORD)
    codes = [one.text for one in done.html.select(".recovery-codes code")]
    assert len(codes) == 10
    on = done.follow("I saved them")
    assert "10 recovery codes are left." in on.text
    assert not any(code in on.answer.text for code in codes)
    # Another browser needs both, and then returns to the requested page.
    other = visitor(here)
    asked = other.open("/settings/email").press("Log in", username="ann", password=PASSWORD)
    assert (asked.path.split("?")[0], "@ann" in asked.text) == ("/login/code", True)
    assert asked.answer.headers["Cache-Control"] == "no-store"
    half = other.cookie("shoal_login")
    for path in ("/api/v1/accounts/verify_credentials", "/api/v1/streaming/user", "/oauth/userinfo"):
        assert here.ask("GET", path, half).status_code == 401
    assert other.open("/live").status in {401, 404}
    assert other.open("/settings/email").path.startswith("/login"), "the password alone does not log in"
    refused = asked.press("Log in", code="000000")
    assert (refused.status, "Incorrect code" in refused.text) == (422, True)
    inside = refused.press("Log in", code=code_of(key))
    assert (inside.status, inside.path) == (200, "/settings/email")
    assert other.open("/login/code").path == "/", "logged-in members are redirected"


def test_recovery_code_logs_in_and_new_codes_replace_old_codes(here: NetworkFixture) -> None:
    ann = visitor(here, "ann")
    _, codes = turned_on(ann)
    asked = visitor(here).open("/login").press("Log in", username="ann", password=PASSWORD)
    assert asked.press("Log in", code=codes[0]).path == "/"
    page = ann.open(PATH)
    assert "9 recovery codes are left." in page.text
    wrong = page.press("Create new codes", renewal_code=codes[0])
    assert (wrong.status, "Incorrect code" in wrong.text) == (422, True)
    fresh = [
        one.text for one in page.press("Create new codes", renewal_code=codes[1]).html.select(".recovery-codes code")
    ]
    assert len(set(fresh) - set(codes)) == 10
    off = ann.open(PATH).press("Turn off", code=codes[2], current_password=PASSWORD)
    assert off.status == 422
    off = ann.open(PATH).press("Turn off", code=fresh[0], current_password=PASSWORD)
    assert (off.path, "Saved." in off.text) == (f"{PATH}?saved=1", True)
    assert visitor(here).open("/login").press("Log in", username="ann", password=PASSWORD).path == "/"


def test_second_factor_is_required_after_password_reset_and_deletion_cancellation() -> None:
    with post_office() as office, network_fixture(mail=office.url) as here:
        member(here, "ann")
        ann = visitor(here, "ann")
        _, codes = turned_on(ann)
        here.settle()
        office.take()
        visitor(here).open("/forgotten").press("Send e-mail", username="ann")
        here.settle()
        (mail,) = office.take()
        asked = visitor(here).open(mail.path).press("Set password", password="high tide at noon")
        assert asked.path.startswith("/login/code")
        assert asked.press("Log in", code=codes[0]).path == "/"
        found = here.run(members.find(here.network.writes, "ann"))
        assert found is not None
        here.run(account_deletions.leave(here.network.writes, found.id, "high tide at noon"))
        back = visitor(here).open("/comeback").press("Keep my account", username="ann", password="high tide at noon")
        assert back.path.startswith("/login/code"), back.text


def test_login_code_page_requires_password_first(here: NetworkFixture) -> None:
    turned_on(visitor(here, "ann"))
    member(here, "ben")
    stranger = visitor(here)
    assert stranger.open("/login/code?to=/saved").path == "/login?to=%2Fsaved"
    asked = stranger.open("/login").press("Log in", username="ann", password=PASSWORD)
    again = asked.follow("Start over").press("Log in", username="ann", password=PASSWORD)
    assert again.path.startswith("/login/code")
    _, codes = turned_on(visitor(here, "ben"))
    stranger.open("/login").press("Log in", username="ben", password=PASSWORD)
    assert stranger.open("/login/code?to=//elsewhere.example").press("Log in", code=codes[0]).path == "/"


def test_oauth_authorization_requires_second_factor_code(here: NetworkFixture) -> None:
    key, codes = turned_on(visitor(here, "ann"))
    app, browser = Client(here), AppVisitor(here)
    query = app.query(state="s" * 3_900)
    browser.open(query)
    browser.press("login", username="ann", password=PASSWORD)
    page = browser.follow()
    assert "authenticator app" in page.text
    assert browser.press("allow").status_code == 403, "the login is not complete yet"
    browser.open(query)
    assert browser.press("code", second="000000").status_code == 422
    browser.press("code", second=code_of(key))
    assert "One more step" not in browser.follow().text
    sent = browser.press("allow")
    found = re.search(r"[?&]code=([^&]+)", sent.headers["location"])
    assert found is not None
    assert app.exchange(found[1]).status_code == 200
    # The authorization page keeps an incomplete login, which can be restarted.
    second = AppVisitor(here)
    second.open(query)
    second.press("login", username="ann", password=PASSWORD)
    second.follow()
    second.press("switch")
    assert 'name="password"' in second.follow().text
    assert second.press("code", second=codes[0]).status_code == 403


def test_oauth_password_grant_with_second_factor_is_refused(here: NetworkFixture) -> None:
    turned_on(visitor(here, "ann"))
    app = Client(here)
    form = {"grant_type": "password", "username": "ann", "password": PASSWORD, **app.keys}
    answer = here.ask("POST", "/oauth/token", data=form)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    assert "second factor" in answer.json()["error_description"]


def test_second_factor_codes_are_rate_limited() -> None:
    with network_fixture(
        rate_limits=True, limits={"login": "off", "account_guesses": "3/24h", "code_guesses": "2/24h"}
    ) as busy:
        ann = member(busy, "ann")
        browser = visitor(busy, "ann")
        _, codes = turned_on(browser)
        for _ in range(3):
            # Attempts with unknown user names are counted by name.
            visitor(busy).open("/login").press("Log in", username=f"code {ann.id}", password="x")
            visitor(busy).open("/login").press("Log in", username=str(ann.id), password="x")
        page = visitor(busy).open("/login").press("Log in", username="ann", password=PASSWORD)
        answers = [page.press("Log in", code="000000") for _ in range(3)]
        assert [one.status for one in answers] == [422, 422, 429]
        # Until the end of the UTC day.
        assert 0 < int(answers[-1].answer.headers["Retry-After"]) <= 86_400
        assert "Too many wrong passwords" in answers[-1].text
        assert page.press("Log in", code=codes[0]).status == 429
        assert browser.open(PATH).press("Create new codes", renewal_code=codes[0]).status == 429
        assert browser.open(PATH).press("Turn off", code=codes[0], current_password=PASSWORD).status == 429


def test_staff_second_factor_setting_restricts_moderation_without_second_factor() -> None:
    with network_fixture(staff_second_factor=True) as strict:
        ann = member(strict, "ann")
        strict.run(moderation.set_role(strict.network.writes, ann.id, Role.ADMIN))
        browser = visitor(strict, "ann")
        app = Client(strict).app
        token = strict.token(app.id, ann.id, STAFF_SCOPES)
        ben, cyd = strict.join("ben"), strict.join("cyd")
        strict.json("POST", "/api/v1/reports", ben, json={"account_id": cyd.id, "comment": "a secret word"})
        strict.settle()
        assert "secret word" not in strict.ask("GET", "/api/v1/notifications", token).text
        assert "secret word" not in browser.open("/notifications").answer.text
        refused = strict.ask("GET", "/api/v1/admin/reports", token)
        assert (refused.status_code, "second factor" in refused.json()["error"]) == (403, True)
        assert strict.ask("GET", "/api/v1/accounts/verify_credentials", token).status_code == 200
        for path in ("/moderation", "/moderation/rules", "/moderation/bulk", "/ops"):
            sent = browser.open(path)
            assert (sent.path, "need two-factor authentication" in sent.text) == (f"{PATH}?needed=1", True)
        turned_on(browser)
        assert strict.ask("GET", "/api/v1/admin/reports", token).status_code == 401, (
            "the token was issued without a code"
        )
        token = strict.token(app.id, ann.id, STAFF_SCOPES)
        assert strict.ask("GET", "/api/v1/admin/reports", token).status_code == 200
        assert "secret word" in strict.ask("GET", "/api/v1/notifications", token).text
        for path in ("/moderation", "/ops"):
            assert browser.open(path).path == path
        page = browser.open(PATH)
        assert ("can't turn this off" in page.text, page.html.find("button", string="Turn off")) == (True, None)
        strict.run(second_factor.reset(strict.network.writes, ann.id))
        assert browser.open("/moderation").path == f"{PATH}?needed=1"


def test_second_factor_setup_for_shared_demo_account_is_refused(here: NetworkFixture) -> None:
    ann = here.run(members.find(here.network.writes, "ann"))
    assert ann is not None
    here.app = build(replace(here.app_parts, demo_member=ann.id))
    page = visitor(here, "ann").open(PATH)
    refused = page.press("Turn on", code=code_of(key_on(page), -1), current_password=PASSWORD)
    assert (refused.status, "disabled for the shared demo account" in refused.text) == (403, True)


def test_login_with_second_factor_fills_in_the_feed_typed_before(here: NetworkFixture) -> None:
    ann = visitor(here, "ann")
    _, codes = turned_on(ann)
    page = ann.open("/feeds/new")
    here.run(sessions.leave(here.writes, ann.cookie("shoal_login")))
    page = page.press("Create feed", title="Typed", declaration='{"sources": [{"from": "popular"}]}')
    asked = page.press("Log in", username="ann", password=PASSWORD)
    editor = asked.press("Log in", code=codes[0])
    assert (editor.path, editor.one("#title")["value"]) == ("/feeds/new", "Typed")

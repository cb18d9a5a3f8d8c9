"""Password reset, e-mail changes and confirmation in the browser, with the links of mails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.commands import members, moderation
from shoal.core.model import Role
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.api.oauth_browser import Client
from tests.engines.smtp import PostOffice, post_office
from tests.web.browser import PASSWORD, member, visitor

OTHER = "high tide at noon"
ANN, NEW = "ann@example.org", "ann@new.example.org"


@pytest.fixture
def office() -> Iterator[PostOffice]:
    with post_office() as made:
        yield made


@pytest.fixture
def here(office: PostOffice) -> Iterator[NetworkFixture]:
    with network_fixture(mail=office.url) as made:
        member(made, "ann")
        yield made


def test_password_reset_by_mail_works_once_and_ends_sessions(here: NetworkFixture, office: PostOffice) -> None:
    ann = visitor(here, "ann")
    asked = visitor(here).open("/login").follow("Forgot your password?").press("Send e-mail", username="ann")
    assert (asked.status, "If this account exists" in asked.text) == (200, True)
    nobody = visitor(here).open("/forgotten").press("Send e-mail", username="nobody@example.org")
    assert nobody.text == asked.text
    here.settle()
    (mail,) = office.take()
    # Opening the link has no effect; an invalid password shows an error; the link works once.
    owner = visitor(here)
    page = owner.open(mail.path)
    assert (page.status, page.answer.headers["Referrer-Policy"]) == (200, "no-referrer")
    assert "noindex" in page.answer.headers["X-Robots-Tag"]
    short = page.press("Set password", password="short")
    assert (short.status, "8 to 1,024 characters" in short.text) == (422, True)
    late = visitor(here).open(mail.path)
    home = owner.open(mail.path).press("Set password", password=OTHER)
    assert (home.status, home.path) == (200, "/")
    assert ann.open("/settings").path.startswith("/login")
    assert visitor(here).open(mail.path).status == 410
    assert late.press("Set password", password="another one again").status == 410
    assert visitor(here).open("/login").press("Log in", username="ann", password=PASSWORD).status == 422
    assert visitor(here).open("/login").press("Log in", username="ann", password=OTHER).status == 200


def test_password_reset_mail_is_in_page_language(here: NetworkFixture, office: PostOffice) -> None:
    german = visitor(here, language="de")
    german.open("/forgotten").press("E-Mail senden", username="ann")
    here.settle()
    assert office.mails[0].subject == "Ein neues Passwort für @ann"


def test_password_reset_with_empty_name_or_invalid_link_is_refused(here: NetworkFixture) -> None:
    empty = visitor(here).open("/forgotten").press("Send e-mail", username=" ")
    assert (empty.status, "This field is required." in empty.text) == (422, True)
    for path in ("/reset/x", "/confirm/x", "/undo/x"):
        page = visitor(here).open(path)
        assert (page.status, "This link has expired" in page.text) == (410, True)
    assert visitor(here).open(f"/reset/{'x' * 101}").status == 422


def test_password_reset_mails_are_rate_limited_per_account_and_address_range(office: PostOffice) -> None:
    with network_fixture(
        mail=office.url, rate_limits=True, limits={"account_mails": "2/1h", "network_mails": "3/1h"}
    ) as busy:
        member(busy, "ann")
        pages = [visitor(busy).open("/forgotten").press("Send e-mail", username="ann") for _ in range(3)]
        assert [page.status for page in pages] == [200, 200, 429]
        assert 0 < int(pages[-1].answer.headers["Retry-After"]) <= 3_600
        assert visitor(busy).open("/forgotten").press("Send e-mail", username="ben").status == 429
        busy.settle()
        assert len(office.mails) == 2


def test_email_change_beyond_mail_limit_reports_too_many_mails(office: PostOffice) -> None:
    with network_fixture(mail=office.url, rate_limits=True, limits={"account_mails": "1/1h"}) as busy:
        member(busy, "ann")
        page = visitor(busy, "ann").open("/settings/email")
        assert page.press("Change address", email=NEW, password=PASSWORD).status == 200
        refused = page.press("Change address", email=NEW, password=PASSWORD)
        assert (refused.status, "Several e-mails were already sent." in refused.text) == (429, True)
        assert 0 < int(refused.answer.headers["Retry-After"]) <= 3_600
        assert "wrong passwords" not in refused.text
        page.press("Send confirmation e-mail")
        again = page.press("Send confirmation e-mail")
        assert (again.status, "Several e-mails were already sent." in again.text) == (429, True)


def test_password_reset_without_mail_server_names_contact() -> None:
    with network_fixture(contact_email="help@example.org") as made:
        member(made, "ann")
        page = visitor(made).open("/forgotten")
        assert ("does not send e-mail" in page.text, "Write to help@example.org" in page.text) == (True, True)
        assert "to change your address" in visitor(made, "ann").open("/settings/email").text


def test_email_change_requires_confirmation_and_can_be_reverted(here: NetworkFixture, office: PostOffice) -> None:
    ann = visitor(here, "ann")
    page = ann.open("/settings/email")
    assert (ANN in page.text, "Not confirmed yet." in page.text) == (True, True)
    wrong = page.press("Change address", email=NEW, password="not it")
    assert (wrong.status, "Incorrect password." in wrong.text) == (422, True)
    odd = page.press("Change address", email="nowhere", password=PASSWORD)
    assert (odd.status, "Enter a valid e-mail address" in odd.text) == (422, True)
    sent = page.press("Change address", email=NEW, password=PASSWORD)
    assert (sent.status, f"We sent an e-mail to {NEW}" in sent.text) == (200, True)
    here.settle()
    (mail,) = office.take()
    asked = ann.open(mail.path)
    assert asked.one("main h1").text == "Confirm the address"
    assert f"The e-mail address of @ann will be changed to {NEW}." in asked.text
    done = asked.press("Confirm the address")
    assert (done.path, NEW in done.text, "Confirmed." in done.text) == (
        "/settings/email?saved=1",
        True,
        True,
    )
    here.settle()
    (told,) = office.take()
    back = visitor(here).open(told.path).press("Restore the address")
    assert (back.status, "E-mail address restored" in back.text) == (200, True)
    assert ann.open("/settings").path.startswith("/login")
    here.settle()
    assert office.to(ANN).path.startswith("/reset/")
    # A forged link does not show its text.
    assert "We sent an e-mail to" not in visitor(here, "ann").open("/settings/email?sent=call+0800+555").text


def test_email_confirmation_of_current_address_succeeds(here: NetworkFixture, office: PostOffice) -> None:
    visitor(here, "ann").open("/settings/email").press("Send confirmation e-mail")
    here.settle()
    done = visitor(here).open(office.to(ANN).path).press("Confirm the address")
    assert (done.status, "The address is confirmed." in done.text) == (200, True)
    assert "Send confirmation e-mail" not in visitor(here, "ann").open("/settings/email").text


def signed_up(at: NetworkFixture) -> tuple[str, str]:
    """Sign up, and return the path and text of the resulting page."""
    page = visitor(at).open("/signup")
    done = page.press("Sign up", username="ben", email="ben@example.org", password=PASSWORD, agreement="on")
    return done.path, done.text


def test_signup_with_required_confirmation_activates_account_after_mail_link(office: PostOffice) -> None:
    with network_fixture(mail=office.url, email_confirmation="required") as strict:
        path, text = signed_up(strict)
        assert (path, "Check your e-mail." in text) == ("/signup/confirm", True)
        strict.settle()
        (first,) = office.take()
        # A login before the confirmation sends the mail again.
        again = visitor(strict).open("/login").press("Log in", username="ben", password=PASSWORD)
        assert again.path == "/signup/confirm"
        assert visitor(strict).open("/login").press("Log in", username="ben", password="not it").status == 422
        strict.settle()
        (second,) = office.take()
        assert visitor(strict).open("/@ben").status == 404
        assert "is confirmed" in visitor(strict).open(second.path).press("Confirm the address").text
        assert visitor(strict).open("/login").press("Log in", username="ben", password=PASSWORD).path == "/"
        assert visitor(strict).open("/@ben").status == 200
        # The first link still works.
        assert visitor(strict).open(first.path).press("Confirm the address").status == 200


@pytest.mark.parametrize(("wanted", "mails"), [("asked", 1), ("none", 0)])
def test_signup_without_required_confirmation_logs_in_immediately(office: PostOffice, wanted: str, mails: int) -> None:
    with network_fixture(mail=office.url, email_confirmation=wanted) as open_to_all:
        assert signed_up(open_to_all)[0].startswith("/welcome")
        open_to_all.settle()
        assert len(office.mails) == mails


def test_post_emails_confirmations_sends_confirmation_mail_again(office: PostOffice) -> None:
    with network_fixture(mail=office.url) as made:
        client = Client(made)
        form = {
            "username": "ben",
            "email": "ben@example.org",
            "password": PASSWORD,
            "agreement": "true",
            "locale": "de",
        }
        own = made.json(
            "POST", "/oauth/token", data={"grant_type": "client_credentials", "scope": "write", **client.keys}
        )
        token = made.json("POST", "/api/v1/accounts", own["access_token"], data=form)["access_token"]
        assert made.json("POST", "/api/v1/emails/confirmations", token) == {}
        made.settle()
        assert [mail.subject for mail in office.mails] == ["Bitte bestätige deine Adresse"] * 2
        assert visitor(made).open(office.mails[0].path).press("Confirm the address").status == 200
        assert made.ask("POST", "/api/v1/emails/confirmations", token).status_code == 403
        ben = made.run(members.find(made.writes, "ben"))
        assert ben is not None


def test_signup_with_approval_records_reason_and_sends_mail_when_approved(office: PostOffice) -> None:
    with network_fixture(mail=office.url, approval=True, email_confirmation="none") as strict:
        page = visitor(strict).open("/signup")
        asked: dict[str, Any] = {"username": "ben", "email": "ben@example.org", "password": PASSWORD, "agreement": "on"}
        done = page.press("Sign up", **asked, reason="I like boats")
        assert (done.path, "We'll send you an e-mail when you are approved." in done.text) == ("/signup/waiting", True)
        member(strict, "moe")
        moe = strict.run(members.find(strict.writes, "moe"))
        assert moe is not None
        strict.run(moderation.set_role(strict.writes, moe.id, Role.MODERATOR))
        waits = visitor(strict, "moe").open("/moderation/members?state=pending").follow("ben")
        assert "I like boats" in waits.text
        waits.press("Approve")
        strict.settle()
        assert [(mail.to, mail.subject, mail.path) for mail in office.mails] == [
            ("ben@example.org", "Welcome to Shoal", "/login")
        ]


def test_login_after_too_many_wrong_passwords_offers_reset_mail_and_passkey(office: PostOffice) -> None:
    limits = {"login": "off", "account_guesses": "2/10m"}
    with network_fixture(mail=office.url, rate_limits=True, limits=limits) as here:
        member(here, "ann")
        for _ in range(2):
            visitor(here).open("/login").press("Log in", username="ann", password="a guess")
        owner = visitor(here)
        locked = owner.open("/login").press("Log in", username="ann", password=PASSWORD)
        assert (locked.status, 0 < int(locked.answer.headers["Retry-After"]) <= 600) == (429, True)
        assert re.search(r"Too many wrong passwords for this account. Try again in \d+ minutes?\.", locked.text)
        assert "use a passkey" in locked.text
        asked = locked.follow("Reset password").press("Send e-mail", username="ann")
        assert asked.status == 200
        here.settle()
        (mail,) = office.take()
        home = owner.open(mail.path).press("Set password", password=OTHER)
        assert (home.status, home.path) == (200, "/")
        owner.post("/logout", [("form_token", home.form_token)])
        assert owner.open("/login").press("Log in", username="ann", password=OTHER).path == "/"


def test_login_after_too_many_wrong_passwords_without_mail_server_names_contact() -> None:
    limits = {"login": "off", "account_guesses": "2/10m"}
    with network_fixture(rate_limits=True, limits=limits, contact_email="help@example.org") as here:
        member(here, "ann")
        for _ in range(2):
            visitor(here).open("/login").press("Log in", username="ann", password="a guess")
        locked = visitor(here).open("/login").press("Log in", username="ann", password=PASSWORD)
        assert "help@example.org" in locked.text
        assert not locked.links("Reset password")

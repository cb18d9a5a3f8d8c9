"""The sign-up form and its errors, and invitations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from shoal.commands import blocklists, members, moderation
from shoal.core.blocklists import IpSeverity
from shoal.core.model import Role
from tests.api.in_memory_network import BASE, NetworkFixture, network_fixture
from tests.proof_of_work import find_proof
from tests.web.browser import PASSWORD, Page, member, visitor

RULES = ("Be kind.", "Describe your pictures.")


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture(rules=RULES) as made:
        yield made


def joining(here: NetworkFixture, name: str, **fields: Any) -> Page:
    """Fill in the form and press the button."""
    typed: dict[str, Any] = {
        "username": name,
        "email": f"{name}@example.org",
        "password": PASSWORD,
        "agreement": "true",
    }
    return visitor(here).open("/signup").press("Sign up", **(typed | fields))


def wrong(page: Page, name: str) -> str:
    """Return the error message of a field."""
    field = page.html.find(id=name)
    assert field is not None
    assert field["aria-invalid"] == "true"
    told = [page.html.find(id=one) for one in str(field["aria-describedby"]).split()]
    assert all(told), "aria-describedby refers to a missing element"
    return " ".join(one.get_text(" ", strip=True) for one in told if one is not None)


def test_signup_form_logs_in_and_asks_for_interests(here: NetworkFixture) -> None:
    page = visitor(here).open("/").follow("Sign up")
    assert [rule in page.text for rule in RULES] == [True, True]
    page = page.press("Sign up", username="Ann", email="ann@example.org", password=PASSWORD, agreement="true")
    assert page.path == "/welcome/interests"
    assert page.links("Profile")[0]["href"] == "/@ann"


def test_signup_form_shows_all_field_errors_and_keeps_input(here: NetworkFixture) -> None:
    member(here, "ben")
    page = joining(here, "Ben", email="nowhere", password="short", agreement=[])
    assert page.status == 422
    assert "This name is taken" in wrong(page, "username")
    assert "Enter a valid e-mail address" in wrong(page, "email")
    assert "8 to 1,024 characters" in wrong(page, "password")
    assert "agree to the rules" in wrong(page, "agreement")
    assert (page.field("User name")["value"], page.field("E-mail address")["value"]) == ("Ben", "nowhere")
    assert page.field("Password")["value"] == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "This field is required"),
        ("admin", "reserved"),
        ("a b", "letters a to z"),
        ("x" * 31, "up to 30"),
    ],
)
def test_signup_with_invalid_user_name_shows_reason(here: NetworkFixture, name: str, said: str) -> None:
    assert said in wrong(joining(here, name, email="c@example.org"), "username")


def test_signup_with_used_or_blocked_email_address_is_refused(here: NetworkFixture) -> None:
    here.run(members.register(here.writes, "dee", password=PASSWORD, email="dee@example.org"))
    assert "This address is already in use" in wrong(joining(here, "dee2", email="dee@example.org"), "email")
    here.run(blocklists.block_domain(here.writes, "spam.example"))
    assert "provider" in wrong(joining(here, "dee3", email="dee@spam.example"), "email")


def test_signup_with_filled_honeypot_field_is_refused(here: NetworkFixture) -> None:
    page = joining(here, "eve", homepage="https://spam.example")
    assert (page.status, "This looks like an automated submission" in page.text) == (422, True)
    assert here.run(members.find(here.writes, "eve")) is None


def test_signup_without_form_token_is_refused(here: NetworkFixture) -> None:
    answer = visitor(here).post("/signup", [("username", "fay"), ("password", PASSWORD), ("agreement", "true")])
    assert answer.status == 403
    assert here.run(members.find(here.writes, "fay")) is None


def test_signup_page_redirects_logged_in_member(here: NetworkFixture) -> None:
    member(here, "gus")
    assert visitor(here, "gus").open("/signup").path == "/"


def test_signup_page_with_closed_registrations_shows_contact() -> None:
    with network_fixture(registrations=False, contact_email="crew@example.org") as shut:
        page = visitor(shut).open("/signup")
        assert "Sign-ups are closed" in page.text
        assert page.links("Look around")
        assert page.links("crew@example.org")
        assert not page.html.find(id="password")


def test_signup_attempts_are_rate_limited_by_ip_address() -> None:
    with network_fixture(rate_limits=True, limits={"signup": "2/30m"}) as busy:
        browser = visitor(busy)
        for _ in range(2):
            assert browser.open("/signup").press("Sign up", username="hal").status == 422
        page = browser.open("/signup").press("Sign up", username="hal")
        assert (page.status, "Please wait" in page.text) == (429, True)


def test_signup_from_ip_range_requiring_approval_is_pending() -> None:
    with network_fixture() as guarded:
        guarded.run(blocklists.block_ip(guarded.writes, "127.0.0.0/8", IpSeverity.SIGN_UP_REQUIRES_APPROVAL))
        page = visitor(guarded).open("/signup")
        sent = page.press(
            "Sign up", username="ivy", email="i@example.org", password=PASSWORD, agreement="true", reason="I draw fish."
        )
        assert (sent.path, "Your sign-up is being reviewed" in sent.text) == ("/signup/waiting", True)
        waiting = guarded.run(members.find(guarded.writes, "ivy"))
        assert waiting is not None
        assert waiting.pending
        assert (
            "pending approval"
            in visitor(guarded).open("/login").press("Log in", username="ivy", password=PASSWORD).text
        )


def made(here: NetworkFixture, page: Page, **chosen: Any) -> str:
    """Create an invitation with the form, and return the path of the displayed link."""
    page = page.press("Create link", **chosen)
    assert (page.status, "Saved." in page.text) == (200, True)
    return str(page.one("ul.sessions input.input")["value"]).removeprefix(BASE)


def test_invitation_link_allows_signup_with_closed_registrations() -> None:
    with network_fixture(invitations="members", registrations=False, approval=True) as private:
        member(private, "ann", display_name="Ann of the sea")
        ann = visitor(private, "ann")
        settings = ann.open("/settings").follow("Invitations")
        assert "No invitations yet." in settings.text
        link = made(private, settings, max_uses="2", expires_in="86400", follow="true")
        assert "Ask a member for a link" in visitor(private).open("/signup").text

        form = visitor(private).open(link)
        assert "Ann of the sea invites you." in form.text
        assert "You will follow this person." in form.text
        assert (form.answer.headers["x-robots-tag"], form.answer.headers["referrer-policy"]) == (
            "noindex",
            "no-referrer",
        )
        assert not form.html.find(id="reason"), "invited people do not need approval"
        again = form.press("Sign up", username="Ann", email="b@example.org", password=PASSWORD, agreement="true")
        assert "This name is taken" in wrong(again, "username")
        assert "Ann of the sea invites you." in again.text
        done = again.press("Sign up", username="ben", password=PASSWORD)
        assert done.path == "/welcome/interests"
        private.settle()
        assert [one["href"] for one in visitor(private, "ben").open("/@ann/followers").links("@ben")] == ["/@ben"]
        page = ann.open("/settings/invitations")
        assert "1 of 2 people have joined" in page.text
        assert "new members follow you" in page.text
        assert visitor(private, "ben").open(link).path == "/"


def test_invitation_link_used_up_closed_or_unknown_returns_410() -> None:
    with network_fixture(invitations="members") as open_to_all:
        member(open_to_all, "ann")
        ann = visitor(open_to_all, "ann")
        link = made(open_to_all, ann.open("/settings/invitations"))
        stale = visitor(open_to_all).open(link)
        visitor(open_to_all).open(link).press(
            "Sign up", username="ben", email="b@example.org", password=PASSWORD, agreement="true"
        )
        late = stale.press("Sign up", username="cyd", email="c@example.org", password=PASSWORD, agreement="true")
        assert (late.status, "This invitation is used up." in late.text) == (410, True)
        assert late.follow("Sign up").path == "/signup"
        page = ann.open("/settings/invitations")
        assert ("closed" in page.text, page.html.select("ul.sessions input.input")) == (True, [])
        other = made(open_to_all, page)
        assert "No invitations yet." in ann.open("/settings/invitations").press("Delete").press("Revoke").text
        for gone in (other, "/invite/nonsense"):
            told = visitor(open_to_all).open(gone)
            assert (told.status, "There is no such invitation." in told.text) == (410, True)
        german = visitor(open_to_all, language="de").open("/invite/nonsense")
        assert "Diese Einladung gibt es nicht." in german.text


def test_invitation_form_with_unlimited_uses_by_member_is_refused() -> None:
    with network_fixture(invitations="members") as small:
        member(small, "ann")
        page = visitor(small, "ann").open("/settings/invitations").press("Create link", max_uses="0")
        assert (page.status, "Only moderators and admins can create invitations with unlimited uses." in page.text) == (
            422,
            True,
        )


def test_invitation_settings_without_permission_are_hidden(here: NetworkFixture) -> None:
    member(here, "joe")
    page = visitor(here, "joe").open("/settings")
    assert not page.links("Invitations")
    assert "You can't invite people on this server." in visitor(here, "joe").open("/settings/invitations").text


def test_moderation_member_page_shows_inviter_and_closes_invitations() -> None:
    with network_fixture(invitations="members") as watched:
        ann = member(watched, "ann")
        member(watched, "max")
        watched.run(moderation.set_role(watched.writes, member(watched, "eva").id, Role.MODERATOR))
        link = made(watched, visitor(watched, "ann").open("/settings/invitations"), max_uses="5")
        visitor(watched).open(link).press(
            "Sign up", username="ben", email="ben2@example.org", password=PASSWORD, agreement="true"
        )
        watched.settle()
        ben = watched.run(members.find(watched.writes, "ben"))
        assert ben is not None
        page = visitor(watched, "eva").open(f"/moderation/members/{ben.id}")
        assert "Invited by" in page.text
        hers = page.follow("ann")
        assert (hers.path, "Invitations of this member" in hers.text) == (f"/moderation/members/{ann.id}", True)
        assert hers.html.select("ul.sessions input.input") == []
        ended = hers.press("Revoke")
        assert (ended.path, "Invitations of this member" in ended.text) == (f"/moderation/members/{ann.id}", False)
        assert visitor(watched).open(link).status == 410


def test_signup_with_proof_of_work_accepts_proof_or_waits_for_approval() -> None:
    with network_fixture(signup_work=6) as strict:
        page = visitor(strict).open("/signup")
        form = page.html.find("form", attrs={"data-behavior": "work"})
        assert form is not None
        assert (form["data-bits"], form["data-domain"]) == ("6", httpx.URL(BASE).netloc.decode())
        waits = joining(strict, "ann", reason="I like boats")
        assert waits.path == "/signup/waiting"
        proof = find_proof(str(form["data-domain"]), "ben", 6, int(str(form["data-since"])))
        assert joining(strict, "ben", proof=proof).path == "/welcome/interests"


def test_signup_with_wrong_proof_of_work_shows_error_and_keeps_input() -> None:
    with network_fixture(signup_work=20) as strict:
        page = joining(strict, "ann", proof="1:1")
        assert page.status == 422
        assert "The check of your device expired" in page.text
        field = page.html.find(id="username")
        assert field is not None
        assert field["value"] == "ann"

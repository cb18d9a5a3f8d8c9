"""Login with OpenID Connect providers: sign-up, log-in, linking, confirmation, and a server without passwords."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import httpx
import pyotp
import pytest

from shoal.commands import blocklists, credentials, external_ids, invitations, members, moderation, second_factor
from shoal.core.audit import AuditEntry, AuditVerb
from shoal.core.credentials import new_key
from shoal.core.external_ids import ExternalId
from shoal.core.model import Member, Role
from shoal.server import build
from tests.api.in_memory_network import BASE, NetworkFixture, network_fixture
from tests.async_runner import eventually
from tests.audit.log_reader import entries
from tests.engines.smtp import PostOffice, post_office
from tests.fake_oidc_provider import ISSUER, FakeProvider, fake_provider
from tests.web.browser import PASSWORD, Page, Visitor, member, visitor
from tests.web.test_passkeys import added, by_passkey, guarded, question, send

BUTTON = "Continue with Example"
ANN_ID = ExternalId(ISSUER, "77")


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with fake_provider() as made:
        yield made


@contextmanager
def network(provider: FakeProvider, **settings: Any) -> Iterator[NetworkFixture]:
    other = {**provider.settings, "issuer": "https://other.example", "title": "Other"}
    given = {"oidc_providers": {"example": provider.settings, "other": other}, **settings}
    with network_fixture(**given) as made:
        yield made


@pytest.fixture
def here(provider: FakeProvider) -> Iterator[NetworkFixture]:
    with network(provider) as made:
        yield made


@pytest.fixture
def closed(provider: FakeProvider) -> Iterator[NetworkFixture]:
    """A network without passwords."""
    with network(provider, password_login=False) as made:
        yield made


def through(provider: FakeProvider, who: Visitor, page: Page, button: str = BUTTON, **changes: str) -> Page:
    """Press a button of a provider, log in there, and return to the server."""
    return returned(provider, who, page.press(button), **changes)


def returned(provider: FakeProvider, who: Visitor, left: Page, **changes: str) -> Page:
    """Log in at the provider to which a page leads, and return to the server."""
    assert left.status == 200, left.text
    url = str(left.one("main a.button")["href"])
    assert left.answer.headers["refresh"] == f"0; url={url}"
    return who.open(f"/login/with/example/return?{urlencode({**provider.authorize(url), **changes})}")


def signed_up(here: NetworkFixture, provider: FakeProvider) -> Visitor:
    """Sign up with the provider, as its current user."""
    who = visitor(here)
    form = through(provider, who, who.open("/signup"))
    done = form.press("Sign up")
    assert done.path == "/welcome/interests", done.text
    return who


def named(here: NetworkFixture, name: str) -> Member:
    found = here.run(members.find(here.network.writes, name))
    assert found is not None
    return found


def audited(here: NetworkFixture, verb: AuditVerb) -> list[AuditEntry]:
    return [one.entry for one in here.run(entries(here.network.writes.graph, verb))]


def linked(here: NetworkFixture, name: str = "ann", **more: Any) -> Member:
    """Register a member with a password, linked to the provider's user."""
    made = member(here, name, **more)
    return here.run(external_ids.link(here.network.writes, made.id, ANN_ID))


def test_first_provider_login_offers_free_name_and_creates_member_without_password(
    here: NetworkFixture, provider: FakeProvider
) -> None:
    member(here, "ann")
    who = visitor(here)
    form = through(provider, who, who.open("/login"))
    assert form.path == "/signup/identity"
    assert form.field("User name")["value"] == "ann_2"
    assert "ann@a.example" in form.text
    assert form.html.find("input", type="password") is None
    assert form.press("Sign up").path == "/welcome/interests"
    made = named(here, "ann_2")
    login = here.run(members.login_of(here.network.writes, made))
    assert login is not None
    assert (login.password, login.email, login.confirmed, made.display_name) == ("", "ann@a.example", True, "Ann A.")
    assert here.run(external_ids.of_member(here.network.writes.graph, made.id)) == [ANN_ID]


def test_provider_login_logs_in_the_linked_member_and_returns_to_the_page(
    here: NetworkFixture, provider: FakeProvider
) -> None:
    linked(here)
    who = visitor(here)
    assert through(provider, who, who.open("/login?to=/saved")).path == "/saved"
    (entry,) = audited(here, AuditVerb.LOGIN_SUCCEEDED)
    assert (entry.actor_name, entry.details) == ("ann", {"provider": "example"})


def test_provider_login_of_member_with_second_factor_asks_for_code(
    here: NetworkFixture, provider: FakeProvider
) -> None:
    ann = linked(here)
    code = turn_on(here, ann)
    who = visitor(here)
    page = through(provider, who, who.open("/login?to=/saved"))
    assert page.path == "/login/code?to=%2Fsaved"
    assert who.open("/saved").path.startswith("/login")
    assert audited(here, AuditVerb.LOGIN_SUCCEEDED) == []
    assert page.press("Log in", code=code).path == "/saved"
    assert [entry.details for entry in audited(here, AuditVerb.LOGIN_SUCCEEDED)] == [{"provider": "example"}]


def turn_on(here: NetworkFixture, of: Member) -> str:
    """Turn on the second factor of a member, and return a recovery code."""
    key = new_key()
    return here.run(second_factor.turn_on(here.network.writes, of.id, PASSWORD, key, pyotp.TOTP(key).now()))[0]


@pytest.mark.parametrize("verified", [False, True])
def test_provider_login_never_joins_member_by_address(
    here: NetworkFixture, provider: FakeProvider, verified: bool
) -> None:
    ann = member(here, "ann")
    provider.user |= {"email": "ann@example.org", "email_verified": verified}
    who = visitor(here)
    form = through(provider, who, who.open("/login"))
    assert ("An account with the address ann@example.org exists already" in form.text) is verified
    assert form.press("Sign up", username="ben").status == 200
    assert here.run(external_ids.of_member(here.network.writes.graph, ann.id)) == []
    login = here.run(members.login_of(here.network.writes, named(here, "ben")))
    assert login is not None
    assert login.email == ""


def test_owner_of_existing_account_links_provider_after_login_with_password(
    here: NetworkFixture, provider: FakeProvider
) -> None:
    ann = member(here, "ann")
    provider.user["email"] = "ann@example.org"
    who = visitor(here)
    form = through(provider, who, who.open("/login"))
    login = form.follow("I already have an account")
    page = login.press("Log in", username="ann", password=PASSWORD)
    assert page.path == "/settings/logins"
    assert "confirm that this account is yours" in page.text
    wrong = page.press("Continue", password="wrong")
    assert "Incorrect password." in wrong.text
    assert here.run(external_ids.find(here.network.writes.graph, ANN_ID)) is None
    page = wrong.press("Continue", password=PASSWORD)
    assert "ann@example.org" in page.text
    assert "Saved." in page.press("Link", page.one("form.section")).text
    assert here.run(external_ids.find(here.network.writes.graph, ANN_ID)) == named(here, "ann")
    assert [entry.target_id for entry in audited(here, AuditVerb.EXTERNAL_ID_LINKED)] == [ann.id]
    again = visitor(here)
    assert through(provider, again, again.open("/login?to=/saved")).path == "/saved"
    # The identity is used up.
    assert "Link Example?" not in who.open("/settings/logins").text


def test_member_links_and_unlinks_provider_in_settings(here: NetworkFixture, provider: FakeProvider) -> None:
    ann = member(here, "ann")
    who = visitor(here, "ann")
    page = who.open("/settings/logins").press("Continue", password=PASSWORD)
    assert page.texts("hint").count("Not linked") == 2
    page = through(provider, who, page, "Link")
    assert here.run(external_ids.of_member(here.network.writes.graph, ann.id)) == []
    page = page.press("Link", page.one("form.section"))
    assert here.run(external_ids.of_member(here.network.writes.graph, ann.id)) == [ANN_ID]
    assert "Saved." in page.press("Unlink").text
    assert here.run(external_ids.find(here.network.writes.graph, ANN_ID)) is None
    assert len(audited(here, AuditVerb.EXTERNAL_ID_UNLINKED)) == 1


def test_member_with_second_factor_links_and_unlinks_provider_only_with_code(
    here: NetworkFixture, provider: FakeProvider
) -> None:
    ann = member(here, "ann")
    key = new_key()
    codes = here.run(second_factor.turn_on(here.network.writes, ann.id, PASSWORD, key, pyotp.TOTP(key).now()))
    who = visitor(here)
    page = who.open("/login").press("Log in", username="ann", password=PASSWORD).press("Log in", code=codes[0])
    page = who.open("/settings/logins").press("Continue", password=PASSWORD)
    page = through(provider, who, page, "Link")

    def linked_ids() -> list[ExternalId]:
        return here.run(external_ids.of_member(here.network.writes.graph, ann.id))

    for code in ("", "000000", codes[0]):
        page = page.press("Link", page.one("form.section"), code=code)
        assert (page.status, page.one("#code-wrong").text.strip()) == (422, "Incorrect code or passkey.")
        assert linked_ids() == []
    page = page.press("Link", page.one("form.section"), code=codes[1])
    assert linked_ids() == [ANN_ID]
    page = page.press("Unlink")
    assert (page.status, linked_ids()) == (200, [ANN_ID])
    page = page.press("Unlink", page.one("form.section"), code="000000")
    assert (page.status, page.one("#code-wrong").text.strip()) == (422, "Incorrect code or passkey.")
    assert linked_ids() == [ANN_ID]
    assert "Saved." in page.press("Unlink", page.one("form.section"), code=codes[2]).text
    assert linked_ids() == []


def test_linked_provider_is_mailed_once_however_often_the_form_is_sent(provider: FakeProvider) -> None:
    with post_office() as office, network(provider, mail=office.url) as here:
        member(here, "ann")
        here.settle()
        office.take()
        who = visitor(here, "ann")
        page = through(provider, who, who.open("/settings/logins").press("Continue", password=PASSWORD), "Link")
        identity = who.cookie("shoal_identity")
        for _ in range(2):
            who.set_cookie("shoal_identity", identity)
            page.press("Link", page.one("form.section"))
            here.settle()
        assert [mail.to for mail in office.take()] == ["ann@example.org"]


def test_unlinked_provider_is_mailed(provider: FakeProvider) -> None:
    with post_office() as office, network(provider, mail=office.url) as here:
        linked(here)
        here.settle()
        office.take()
        page = visitor(here, "ann").open("/settings/logins").press("Continue", password=PASSWORD)
        assert "Saved." in page.press("Unlink").text
        here.settle()
        (mail,) = office.take()
        assert (mail.to, mail.subject) == ("ann@example.org", "A login provider of @ann was unlinked")
        assert "the account at Example was unlinked from @ann" in mail.text
        assert mail.path == "/settings/logins"


@pytest.mark.parametrize(
    ("path", "field"), [("/settings/logins", ("do", "link")), ("/settings/logins/unlink", ("provider", "example"))]
)
def test_link_and_unlink_have_the_rate_limit_of_logins(
    provider: FakeProvider, path: str, field: tuple[str, str]
) -> None:
    with network(provider, rate_limits=True, limits={"login": "2/5m"}) as busy:
        member(busy, "ann")
        who = visitor(busy, "ann")
        form = [("form_token", who.open("/settings/logins").form_token), field]
        assert [who.post(path, form).status for _ in range(3)] == [200, 200, 429]


def test_linking_an_account_of_another_member_is_refused(here: NetworkFixture, provider: FakeProvider) -> None:
    linked(here)
    member(here, "ben")
    who = visitor(here, "ben")
    page = who.open("/settings/logins").press("Continue", password=PASSWORD)
    page = through(provider, who, page, "Link")
    assert (page.status, "linked to another member" in page.text) == (403, True)


def test_link_without_confirmation_or_form_token_is_refused(here: NetworkFixture, provider: FakeProvider) -> None:
    ann = member(here, "ann")
    who = visitor(here)
    form = through(provider, who, who.open("/login"))
    login = form.follow("I already have an account").press("Log in", username="ann", password=PASSWORD)
    token = login.form_token
    assert who.post("/settings/logins", [("form_token", "x"), ("do", "link")]).status == 403
    page = who.post("/settings/logins", [("form_token", token), ("do", "link")])
    assert "confirm that this account is yours" in page.text
    assert here.run(external_ids.of_member(here.network.writes.graph, ann.id)) == []


def test_link_and_unlink_for_shared_demo_account_are_refused(here: NetworkFixture) -> None:
    ann = linked(here)
    here.app = build(replace(here.app_parts, demo_member=ann.id))
    who = visitor(here, "ann")
    page = who.open("/settings/logins").press("Continue", password=PASSWORD)
    for form in (("/settings/logins", "do", "link"), ("/settings/logins/unlink", "provider", "example")):
        refused = who.post(form[0], [("form_token", page.form_token), form[1:]])
        assert (refused.status, "disabled for the shared demo account" in refused.text) == (403, True)
    assert here.run(external_ids.of_member(here.network.writes.graph, ann.id)) == [ANN_ID]


def test_unlink_without_confirmation_is_refused(here: NetworkFixture) -> None:
    linked(here)
    who = visitor(here, "ann")
    token = who.open("/settings/logins").form_token
    page = who.post("/settings/logins/unlink", [("form_token", token), ("provider", "example")])
    assert "confirm that this account is yours" in page.text
    assert here.run(external_ids.find(here.network.writes.graph, ANN_ID)) is not None


def test_last_way_to_log_in_cannot_be_unlinked(here: NetworkFixture, provider: FakeProvider) -> None:
    who = signed_up(here, provider)
    page = confirmed(here, provider, who, "/settings/logins")
    page = page.press("Unlink")
    assert "This is your only way to log in." in page.text
    assert here.run(external_ids.find(here.network.writes.graph, ANN_ID)) is not None


def test_last_way_to_log_in_cannot_be_removed_as_passkey(closed: NetworkFixture, provider: FakeProvider) -> None:
    who = signed_up(closed, provider)
    confirmed(closed, provider, who, "/settings/passkeys")
    added(who, current_password="")
    assert "Saved." in who.open("/settings/logins").press("Unlink").text
    refused = who.open("/settings/passkeys").follow("Edit").press("Remove")
    assert (refused.status, "This is your only way to log in." in refused.text) == (403, True)
    added(who, current_password="", name="Key")
    assert "Saved." in who.open("/settings/passkeys").follow("Edit").press("Remove").text


def confirmed(here: NetworkFixture, provider: FakeProvider, who: Visitor, path: str) -> Page:
    """Open a page of the settings, and confirm with the provider."""
    page = who.open(path)
    assert "confirm that this account is yours" in page.text
    page = through(provider, who, page, "Log in again with Example")
    assert provider.asked["prompt"] == "login"
    assert page.path == path
    return page


def test_response_without_request_of_this_browser_is_refused(here: NetworkFixture, provider: FakeProvider) -> None:
    linked(here)
    attacker, victim = visitor(here), visitor(here)
    left = attacker.open("/login").press(BUTTON)
    answer = urlencode(provider.authorize(str(left.one("main a.button")["href"])))
    page = victim.open(f"/login/with/example/return?{answer}")
    assert "This page has expired" in page.text
    assert not [one for one in provider.requests if one[0] == "/token"]
    # Nor with a request of its own, which has another state.
    victim.open("/login").press(BUTTON)
    assert "This page has expired" in victim.open(f"/login/with/example/return?{answer}").text
    assert victim.open("/saved").path.startswith("/login")


def test_response_counts_once_and_for_its_provider_only(here: NetworkFixture, provider: FakeProvider) -> None:
    linked(here)
    who = visitor(here)
    left = who.open("/login").press(BUTTON)
    kept = who.cookie("shoal_oidc")
    answer = urlencode(provider.authorize(str(left.one("main a.button")["href"])))
    assert "This page has expired" in who.open(f"/login/with/other/return?{answer}").text
    assert who.open(f"/login/with/example/return?{answer}").path == "/"
    assert who.open("/saved").status == 200
    assert "This page has expired" in who.open(f"/login/with/example/return?{answer}").text
    copy = visitor(here)
    copy.set_cookie("shoal_oidc", kept)
    assert "This page has expired" in copy.open(f"/login/with/example/return?{answer}").text
    assert len([one for one in provider.requests if one[0] == "/token"]) == 1
    assert "This page has expired" in visitor(here).open(f"/login/with/example/return?{answer}").text


def test_identity_counts_once(here: NetworkFixture, provider: FakeProvider) -> None:
    who = visitor(here)
    form = through(provider, who, who.open("/signup"))
    kept = who.cookie("shoal_identity")
    assert form.press("Sign up").path == "/welcome/interests"
    here.run(external_ids.unlink(here.network.writes, named(here, "ann").id, ANN_ID))
    member(here, "ben")
    other = visitor(here, "ben")
    for sent, path in ((other, "/settings/logins"), (visitor(here), "/signup")):
        sent.set_cookie("shoal_identity", kept)
        assert sent.open("/signup/identity").path == path
    assert "Link Example?" not in other.open("/settings/logins").press("Continue", password=PASSWORD).text


def test_sealed_cookie_of_another_purpose_is_ignored(here: NetworkFixture, provider: FakeProvider) -> None:
    who = visitor(here)
    who.open("/login").press(BUTTON)
    sealed = who.cookie("shoal_oidc")
    assert sealed
    for name in ("shoal_identity", "shoal_owner"):
        who.set_cookie(name, sealed)
    assert who.open("/signup/identity").path == "/signup"
    assert "Enter your password" in who.open("/comeback").text
    who.set_cookie("shoal_oidc", sealed[:-4] + "AAA=")
    assert "This page has expired" in who.open("/login/with/example/return?state=x&code=y").text


def test_start_without_form_token_or_with_unknown_provider_is_refused(here: NetworkFixture) -> None:
    who = visitor(here)
    token = who.open("/login").form_token
    assert who.post("/login/with", [("provider", "example")]).status == 403
    assert who.post("/login/with", [("provider", "nothing"), ("form_token", token)]).status == 404
    assert (
        who.post("/login/with", [("provider", "example"), ("form_token", token), ("purpose", "link")]).path == "/login"
    )


def test_failures_at_the_provider_are_explained(here: NetworkFixture, provider: FakeProvider) -> None:
    who = visitor(here)
    cancelled = through(provider, who, who.open("/login"), code="", error="access_denied")
    assert (cancelled.status, "Logging in with Example failed" in cancelled.text) == (403, True)
    provider.claims["nonce"] = "other"
    assert "Logging in with Example failed" in through(provider, who, who.open("/login")).text
    provider.statuses["/token"] = 500
    page = through(provider, who, who.open("/login"))
    assert (page.status, "Example can't be reached now." in page.text) == (503, True)


def test_unreachable_provider_is_explained_before_leaving(here: NetworkFixture, provider: FakeProvider) -> None:
    provider.down = True
    page = visitor(here).open("/login").press(BUTTON)
    assert (page.status, "Example can't be reached now." in page.text) == (503, True)


def test_address_outside_of_allowed_domains_is_refused_for_linked_members_too(provider: FakeProvider) -> None:
    settings = {**provider.settings, "email_domains": ["b.example"]}
    with network(provider, oidc_providers={"example": settings}) as here:
        linked(here)
        who = visitor(here)
        page = through(provider, who, who.open("/login"))
        assert (page.status, "no verified e-mail address with which you can log in" in page.text) == (403, True)
        provider.user["email"] = "ann@b.example"
        assert through(provider, who, who.open("/login")).path == "/"


def test_provider_sign_up_waits_for_approval(provider: FakeProvider) -> None:
    with network(provider, approval=True) as here:
        who = visitor(here)
        form = through(provider, who, who.open("/signup"))
        assert form.press("Sign up", reason="I like fish").path == "/signup/waiting"
        ann = named(here, "ann")
        login = here.run(members.login_of(here.network.writes, ann))
        assert login is not None
        assert (ann.pending, login.reason) == (True, "I like fish")
        page = through(provider, who, who.open("/login"))
        assert (page.status, "pending approval" in page.text) == (403, True)
        here.run(moderation.approve(here.network.writes, ann.id))
        assert through(provider, who, who.open("/login")).path == "/"


def test_provider_sign_up_requires_agreement_to_rules(provider: FakeProvider) -> None:
    with network(provider, rules=["Be kind."]) as here:
        who = visitor(here)
        form = through(provider, who, who.open("/signup"))
        refused = form.press("Sign up")
        assert "You must agree to the rules" in refused.text
        assert refused.press("Sign up", agreement="true").path == "/welcome/interests"


def test_provider_sign_up_is_refused_while_registrations_are_closed_unless_invited(provider: FakeProvider) -> None:
    with network(provider, registrations=False, invitations="members") as here:
        who = visitor(here)
        page = through(provider, who, who.open("/login"))
        assert "Sign-ups are closed" in page.text
        ben = member(here, "ben")
        made = here.run(invitations.create(here.network.writes, ben.id, uses=1, seconds=3_600, follow=True))
        form = through(provider, who, who.open(f"/invite/{made.code}"))
        assert "invites you" in form.text
        assert form.press("Sign up").path == "/welcome/interests"
        assert named(here, "ann").invited_by == ben.id


def test_provider_sign_up_with_blocked_domain_is_refused(here: NetworkFixture, provider: FakeProvider) -> None:
    here.run(blocklists.block_domain(here.network.writes, "a.example"))
    who = visitor(here)
    page = through(provider, who, who.open("/signup")).press("Sign up")
    assert page.status == 422
    assert "Addresses of this provider are not accepted." in page.text
    assert here.run(members.find(here.network.writes, "ann")) is None


@pytest.mark.parametrize("verified", [True, False])
def test_provider_sign_up_with_blocked_address_that_is_not_stored_is_refused(
    here: NetworkFixture, provider: FakeProvider, verified: bool
) -> None:
    ben = member(here, "ben")
    here.run(moderation.suspend(here.network.writes, ben.id))
    here.run(blocklists.block_address(here.network.writes, "ben@example.org"))
    provider.user |= {"email": "ben@example.org", "email_verified": verified}
    who = visitor(here)
    page = through(provider, who, who.open("/signup")).press("Sign up")
    assert page.status == 422
    assert here.run(members.find(here.network.writes, "ann")) is None
    here.run(blocklists.block_domain(here.network.writes, "a.example"))
    provider.user["email"] = "ann@a.example"
    page = through(provider, who, who.open("/signup")).press("Sign up")
    assert (page.status, "Addresses of this provider are not accepted." in page.text) == (422, True)


def test_provider_sign_up_without_verified_address_confirms_one_if_required(provider: FakeProvider) -> None:
    with post_office() as office, network(provider, mail=office.url, email_confirmation="required") as here:
        provider.user["email_verified"] = False
        who = visitor(here)
        form = through(provider, who, who.open("/signup"))
        refused = form.press("Sign up")
        assert (refused.status, "This field is required." in refused.text) == (422, True)
        assert refused.press("Sign up", email="ann@b.example").path == "/signup/confirm"
        here.settle()
        office.take()
        assert through(provider, who, who.open("/login")).path == "/signup/confirm"
        here.settle()
        done = visitor(here).open(office.to("ann@b.example").path).press("Confirm the address")
        assert "is confirmed" in done.text
        assert through(provider, who, who.open("/login")).path == "/"
        provider.user |= {"sub": "78", "email_verified": True}
        other = visitor(here)
        form = through(provider, other, other.open("/signup"))
        assert form.html.find("input", type="email") is None
        assert form.press("Sign up").path == "/welcome/interests"


def test_provider_sign_up_with_taken_name_can_choose_another(here: NetworkFixture, provider: FakeProvider) -> None:
    member(here, "ben")
    who = visitor(here)
    form = through(provider, who, who.open("/signup"))
    refused = form.press("Sign up", username="ben")
    assert refused.status == 422
    assert refused.press("Sign up", username="cleo").path == "/welcome/interests"
    assert here.run(external_ids.find(here.network.writes.graph, ANN_ID)) == named(here, "cleo")


def test_provider_sign_up_in_two_tabs_creates_one_member(here: NetworkFixture, provider: FakeProvider) -> None:
    who = visitor(here)
    form = through(provider, who, who.open("/signup"))
    other = visitor(here)
    second = through(provider, other, other.open("/signup"))
    assert form.press("Sign up").path == "/welcome/interests"
    assert second.press("Sign up", username="ann_too").path == "/login"
    assert here.run(members.find(here.network.writes, "ann_too")) is None


def test_provider_sign_up_form_after_login_in_another_tab_creates_no_member(
    here: NetworkFixture, provider: FakeProvider
) -> None:
    member(here, "ben")
    who = visitor(here)
    form = through(provider, who, who.open("/signup"))
    who.log_in("ben")
    refused = form.press("Sign up", username="ann_too")
    assert (refused.status, "This page has expired" in refused.text) == (403, True)
    assert here.run(members.find(here.network.writes, "ann_too")) is None


def test_member_without_password_changes_settings_after_login_at_provider(
    here: NetworkFixture, provider: FakeProvider
) -> None:
    who = signed_up(here, provider)
    page = confirmed(here, provider, who, "/settings/password")
    assert not page.html.select("[name=current_password]")
    assert "Saved." in page.press("Set password", new_password=PASSWORD).text
    assert visitor(here).log_in("ann").open("/saved").status == 200


def test_confirmation_with_another_account_is_refused(here: NetworkFixture, provider: FakeProvider) -> None:
    who = signed_up(here, provider)
    ben = member(here, "ben")
    here.run(external_ids.link(here.network.writes, ben.id, ExternalId(ISSUER, "79")))
    for other in ("78", "79"):
        provider.user["sub"] = other
        page = through(provider, who, who.open("/settings/account"), "Log in again with Example")
        assert (page.status, "not the account that is linked to yours" in page.text) == (403, True)
    assert "confirm that this account is yours" in who.open("/settings/account").text


def test_confirmation_without_max_age_at_the_provider_is_refused(here: NetworkFixture, provider: FakeProvider) -> None:
    who = signed_up(here, provider)
    left = who.open("/settings/account").press("Log in again with Example")
    url = str(left.one("main a.button")["href"]).replace("max_age=300", "").replace("prompt=login", "")
    page = who.open(f"/login/with/example/return?{urlencode(provider.authorize(url))}")
    assert (page.status, "Logging in with Example failed" in page.text) == (403, True)
    assert "confirm that this account is yours" in who.open("/settings/account").text


def test_provider_without_reauthentication_is_not_offered_for_confirmation(provider: FakeProvider) -> None:
    settings = {**provider.settings, "reauthentication": False}
    with network(provider, oidc_providers={"example": settings}) as here:
        who = signed_up(here, provider)
        page = who.open("/settings/account")
        assert "Log in again with" not in page.text
        assert "that can confirm it. Ask the administrator." in page.text
        form = [("form_token", page.form_token), ("provider", "example"), ("purpose", "confirm")]
        assert who.post("/login/with", form).status == 404


def test_confirmation_expires_after_five_minutes_and_at_logout(
    here: NetworkFixture, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = signed_up(here, provider)
    page = confirmed(here, provider, who, "/settings/account")
    with monkeypatch.context() as patch:
        now = here.network.writes.new_id.now()
        patch.setattr(type(here.network.writes.new_id), "now", lambda _self: now + 5 * 60_000)
        assert "confirm that this account is yours" in page.press("Delete account", sure="true").text
    assert not named(here, "ann").departure_id
    who.post("/logout", [("form_token", who.open("/settings").form_token)])
    assert not who.cookie("shoal_owner")


def test_member_without_password_deletes_account_and_keeps_it_after_all(
    here: NetworkFixture, provider: FakeProvider
) -> None:
    who = signed_up(here, provider)
    page = confirmed(here, provider, who, "/settings/account")
    assert page.press("Delete account", sure="true").path.startswith("/goodbye/")
    assert named(here, "ann").departure_id
    assert not who.cookie("shoal_owner")
    page = through(provider, who, who.open("/login"))
    assert page.path == "/comeback"
    assert page.html.find("input", type="password") is None
    assert page.press("Keep my account").path == "/"
    assert not named(here, "ann").departure_id
    assert who.open("/saved").status == 200


def stolen(
    here: NetworkFixture, provider: FakeProvider, office: PostOffice, thief: Visitor, password: str = "", code: str = ""
) -> str:
    """Let a thief change the address of ann and link their account at the provider; return the path of the undo link."""
    provider.user["sub"] = "thief"
    page = thief.open("/settings/email")
    page.press("Change address", None, email="thief@example.org", **({"password": password} if password else {}))
    here.settle()
    confirmation = office.to("thief@example.org")
    office.take()
    thief.open(confirmation.path).press("Confirm the address")
    here.settle()
    (told,) = office.take()
    page = thief.open("/settings/logins")
    if "confirm that this account is yours" in page.text:
        page = page.press("Continue", password=password)
    left = send(thief, page.path, "/login/with", provider="example", purpose="link")
    page = returned(provider, thief, left)
    assert "Saved." in page.press("Link", page.one("form.section"), **({"code": code} if code else {})).text
    here.settle()
    linked_mails = office.take()
    assert {mail.subject for mail in linked_mails} == {"New login provider for @ann"}
    assert {mail.to for mail in linked_mails} == {"thief@example.org", told.to}
    provider.user["sub"] = "77"
    return told.path


def test_restoring_the_address_unlinks_the_providers_linked_in_settings(provider: FakeProvider) -> None:
    with post_office() as office, network(provider, mail=office.url) as here:
        ann = linked(here)
        undo = stolen(here, provider, office, visitor(here, "ann"), PASSWORD)
        page = visitor(here).open(undo)
        assert "These login providers stay linked: Example" in page.text
        page.press("Restore the address")
        assert here.run(external_ids.of_member(here.network.writes.graph, ann.id)) == [ANN_ID]
        assert [entry.target_id for entry in audited(here, AuditVerb.EXTERNAL_ID_UNLINKED)] == [ann.id]
        here.settle()
        assert office.to("ann@example.org").path.startswith("/reset/")
        provider.user["sub"] = "thief"
        thief = visitor(here)
        assert through(provider, thief, thief.open("/login")).path == "/signup/identity"
        # The external id is free again.
        ben = member(here, "ben")
        assert here.run(external_ids.link(here.network.writes, ben.id, ExternalId(ISSUER, "thief"))).id == ben.id


@pytest.mark.parametrize("guard", [False, True])
def test_restoring_the_address_without_passwords_mails_a_link_to_log_in_once(
    provider: FakeProvider, guard: bool
) -> None:
    with post_office() as office, network(provider, mail=office.url, password_login=False) as here:
        ann = member(here, "ann")
        here.run(external_ids.link(here.network.writes, ann.id, ANN_ID, own=True))
        thief = visitor(here, "ann")
        confirmed(here, provider, thief, "/settings/logins")
        device = added(thief, current_password="")
        codes = turned_on_without_password(thief) if guard else [""] * 3
        here.settle()
        office.take()
        undo = stolen(here, provider, office, thief, code=codes[2])
        visitor(here).open(undo).press("Restore the address")
        here.settle()
        path = office.to("ann@example.org").path
        assert by_passkey(visitor(here), device).status == 422
        owner = visitor(here)
        page = owner.open(path).press("Log in")
        if guard:
            page = page.press("Log in", code=codes[0])
        assert page.path == "/settings/passkeys"
        assert "confirm that this account is yours" not in page.text
        assert by_passkey(visitor(here), added(owner, current_password="", code=codes[1])).path == "/"
        assert visitor(here).open(path).status == 410
        assert visitor(here).open("/recover/x").status == 410


@pytest.mark.parametrize("confirmed_before", [False, True])
def test_first_reset_for_an_address_removes_passkeys_and_providers_of_the_person_who_signed_up(
    provider: FakeProvider, confirmed_before: bool
) -> None:
    with post_office() as office, network(provider, mail=office.url) as here:
        ann = member(here, "ann", confirmed=confirmed_before)
        device = added(visitor(here, "ann"))
        here.run(external_ids.link(here.network.writes, ann.id, ANN_ID, own=True))
        visitor(here).open("/forgotten").press("Send e-mail", username="ann@example.org")
        here.settle()
        (mail,) = [mail for mail in office.take() if mail.path.startswith("/reset/")]
        assert visitor(here).open(mail.path).press("Set password", password="high tide at noon").path == "/"
        assert (by_passkey(visitor(here), device).path == "/") is confirmed_before
        other = visitor(here)
        assert through(provider, other, other.open("/login")).path == ("/" if confirmed_before else "/signup/identity")
        login = here.run(members.login_of(here.network.writes, ann))
        assert login is not None
        assert login.confirmed


def test_first_reset_for_an_address_unlinks_the_provider_of_a_sign_up_with_it(provider: FakeProvider) -> None:
    with post_office() as office, network(provider, mail=office.url, email_confirmation="required") as here:
        provider.user["email_verified"] = False
        thief = visitor(here)
        form = through(provider, thief, thief.open("/signup"))
        assert form.press("Sign up", email="owner@b.example").path == "/signup/confirm"
        visitor(here).open("/forgotten").press("Send e-mail", username="owner@b.example")
        here.settle()
        paths = {mail.path.split("/")[1]: mail.path for mail in office.take()}
        visitor(here).open(paths["reset"]).press("Set password", password=PASSWORD)
        assert visitor(here).open("/login").press("Log in", username="ann", password=PASSWORD).path == "/signup/confirm"
        here.settle()
        paths = {mail.path.split("/")[1]: mail.path for mail in office.take()}
        visitor(here).open(paths["confirm"]).press("Confirm the address")
        assert visitor(here).open("/login").press("Log in", username="ann", password=PASSWORD).path == "/"
        assert through(provider, thief, thief.open("/login")).path == "/signup/identity"


def turned_on_without_password(who: Visitor) -> list[str]:
    """Turn on two-factor authentication with an authenticator app, and return the recovery codes."""
    page = who.open("/settings/second_factor")
    page = page.press("Turn on", code=pyotp.TOTP(str(page.one("[name=key]")["value"])).now())
    return [one.text for one in page.html.select(".recovery-codes code")]


def test_suspended_member_cannot_log_in_with_provider(here: NetworkFixture, provider: FakeProvider) -> None:
    ann = linked(here)
    here.run(moderation.suspend(here.network.writes, ann.id))
    who = visitor(here)
    page = through(provider, who, who.open("/login"))
    assert (page.status, "currently disabled" in page.text) == (403, True)
    assert len(audited(here, AuditVerb.LOGIN_FAILED)) == 1


def test_logout_ends_session_at_provider_if_set(provider: FakeProvider) -> None:
    provider.metadata["end_session_endpoint"] = f"{ISSUER}/end"
    for end_session in (False, True):
        settings = {**provider.settings, "end_session": end_session}
        with network(provider, oidc_providers={"example": settings}) as here:
            linked(here)
            who = visitor(here)
            through(provider, who, who.open("/login"))
            page = who.post("/logout", [("form_token", who.open("/settings").form_token)])
            link = page.html.select_one(f'a[href^="{ISSUER}/end"]')
            assert (link is not None) is end_session
            if link is not None:
                assert link["href"] == (
                    f"{ISSUER}/end?client_id=shoal&post_logout_redirect_uri=http%3A%2F%2Fshoal.test%2F"
                )
            assert who.open("/saved").path.startswith("/login")


def test_logout_after_login_by_password_leads_to_no_provider(provider: FakeProvider) -> None:
    provider.metadata["end_session_endpoint"] = f"{ISSUER}/end"
    with network(provider, oidc_providers={"example": {**provider.settings, "end_session": True}}) as here:
        linked(here)
        who = visitor(here)
        through(provider, who, who.open("/login"))
        assert who.cookie("shoal_provider") == "example"
        form = [("form_token", who.open("/settings").form_token), ("username", "ann"), ("password", PASSWORD)]
        assert who.post("/login", form).path == "/"
        assert who.post("/logout", [("form_token", who.open("/settings").form_token)]).path == "/"


FORMS = re.compile(r'type="password"|action="[^"]*/(login|forgotten)"')


def test_server_without_passwords_shows_no_password_form(closed: NetworkFixture, provider: FakeProvider) -> None:
    stranger = visitor(closed)
    for path in ("/", "/login", "/signup", "/comeback", "/about", "/explore"):
        page = stranger.open(path)
        assert page.status == 200
        assert not FORMS.search(page.answer.text), path
    for path in ("/forgotten", "/reset/x", "/settings/password"):
        assert stranger.open(path).path.startswith("/login"), path
    who = signed_up(closed, provider)
    sections = ("passkeys", "second_factor", "email", "account", "logins", "sessions", "archive", "")
    for confirm in (False, True):
        for section in sections:
            page = who.open(f"/settings/{section}")
            assert page.status == 200
            assert not FORMS.search(page.answer.text), section
        if not confirm:
            confirmed(closed, provider, who, "/settings/logins")
    assert who.open("/settings/password").path == "/settings/sessions"
    assert not who.open("/settings").links("Password")


def test_server_without_passwords_refuses_passwords_everywhere(closed: NetworkFixture) -> None:
    ann = closed.join("ann")
    closed.run(members.register(closed.network.writes, "ben", password=PASSWORD))
    who = visitor(closed)
    token = who.open("/login").form_token
    page = who.post("/login", [("form_token", token), ("username", "ben"), ("password", PASSWORD)])
    assert (page.status, "does not accept passwords" in page.text) == (403, True)
    assert who.post("/forgotten", [("form_token", token), ("username", "ben")]).path == "/login"
    form = [("form_token", token), ("username", "cleo"), ("email", "c@example.org"), ("password", PASSWORD)]
    who.post("/signup", [*form, ("agreement", "true")])
    assert closed.run(members.find(closed.network.writes, "cleo")) is None
    answer = closed.ask("POST", "/api/shoal/v1/leave", ann, json={"password": PASSWORD})
    assert (answer.status_code, "no password" in answer.text) == (403, True)
    new = {"current_password": PASSWORD, "new_password": PASSWORD}
    assert closed.ask("PUT", "/api/shoal/v1/password", ann, json=new).status_code == 403
    grant = {"grant_type": "password", "username": "ben", "password": PASSWORD}
    assert closed.ask("POST", "/oauth/token", data=grant).json()["error"] == "unsupported_grant_type"
    shown = closed.json("GET", "/api/v2/instance")["registrations"]
    assert (shown["enabled"], shown["url"]) == (False, "http://shoal.test/signup")


def test_member_without_password_adds_email_and_second_factor(closed: NetworkFixture, provider: FakeProvider) -> None:
    who = signed_up(closed, provider)
    page = confirmed(closed, provider, who, "/settings/second_factor")
    key = str(page.one("[name=key]")["value"])
    page = page.press("Turn on", code=pyotp.TOTP(key).now())
    assert named(closed, "ann").second_factor, page.text


def test_member_without_password_confirms_with_passkey_leaves_and_comes_back(
    closed: NetworkFixture, provider: FakeProvider
) -> None:
    who = signed_up(closed, provider)
    confirmed(closed, provider, who, "/settings/passkeys")
    device = added(who, current_password="")
    browser = visitor(closed)
    assert by_passkey(browser, device, "/settings/account").path == "/settings/account"

    def sent(answer: str) -> Page:
        return send(browser, "/settings/account", "/settings/confirm", answer=answer, to="/settings/account")

    assert sent(device.answer(question(browser, "login"))).status == 422
    for kind, verified in (("confirm", True), ("owner", False)):
        refused = sent(device.answer(question(browser, kind), verified=verified))
        assert (refused.status, bool(browser.cookie("shoal_owner"))) == (422, False)
    asked = question(browser, "owner")
    assert asked["userVerification"] == "required"
    answer = device.answer(asked)
    page, again = sent(answer), sent(answer)
    assert "I want to delete my account" in page.text
    assert again.status == 422, "a response of a passkey counts once"
    assert page.press("Delete account", sure="true").path.startswith("/goodbye/")
    back = by_passkey(visitor(closed), device)
    assert back.path == "/comeback"
    assert back.press("Keep my account").path == "/"
    assert not named(closed, "ann").departure_id


def test_confirmation_of_member_with_password_does_not_replace_it(provider: FakeProvider) -> None:
    with post_office() as office, network(provider, mail=office.url) as here:
        ann = member(here, "ann")
        who = visitor(here, "ann")
        device = added(who)
        guarded(who, device)
        answer, to = device.answer(question(who, "owner")), "/settings/logins"
        assert send(who, "/settings", "/settings/confirm", answer=answer, to=to).path == to
        kept = who.cookie("shoal_owner")
        assert kept
        for path, fields in (
            ("/settings/second_factor/off", {"code": device.answer(question(who, "confirm"))}),
            ("/settings/email", {"email": "thief@example.org"}),
            ("/settings/password", {"new_password": "another " + PASSWORD}),
            ("/settings/account", {"sure": "true"}),
        ):
            for password in ({}, {"password": kept}, {"current_password": kept}):
                page = send(who, "/settings", path, **fields, **password)
                assert (page.status, "Incorrect password." in page.text) == (422, True), (path, password)
        after = named(here, "ann")
        assert (after.second_factor, after.generation, after.departure_id) == (True, ann.generation, 0)


def test_confirmation_is_no_password_and_cannot_be_renewed(here: NetworkFixture, provider: FakeProvider) -> None:
    who = signed_up(here, provider)
    confirmed(here, provider, who, "/settings/account")
    kept = who.cookie("shoal_owner")
    page = send(who, "/settings", "/settings/confirm", password=kept, to="/settings")
    assert (page.status, who.cookie("shoal_owner")) == (403, kept)
    app = here.token(here.join("ben").app_id, named(here, "ann").id)
    answer = here.ask("POST", "/api/shoal/v1/leave", app, json={"password": kept})
    assert (answer.status_code, "no password" in answer.text) == (403, True)
    new = {"current_password": kept, "new_password": PASSWORD}
    assert here.ask("PUT", "/api/shoal/v1/password", app, json=new).status_code == 403


def test_confirmation_counts_in_its_session_and_until_the_password_changes(
    here: NetworkFixture, provider: FakeProvider
) -> None:
    who = signed_up(here, provider)
    confirmed(here, provider, who, "/settings/account")
    kept = who.cookie("shoal_owner")
    other = visitor(here, "ann")
    other.set_cookie("shoal_owner", kept)
    assert "confirm that this account is yours" in other.open("/settings/account").text
    assert "confirm that this account is yours" not in who.open("/settings/account").text
    session = who.cookie("shoal_login")
    here.run(credentials.set_password(here.network.writes, named(here, "ann").id, PASSWORD))
    who.set_cookie("shoal_login", session)
    who.set_cookie("shoal_owner", kept)
    assert "Enter your password" in who.open("/comeback").text


def test_authorize_page_offers_providers_and_returns_after_login(
    closed: NetworkFixture, provider: FakeProvider
) -> None:
    signed_up(closed, provider)
    form = {"client_name": "App", "redirect_uris": "https://app.example/back", "scopes": "read"}
    app = closed.json("POST", "/api/v1/apps", json=form)
    query = {
        "response_type": "code",
        "client_id": app["client_id"],
        "redirect_uri": "https://app.example/back",
        "scope": "read",
        "state": "a b&c",
    }
    who = visitor(closed)
    page = who.open(f"/oauth/authorize?{urlencode(query)}")
    assert not FORMS.search(page.answer.text)
    page = through(provider, who, page)
    assert page.path == f"/oauth/authorize?{urlencode(query)}"
    assert "@ann" in page.text


def test_staff_rule_for_second_factor_holds_after_provider_login(provider: FakeProvider) -> None:
    with network(provider, staff_second_factor=True) as here:
        ann = linked(here)
        here.run(moderation.set_role(here.network.writes, ann.id, Role.MODERATOR))
        who = visitor(here)
        through(provider, who, who.open("/login"))
        assert who.open("/moderation").path == "/settings/second_factor?needed=1"


def test_login_requests_are_limited(provider: FakeProvider) -> None:
    with network(provider, rate_limits=True, limits={"oidc": "2/5m"}) as busy:
        who = visitor(busy)
        statuses = [who.open("/login").press(BUTTON).status for _ in range(3)]
        assert statuses == [200, 200, 429]


def test_requests_that_wait_for_provider_hold_no_slot_of_server(provider: FakeProvider) -> None:
    with network(provider, requests_at_work=1) as busy:
        linked(busy)
        who = visitor(busy)
        page = who.open("/login")
        start = [("form_token", page.form_token), ("provider", "example")]
        query = urlencode(provider.authorize(str(page.press(BUTTON).one("main a.button")["href"])))
        cookies = "; ".join(f"{name}={who.cookie(name)}" for name in ("shoal_form", "shoal_oidc"))
        headers = {"Cookie": cookies, "Sec-Fetch-Site": "same-origin"}
        busy.app = build(busy.app_parts)

        async def statuses() -> list[int]:
            client = httpx.AsyncClient(transport=httpx.ASGITransport(busy.app), base_url=BASE, headers=headers)
            provider.hangs, before = asyncio.Event(), len(provider.requests)
            waiting = [
                asyncio.create_task(client.post("/login/with", data=dict(start))),
                asyncio.create_task(client.get(f"/login/with/example/return?{query}")),
            ]
            # Without metadata in the cache, both wait for the same fetch.
            await eventually(provider.count, before + 1)
            async with asyncio.timeout(60):
                other = await client.get("/about")
            provider.hangs.set()
            return [other.status_code, *(answer.status_code for answer in await asyncio.gather(*waiting))]

        assert busy.run(statuses()) == [200, 200, 303]

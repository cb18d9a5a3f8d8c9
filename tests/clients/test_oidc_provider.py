"""Members log in with a real OpenID provider: the npm package oidc-provider."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from urllib.parse import urljoin

import httpx
import pytest

from shoal.commands import external_ids
from shoal.core.external_ids import ExternalId
from shoal.mastodon_api.context import app_context_of
from shoal.server import application
from tests.api.in_memory_network import BASE, NetworkFixture, network_fixture
from tests.clients.oidc_provider import Provider, oidc_provider
from tests.web.browser import Page, Visitor, visitor


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with oidc_provider(tmp_path_factory.mktemp("provider")) as running:
        yield running


@pytest.fixture
def here(provider: Provider) -> Iterator[NetworkFixture]:
    provider.know(a1={"preferred_username": "ann", "name": "Ann A.", "email": "ann@a.example", "email_verified": True})
    with network_fixture(password_login=False, **provider.settings) as made:
        context = app_context_of(made.app_parts)
        made.app = application(context, https=False)
        yield made
        # Close the connections to the provider.
        made.run(context.close())


class Session:
    """A browser's session at the provider. `asked`: whether the provider asked for the login the last time."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.asked = False

    def returned(self, url: str, login: str) -> str:
        """Log in at the provider, and return the URL to which it redirects the browser."""
        answer, self.asked = self._client.get(url), False
        while not answer.is_redirect or not answer.headers["location"].startswith(BASE):
            if answer.is_redirect:
                answer = self._client.get(urljoin(str(answer.url), answer.headers["location"]))
            else:
                assert answer.status_code == 200, answer.text
                self.asked = True
                answer = self._client.post(answer.url, data={"login": login} if login else {})
        return str(answer.headers["location"])


@pytest.fixture
def session(provider: Provider) -> Iterator[Session]:
    with httpx.Client(verify=ssl.create_default_context(cafile=str(provider.certificate))) as client:
        yield Session(client)


def through(
    session: Session, who: Visitor, page: Page, button: str = "Continue with Example", login: str = "a1"
) -> Page:
    left = page.press(button)
    return who.open(session.returned(str(left.one("main a.button")["href"]), login).removeprefix(BASE))


def test_member_signs_up_logs_in_and_confirms_with_real_provider(
    here: NetworkFixture, provider: Provider, session: Session
) -> None:
    who = visitor(here)
    form = through(session, who, who.open("/login"))
    assert form.field("User name")["value"] == "ann"
    assert form.press("Sign up").path == "/welcome/interests"
    found = here.run(external_ids.find(here.network.writes.graph, ExternalId(provider.issuer, "a1")))
    assert found is not None
    assert (found.name, found.display_name) == ("ann", "Ann A.")
    again = visitor(here)
    assert through(session, again, again.open("/login?to=/saved")).path == "/saved"
    asked = [session.asked]
    page = through(session, again, again.open("/settings/account"), "Log in again with Example")
    assert page.path == "/settings/account"
    assert [*asked, session.asked] == [False, True], "only a confirmation requires another login at the provider"
    assert "I want to delete my account" in again.open("/settings/account").text


def test_canceled_login_at_real_provider_is_explained(here: NetworkFixture, session: Session) -> None:
    who = visitor(here)
    page = through(session, who, who.open("/login"), login="")
    assert (page.status, "Logging in with Example failed" in page.text) == (403, True)


def test_response_of_real_provider_counts_once(here: NetworkFixture, session: Session) -> None:
    who = visitor(here)
    left = who.open("/login").press("Continue with Example")
    url = session.returned(str(left.one("main a.button")["href"]), "a1").removeprefix(BASE)
    request = who.cookie("shoal_oidc")
    assert who.open(url).path == "/signup/identity"
    who.set_cookie("shoal_oidc", request)
    assert "This page has expired" in who.open(url).text

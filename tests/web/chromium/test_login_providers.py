"""A member in Chromium signs up, logs in and leaves with a real login provider, on a server without passwords."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.clients.oidc_provider import Provider, oidc_provider
from tests.web.chromium.accessibility import hindrances
from tests.web.chromium.browser_sessions import LiveServer, Screen, live_server, until


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with oidc_provider(tmp_path_factory.mktemp("provider")) as running:
        running.know(
            a1={"preferred_username": "ann", "name": "Ann A.", "email": "ann@a.example", "email_verified": True},
        )
        yield running


@pytest.fixture(scope="module")
def here(provider: Provider) -> Iterator[LiveServer]:
    with live_server(password_login=False, **provider.settings) as made:
        yield made


@contextmanager
def trusting(here: LiveServer, chromium: Browser, width: int = 1_280) -> Iterator[Screen]:
    """A window that accepts the certificate of the provider."""
    context = chromium.new_context(ignore_https_errors=True, viewport={"width": width, "height": 900}, locale="en-GB")
    context.set_default_timeout(60_000)
    try:
        window = Screen(here, context)
        yield window
        assert not window.complaints, window.complaints
    finally:
        context.close()


def at_provider(page: Page) -> None:
    page.get_by_label("User").fill("a1")
    page.get_by_role("button", name="Log in").click()


def test_member_signs_up_logs_out_and_logs_in_with_provider(here: LiveServer, chromium: Browser) -> None:
    with trusting(here, chromium) as window:
        page = window.open("/login")
        expect(page.get_by_label("Password")).to_have_count(0)
        assert hindrances(page) == []
        page.get_by_role("button", name="Continue with Example").click()
        at_provider(page)
        expect(page).to_have_url(f"{here.url}/signup/identity")
        expect(page.get_by_label("User name")).to_have_value("ann")
        assert hindrances(page) == []
        page.get_by_role("main").get_by_role("button", name="Sign up").click()
        expect(page).to_have_url(f"{here.url}/welcome/interests")
        window.context.clear_cookies(name="shoal_login")
        page = window.open("/login?to=/settings/account")
        page.get_by_role("button", name="Continue with Example").click()
        expect(page).to_have_url(f"{here.url}/settings/account")
        expect(page.get_by_text("confirm that this account is yours")).to_be_visible()
        assert hindrances(page) == []
        page.get_by_role("button", name="Log in again with Example").click()
        at_provider(page)
        expect(page).to_have_url(f"{here.url}/settings/account")
        page.get_by_label("I want to delete my account").check()
        page.get_by_role("button", name="Delete account").click()
        until(page, "location.pathname.startsWith('/goodbye/')")

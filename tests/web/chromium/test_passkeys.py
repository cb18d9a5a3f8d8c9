"""Passkeys in Chromium with virtual authenticators: added, used alone and as a second factor, refused and removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from shoal.commands import members, oauth
from tests.web.browser import PASSWORD
from tests.web.chromium.accessibility import hindrances, pale
from tests.web.chromium.browser_sessions import LiveServer, Screen, live_server, screen

PATH = "/settings/passkeys"
_NO_OFFERS = "PublicKeyCredential.isConditionalMediationAvailable = async () => false"


@pytest.fixture(scope="module")
def here() -> Iterator[LiveServer]:
    # Passkeys require a host name instead of an IP address.
    with live_server(host="localhost") as made:
        yield made


class Device:
    """A virtual authenticator of Chromium in one window. `verifies`: it verifies the user."""

    def __init__(self, window: Screen, *, verifies: bool = True) -> None:
        self._session: CDPSession = window.context.new_cdp_session(window.page)
        self._session.send("WebAuthn.enable")
        how = {
            "protocol": "ctap2",
            "transport": "internal" if verifies else "usb",
            "hasResidentKey": verifies,
            "hasUserVerification": verifies,
            "isUserVerified": verifies,
            "automaticPresenceSimulation": True,
        }
        self._id = self._session.send("WebAuthn.addVirtualAuthenticator", {"options": how})["authenticatorId"]

    @property
    def credentials(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._send("getCredentials")["credentials"]
        return found

    def take(self, credential: dict[str, Any]) -> None:
        """Copy a passkey of another device into this one."""
        self._send("addCredential", credential=credential)

    def clear(self) -> None:
        self._send("clearCredentials")

    def _send(self, method: str, **more: Any) -> Any:
        return self._session.send(f"WebAuthn.{method}", {"authenticatorId": self._id, **more})


@contextmanager
def owner(
    here: LiveServer, chromium: Browser, name: str, *, offers: bool = False, verifies: bool = True
) -> Iterator[tuple[Screen, Device]]:
    """A new member with a logged-in browser and a device with a passkey.

    `offers`: fields offer passkeys. A virtual authenticator accepts each offer immediately, before any button is pressed.
    """
    here.join(name)
    with screen(here, chromium) as window:
        if not offers:
            window.context.add_init_script(_NO_OFFERS)
        device = Device(window, verifies=verifies)
        window.log_in(name)
        added(window)
        yield window, device


def added(window: Screen, name: str = "My phone") -> Page:
    """Add a passkey on the settings page."""
    page = window.open(PATH)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    return page


def logged_out(window: Screen) -> None:
    """Delete the login cookie."""
    window.context.clear_cookies()


def pressed(window: Screen, path: str = "/login") -> Page:
    """Press the passkey button on a login page."""
    page = window.open(path)
    page.get_by_role("button", name="Use a passkey").click()
    return page


def test_passkey_is_added_and_logs_in_without_password(here: LiveServer, chromium: Browser) -> None:
    with owner(here, chromium, "ann") as (window, device):
        page = window.page
        expect(page.get_by_text("never used")).to_be_visible()
        assert len(device.credentials) == 1
        assert device.credentials[0]["isResidentCredential"]
        # A device cannot be added twice.
        page.get_by_label("Your password").fill(PASSWORD)
        page.get_by_role("button", name="Add a passkey").click()
        expect(page.get_by_text("Your device did not respond")).to_be_visible()
        page.get_by_role("link", name="Edit My phone").click()
        expect(page.get_by_role("heading", name="My phone")).to_be_visible()
        logged_out(window)
        page = pressed(window, "/login?to=/settings/email")
        page.wait_for_url("**/settings/email")


def test_login_username_field_offers_passkeys(here: LiveServer, chromium: Browser) -> None:
    with owner(here, chromium, "bea", offers=True) as (window, _):
        logged_out(window)
        window.page.goto(f"{here.url}/login?to=/settings/email")
        window.page.wait_for_url("**/settings/email")


def test_passkey_without_user_verification_is_accepted_only_as_second_factor(
    here: LiveServer, chromium: Browser
) -> None:
    with owner(here, chromium, "cat", verifies=False) as (window, _):
        page = window.open("/settings/second_factor")
        page.get_by_label("Your password").first.fill(PASSWORD)
        page.get_by_role("button", name="Turn on two-factor authentication with a passkey").click()
        expect(page.locator(".recovery-codes code")).to_have_count(10)
        logged_out(window)
        page = pressed(window)
        expect(page.get_by_text("Your device did not respond. Try again.")).to_be_visible()
        page.get_by_label("User name or e-mail address").fill("cat")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in", exact=True).click()
        expect(page.get_by_text("Use a passkey of @cat")).to_be_visible()
        page.get_by_role("button", name="Use a passkey").click()
        page.wait_for_url(f"{here.url}/")


def test_copied_passkey_with_outdated_signature_counter_is_refused(here: LiveServer, chromium: Browser) -> None:
    with owner(here, chromium, "dan") as (window, device), screen(here, chromium) as thief:
        thief.context.add_init_script(_NO_OFFERS)
        (copied,) = device.credentials
        logged_out(window)
        pressed(window).wait_for_url(f"{here.url}/")
        assert device.credentials[0]["signCount"] > copied["signCount"]
        theirs = Device(thief)
        theirs.take(copied)
        page = pressed(thief)
        expect(page.get_by_text("does not match an account")).to_be_visible()
        logged_out(window)
        pressed(window).wait_for_url(f"{here.url}/")


def test_removed_passkey_login_is_refused(here: LiveServer, chromium: Browser) -> None:
    with owner(here, chromium, "eva") as (window, device):
        page = window.page
        page.get_by_role("link", name="Edit My phone").click()
        # The previous page also has a password field.
        expect(page.get_by_role("heading", name="My phone")).to_be_visible()
        page.get_by_label("Your password").fill(PASSWORD)
        page.get_by_role("button", name="Remove").click()
        expect(page.get_by_text("Saved.")).to_be_visible()
        assert len(device.credentials) == 1, "the device keeps the removed passkey"
        logged_out(window)
        expect(pressed(window).get_by_text("does not match an account")).to_be_visible()


def test_passkeys_of_two_browsers_both_log_in(here: LiveServer, chromium: Browser) -> None:
    with owner(here, chromium, "fay") as (first, _), screen(here, chromium) as second:
        second.context.add_init_script(_NO_OFFERS)
        Device(second)
        second.log_in("fay")
        page = added(second, "My computer")
        expect(page.get_by_text("My phone").first).to_be_visible()
        for window in (first, second):
            logged_out(window)
            pressed(window).wait_for_url(f"{here.url}/")


def test_oauth_authorization_with_passkey_login_issues_code(here: LiveServer, chromium: Browser) -> None:
    made = here.run(oauth.register(here.network.writes, "Tide", redirect_uris=["urn:ietf:wg:oauth:2.0:oob"]))
    query = (
        f"/oauth/authorize?response_type=code&client_id={made.app.id}&redirect_uri=urn:ietf:wg:oauth:2.0:oob&scope=read"
    )
    with owner(here, chromium, "gil") as (window, _):
        logged_out(window)
        page = pressed(window, query)
        expect(page.get_by_role("button", name="Allow")).to_be_visible()
        page.get_by_role("button", name="Allow").click()
        expect(page.locator("code")).to_be_visible()


def test_passkey_page_on_unsupported_address_shows_message(chromium: Browser) -> None:
    with live_server() as by_address:
        by_address.join("nora")
        with screen(by_address, chromium) as window:
            window.log_in("nora")
            page = window.open(PATH)
            expect(page.get_by_text("This browser can't create passkeys for this address.")).to_be_visible()
            expect(page.get_by_role("button", name="Add a passkey")).to_have_count(0)
            # The login page has other methods and shows no message.
            window.context.clear_cookies()
            page = window.open("/login")
            expect(page.locator("[data-behavior=passkey]").first).to_be_hidden()


def test_passkey_login_without_passkey_on_device_shows_message(here: LiveServer, chromium: Browser) -> None:
    with owner(here, chromium, "hal") as (window, device):
        device.clear()
        logged_out(window)
        page = pressed(window)
        expect(page.get_by_text("Your device did not respond. Try again.")).to_be_visible()
        found = here.run(members.find(here.network.writes, "hal"))
        assert found is not None


@pytest.mark.parametrize("dark", [False, True])
def test_passkey_pages_are_accessible(here: LiveServer, chromium: Browser, dark: bool) -> None:
    with owner(here, chromium, f"ivy{dark:d}") as (window, _):
        pages = [window.page.url]
        window.page.get_by_role("link", name="Edit My phone").click()
        expect(window.page.get_by_role("heading", name="My phone")).to_be_visible()
        pages.append(window.page.url)
        for path in (*(url.removeprefix(here.url) for url in pages), "/settings/second_factor"):
            page = window.open(path)
            assert [*hindrances(page), *pale(page, dark=dark)] == [], path
        logged_out(window)
        page = window.open("/login")
        expect(page.get_by_role("button", name="Use a passkey")).to_be_visible()
        assert [*hindrances(page), *pale(page, dark=dark)] == []

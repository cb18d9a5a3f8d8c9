"""Passkeys in a real browser, with devices that Chromium plays: added, used alone and besides the password, refused and removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from shoal.commands import members, oauth
from tests.web.chromium.accessible import hindrances, pale
from tests.web.chromium.screens import Screen, Stage, screen, stage
from tests.web.visitor import PASSWORD

PATH = "/settings/passkeys"
_NO_OFFERS = "PublicKeyCredential.isConditionalMediationAvailable = async () => false"


@pytest.fixture(scope="module")
def here() -> Iterator[Stage]:
    # A passkey is for the name of a host, and not for an address.
    with stage(host="localhost") as made:
        yield made


class Device:
    """A device with passkeys that Chromium plays in one window. `verifies`: it makes sure that its owner holds it."""

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
        """Put a passkey of another device into this one, as whoever copies it would."""
        self._send("addCredential", credential=credential)

    def clear(self) -> None:
        self._send("clearCredentials")

    def _send(self, method: str, **more: Any) -> Any:
        return self._session.send(f"WebAuthn.{method}", {"authenticatorId": self._id, **more})


@contextmanager
def owner(
    here: Stage, chromium: Browser, name: str, *, offers: bool = False, verifies: bool = True
) -> Iterator[tuple[Screen, Device]]:
    """A member with a browser that they are logged in in, and a device with a passkey.

    `offers`: fields offer passkeys. A device that Chromium plays takes each offer at once, before any button is pressed.
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
    """Add a passkey by the page."""
    page = window.open(PATH)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    return page


def logged_out(window: Screen) -> None:
    """Forget who is logged in."""
    window.context.clear_cookies()


def pressed(window: Screen, path: str = "/login") -> Page:
    """Log in by the button."""
    page = window.open(path)
    page.get_by_role("button", name="Use a passkey").click()
    return page


def test_a_passkey_is_added_and_logs_in_without_a_password(here: Stage, chromium: Browser) -> None:
    with owner(here, chromium, "ann") as (window, device):
        page = window.page
        expect(page.get_by_text("never used")).to_be_visible()
        assert len(device.credentials) == 1
        assert device.credentials[0]["isResidentCredential"]
        # The same device is added once.
        page.get_by_label("Your password").fill(PASSWORD)
        page.get_by_role("button", name="Add a passkey").click()
        expect(page.get_by_text("Your device did not respond")).to_be_visible()
        page.get_by_role("link", name="Edit My phone").click()
        expect(page.get_by_role("heading", name="My phone")).to_be_visible()
        logged_out(window)
        page = pressed(window, "/login?to=/settings/email")
        page.wait_for_url("**/settings/email")


def test_the_field_for_the_name_offers_passkeys(here: Stage, chromium: Browser) -> None:
    with owner(here, chromium, "bea", offers=True) as (window, _):
        logged_out(window)
        window.page.goto(f"{here.url}/login?to=/settings/email")
        window.page.wait_for_url("**/settings/email")


def test_a_passkey_without_a_pin_counts_besides_the_password_alone(here: Stage, chromium: Browser) -> None:
    with owner(here, chromium, "cat", verifies=False) as (window, _):
        page = window.open("/settings/second_factor")
        page.get_by_label("Your password").first.fill(PASSWORD)
        page.get_by_role("button", name="Turn on with a passkey").click()
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


def test_a_copied_passkey_is_refused_once_its_count_stays_behind(here: Stage, chromium: Browser) -> None:
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


def test_a_removed_passkey_opens_nothing_any_more(here: Stage, chromium: Browser) -> None:
    with owner(here, chromium, "eva") as (window, device):
        page = window.page
        page.get_by_role("link", name="Edit My phone").click()
        # The page before it asks for a password, too.
        expect(page.get_by_role("heading", name="My phone")).to_be_visible()
        page.get_by_label("Your password").fill(PASSWORD)
        page.get_by_role("button", name="Remove").click()
        expect(page.get_by_text("Saved.")).to_be_visible()
        assert len(device.credentials) == 1, "the device does not know"
        logged_out(window)
        expect(pressed(window).get_by_text("does not match an account")).to_be_visible()


def test_two_browsers_have_a_passkey_each(here: Stage, chromium: Browser) -> None:
    with owner(here, chromium, "fay") as (first, _), screen(here, chromium) as second:
        second.context.add_init_script(_NO_OFFERS)
        Device(second)
        second.log_in("fay")
        page = added(second, "My computer")
        expect(page.get_by_text("My phone").first).to_be_visible()
        for window in (first, second):
            logged_out(window)
            pressed(window).wait_for_url(f"{here.url}/")


def test_an_app_is_let_in_by_a_passkey(here: Stage, chromium: Browser) -> None:
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


def test_where_no_passkey_can_be_made_the_page_says_so(chromium: Browser) -> None:
    with stage() as by_address:
        by_address.join("nora")
        with screen(by_address, chromium) as window:
            window.log_in("nora")
            page = window.open(PATH)
            expect(page.get_by_text("This browser can't create passkeys for this address.")).to_be_visible()
            expect(page.get_by_role("button", name="Add a passkey")).to_have_count(0)
            # The page to log in has other ways, and says nothing.
            window.context.clear_cookies()
            page = window.open("/login")
            expect(page.locator("[data-behaviour=passkey]").first).to_be_hidden()


def test_a_member_without_a_passkey_on_the_device_is_told_so(here: Stage, chromium: Browser) -> None:
    with owner(here, chromium, "hal") as (window, device):
        device.clear()
        logged_out(window)
        page = pressed(window)
        expect(page.get_by_text("Your device did not respond. Try again.")).to_be_visible()
        found = here.run(members.find(here.network.writes, "hal"))
        assert found is not None


@pytest.mark.parametrize("dark", [False, True])
def test_the_pages_can_be_used_by_everybody(here: Stage, chromium: Browser, dark: bool) -> None:
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

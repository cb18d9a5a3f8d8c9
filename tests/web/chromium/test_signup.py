"""Sign-up with a required proof of work, with and without scripts."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, expect

from tests.web.chromium.browser_sessions import live_server, screen


def _join(page: Page, name: str) -> None:
    page.get_by_label("User name").fill(name)
    page.get_by_label("E-mail address").fill(f"{name.lower()}@example.org")
    page.get_by_label("Password").fill("four random words here")
    page.get_by_label("I agree to the rules").check()
    page.get_by_role("main").get_by_role("button", name="Sign up").click()


def test_signup_after_correcting_refused_form_succeeds_with_proof_of_work(chromium: Browser) -> None:
    with live_server(signup_work=7, rules=("Be kind.",)) as at, screen(at, chromium) as nia:
        at.join("ann")
        page = nia.open("/signup")
        _join(page, "ann")
        expect(page.get_by_text("This name is taken")).to_be_visible()
        _join(page, "Nia")
        expect(page.get_by_role("heading", name="What are you interested in?")).to_be_visible()


def test_signup_without_scripts_asks_for_reason_and_is_queued_for_review(chromium: Browser) -> None:
    with live_server(signup_work=7, rules=("Be kind.",)) as at, screen(at, chromium, scripts=False) as nia:
        page = nia.open("/signup")
        page.get_by_label("Why would you like to join?").fill("I like boats")
        _join(page, "nia")
        expect(page.get_by_role("heading", name="Your sign-up is being reviewed")).to_be_visible()

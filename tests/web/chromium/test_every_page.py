"""All pages for each kind of viewer at phone and desktop width: whole, accessible, within the viewport, still, without errors."""

from __future__ import annotations

import re
from itertools import product

import pytest
from playwright.sync_api import Browser, Page

from scripts.web_pages import Subjects
from shoal import settings
from shoal.commands import second_factor
from shoal.core.credentials import new_key
from shoal.web.routes import pages
from tests.engines.authenticator_app import code_of
from tests.example_counts import DEEP
from tests.web.browser import PASSWORD
from tests.web.chromium.accessibility import hindrances, pale
from tests.web.chromium.browser_sessions import LiveServer, screen
from tests.web.chromium.crawler import ALONE, PAGES, VIEWERS, WIDTHS, ZOOMED, Viewer, crawler

NOT_PAGES = {
    "/live": "a stream of events",
    "/settings/ranking/preview": "a part of a page",
    "/compose/files/{id}": "a part of a page",
    "/compose/words": "a part of a page",
    "/search/offers": "a part of a page",
    "/sidebar": "a part of a page",
    "/towns": "suggestions for a field",
    "/api/oembed": "JSON",
    "/static/{version}/{name}": "files",
    "/static/{version}/{folder}/{name}": "files",
    "/manifest.webmanifest": "JSON",
    "/notifications/unread": "JSON",
    "/worker.js": "a script",
    "/oauth/authorize": "has tests of its own",
    "/login/passkey": "JSON",
    "/settings/passkeys/{id}": "is shown for a passkey, which a browser makes: has tests of its own",
    "/login/with/{provider}/return": "the answer of a login provider: has tests of its own",
    "/settings/logins": "is shown on a network with login providers: has tests of its own",
    "/signup/identity": "is shown between a login provider and the sign-up alone: has tests of its own",
    "/recover/{proof}": "is mailed on a network without passwords: has tests of its own",
    "/held/{id}/pictures/{number}": "a picture",
    "/login/code": "is shown between password and code alone",
}
"""Paths that are not pages, with the content of each."""
_SAMPLED = 6
"""The first tier opens every sixth page."""


def test_web_page_list_of_browser_tests_contains_all_web_routes() -> None:
    listed = {path.partition("?")[0] for path in PAGES.values()}
    for row in pages(settings.load({})):
        if row.method == "GET" and row.path not in NOT_PAGES:
            pattern = re.sub(r"@?\\{\w+\\}", "@?[^/]+", re.escape(row.path))
            assert any(re.fullmatch(pattern, path) for path in listed), row.path


@pytest.fixture(scope="module")
def known() -> dict[int, set[str]]:
    """Structures of pages that were checked closely, by the width of the window."""
    return {width: set() for width in (*WIDTHS, ZOOMED)}


@pytest.mark.parametrize(
    ("viewer", "width"),
    [*product(VIEWERS, WIDTHS), (VIEWERS[0], ZOOMED), (VIEWERS[4], ZOOMED)],
    ids=lambda value: value.who if isinstance(value, Viewer) else str(value),
)
def test_web_pages_render_completely_accessibly_and_without_layout_shift(
    at: LiveServer, subjects: Subjects, chromium: Browser, known: dict[int, set[str]], viewer: Viewer, width: int
) -> None:
    with crawler(at, subjects, chromium, viewer, width, known[width]) as crawl:
        for name in list(PAGES)[:: 1 if DEEP else _SAMPLED]:
            crawl.open(name)
            crawl.check(name, alone=name in ALONE, opened=True)
            crawl.check_closely(name, dark=width > 800)
    assert not crawl.faults, "\n".join(crawl.faults)
    assert crawl.opened > (100 if DEEP else 100 // _SAMPLED)


@pytest.mark.parametrize("dark", [False, True])
def test_login_code_page_is_accessible_and_fits_viewport(at: LiveServer, chromium: Browser, dark: bool) -> None:
    gil = at.join(f"gil{dark:d}")
    key = new_key()
    at.run(second_factor.turn_on(at.network.writes, gil.id, PASSWORD, key, code_of(key, -1)))
    with screen(at, chromium, 390, dark=dark, touch=True) as ours:
        page = ours.open("/login")
        page.fill("#username", gil.name)
        page.fill("#password", PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/login/code*")
        assert [*hindrances(page), *too_wide(page), *pale(page, dark=dark)] == []
        page.fill("#code", code_of(key))
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/")
        on = ours.open("/settings/second_factor")
        assert [*hindrances(on), *too_wide(on), *pale(on, dark=dark)] == []


def too_wide(page: Page) -> list[str]:
    """Return a message if the page is wider than the window."""
    wide: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [f"{wide} pixels too wide"] if wide > 0 else []

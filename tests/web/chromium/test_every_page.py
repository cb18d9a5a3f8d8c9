"""All pages at phone and desktop width, in light and dark mode: accessible, within the viewport, and without errors."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page
from scripts.web_pages import MEMBERS, STRANGERS, Subjects, prepared

from shoal import settings
from shoal.commands import posts, reactions, second_factor
from shoal.commands.posts import Draft
from shoal.core.credentials import new_key
from shoal.web.routes import pages
from tests.engines.authenticator_app import code_of
from tests.web.browser import PASSWORD
from tests.web.chromium.accessibility import hindrances, pale
from tests.web.chromium.browser_sessions import LiveServer, screen
from tests.web.pictures import posted

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
    "/worker.js": "a script",
    "/oauth/authorize": "has tests of its own",
    "/login/passkey": "JSON",
    "/settings/passkeys/{id}": "is shown for a passkey, which a browser makes: has tests of its own",
    "/login/code": "is shown between password and code alone",
}
"""Paths that are not pages, with the content of each."""


@pytest.fixture(scope="module")
def subjects(at: LiveServer) -> Subjects:
    """Hal, the viewer, and Ann, the author of posts, with comments and likes."""
    hal, ann, ben = at.join("hal"), at.join("ann"), at.join("ben")
    sea = posted(at, ann, "Low tide at the #sea", 2)
    posted(at, ann, "No members found yet", spoiler="Weather")
    own = posted(at, hal, "My first #sea", 1)
    at.run(posts.update(at.network.writes, hal.id, own.id, Draft(text="My very first #sea", media=own.media)))
    for member in (hal, ben):
        at.run(reactions.like(at.network.writes, member.id, sea.id))
        at.run(posts.create(at.network.writes, member.id, Draft(text="I was there", parent_id=sea.id)))
    found = at.run(prepared(at.network.writes, "hal", "ann", "sea"))
    at.settle()
    return found


def test_page_list_contains_all_web_routes() -> None:
    listed = {path.partition("?")[0] for path in (*STRANGERS.values(), *MEMBERS.values())}
    for row in pages(settings.load({})):
        if row.method == "GET" and row.path not in NOT_PAGES:
            pattern = re.sub(r"@?\\{\w+\\}", "@?[^/]+", re.escape(row.path))
            assert any(re.fullmatch(pattern, path) for path in listed), row.path


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1_280, True)])
def test_web_pages_are_accessible_and_fit_viewport(
    at: LiveServer, subjects: Subjects, chromium: Browser, width: int, dark: bool
) -> None:
    wrong: dict[str, list[str]] = {}
    with screen(at, chromium, width, dark=dark, touch=width < 800) as ours:

        def look(paths: dict[str, str]) -> None:
            for name, path in paths.items():
                page = ours.open(path.format(**subjects._asdict()))
                assert name == "not-found" or "not found" not in page.title(), name
                assert page.get_by_role("main").is_visible() or name == "embedded", name
                if found := [*hindrances(page), *too_wide(page), *pale(page, dark=not dark)]:
                    wrong[name] = found
                page.emulate_media(color_scheme="dark" if dark else "light")

        look(STRANGERS)
        ours.log_in("hal")
        look(MEMBERS)
    assert not wrong, "\n".join(f"{name}: {one}" for name, found in wrong.items() for one in found)


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

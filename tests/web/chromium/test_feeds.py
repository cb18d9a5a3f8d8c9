"""Pages of named feeds in a real browser: nothing is cut off when all parts are open."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from scripts.web_pages import Subjects
from shoal.commands import feeds, posts
from shoal.commands.posts import Draft
from shoal.graph.feed_lookup import feed_called
from tests.web.browser import PASSWORD
from tests.web.chromium.accessibility import hindrances, pale
from tests.web.chromium.browser_sessions import LiveServer, screen

_DECLARATION = {
    "sources": [{"from": "popular"}],
    "order": {"by": "expression", "expression": " + ".join(["log(1 + likes) * if(follows_author, $weight, 0.5)"] * 5)},
    "parameters": {"weight": {"type": "number", "default": 1, "minimum": 0, "maximum": 9}},
}
_STARTED = "form[data-draft][data-started]"


@pytest.mark.parametrize("width", [320, 390, 1_280])
def test_pages_of_feeds_fit_the_window_with_all_details_open(
    at: LiveServer, subjects: Subjects, chromium: Browser, width: int
) -> None:
    owner = at.run(feed_called(at.network.store, str(subjects.feed))).owner_id
    made = at.run(feeds.create(at.network.writes, owner, f"Long {width}", _DECLARATION, shared=True))
    with screen(at, chromium, width) as ours:
        ours.log_in(subjects.hero)
        for path in (f"/feeds/{made.id}", "/feeds/new", f"/feeds/{made.id}/edit"):
            page = ours.open(path)
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            cut = "[...document.querySelectorAll('main pre')].filter((one) => one.getBoundingClientRect().right > innerWidth)"
            assert page.evaluate(f"{cut}.length") == 0, path
            assert [*hindrances(page), *pale(page, dark=False)] == [], path


def test_typed_declaration_survives_leaving_the_editor_and_a_login(
    at: LiveServer, subjects: Subjects, chromium: Browser
) -> None:
    at.join("drafter")
    long = '{"sources": [{"from": "popular"}]}' + " " * 5_000
    with screen(at, chromium) as ours:
        page = ours.log_in("drafter")
        page = ours.open("/feeds/new")
        page.get_by_label("Name").fill("Typed")
        page.get_by_label("Declaration", exact=True).fill(long)
        page.get_by_role("checkbox", name="Share this feed").check()
        page.get_by_role("link", name="Home").first.click()
        page.wait_for_url("**/")
        page.go_back()
        expect(page.get_by_text("Draft restored.")).to_be_visible()
        expect(page.get_by_label("Name")).to_have_value("Typed")
        expect(page.get_by_role("checkbox", name="Share this feed")).to_be_checked()
        page.context.clear_cookies(name="shoal_login")
        page.get_by_role("button", name="Create feed").click()
        page.wait_for_url("**/login**")
        page.get_by_label("Name").fill("drafter")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in", exact=True).click()
        expect(page.get_by_label("Declaration", exact=True)).to_have_value(long)
        # The script of the form forgets the draft.
        expect(page.locator(_STARTED)).to_have_count(1)
        page.get_by_role("button", name="Create feed").click()
        page.wait_for_url(re.compile(r"/feeds/[0-9]+$"))
        assert page.evaluate("Object.keys(sessionStorage).filter((key) => key.startsWith('shoal:draft')).length") == 0
        page = ours.open("/feeds/new")
        expect(page.get_by_label("Name")).to_have_value("")
        page.get_by_label("Name").fill("Other")
        page.reload()
        expect(page.get_by_label("Name")).to_have_value("Other")
        page.get_by_role("button", name="Discard draft").click()
        expect(page.get_by_label("Name")).to_have_value("")
        expect(page.get_by_role("button", name="Discard draft")).to_be_hidden()


_VALID = '{"sources": [{"from": "popular"}]}'
_DRAFTS = "Object.keys(sessionStorage).filter((key) => key.startsWith('shoal:draft')).length"


def _type(page: Page, title: str) -> None:
    page.get_by_label("Name").fill(title)
    page.get_by_label("Declaration", exact=True).fill(_VALID)


def test_draft_of_a_stored_feed_does_not_return(at: LiveServer, subjects: Subjects, chromium: Browser) -> None:
    at.join("returner")
    with screen(at, chromium) as ours:
        ours.log_in("returner")
        page = ours.open("/feeds/new")
        _type(page, "Once")
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_role("heading", name="Preview")).to_be_visible()
        expect(page.locator(_STARTED)).to_have_count(1)
        page.get_by_role("button", name="Create feed").click()
        page.wait_for_url(re.compile(r"/feeds/[0-9]+$"))
        page.go_back()
        page.wait_for_url("**/feeds/new**")
        expect(page.locator(_STARTED)).to_have_count(1)
        page = ours.open("/feeds/new")
        expect(page.locator(_STARTED)).to_have_count(1)
        expect(page.get_by_label("Name")).to_have_value("")
        expect(page.get_by_role("button", name="Discard draft")).to_be_hidden()


def test_draft_of_a_deleted_feed_is_removed(at: LiveServer, subjects: Subjects, chromium: Browser) -> None:
    owner = at.join("deleter")
    made = at.run(feeds.create(at.network.writes, owner.id, "Doomed", _DECLARATION))
    with screen(at, chromium) as ours:
        ours.log_in("deleter")
        page = ours.open(f"/feeds/{made.id}/edit")
        _type(page, "Changed")
        assert page.evaluate(_DRAFTS) == 1
        page.get_by_text("Delete feed").click()
        page.get_by_role("button", name="Delete", exact=True).click()
        page.wait_for_url("**/feeds")
        assert page.evaluate(_DRAFTS) == 0


def test_draft_survives_a_redirect_that_stores_no_feed(at: LiveServer, subjects: Subjects, chromium: Browser) -> None:
    at.join("redirected")
    with screen(at, chromium) as ours:
        ours.log_in("redirected")
        page = ours.open("/feeds/new")
        _type(page, "Unsaved")
        page.route("**/feeds/new", lambda route: route.fulfill(status=303, headers={"Location": "/settings"}))
        page.get_by_role("button", name="Create feed").click()
        page.wait_for_url("**/settings")
        assert page.evaluate(_DRAFTS) == 1


def test_editor_works_with_a_corrupt_draft_and_a_full_storage(
    at: LiveServer, subjects: Subjects, chromium: Browser
) -> None:
    member = at.join("filler")
    key = f"shoal:draft:{member.id}:feed:new:"
    with screen(at, chromium) as ours:
        ours.log_in("filler")
        page = ours.open("/feeds")
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        for corrupt in ("{", "5", '[["title"]]', "null"):
            page.evaluate("([key, text]) => sessionStorage.setItem(key, text)", [key, corrupt])
            page.goto(f"{at.url}/feeds/new")
            expect(page.locator(_STARTED)).to_have_count(1)
            expect(page.get_by_label("Name")).to_have_value("")
        page.evaluate(
            "() => { Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }; }"
        )
        _type(page, "Full")
        page.get_by_role("button", name="Create feed").click()
        page.wait_for_url(re.compile(r"/feeds/[0-9]+$"))
        assert not problems


def test_link_to_the_editor_neither_fills_it_in_nor_replaces_the_draft(
    at: LiveServer, subjects: Subjects, chromium: Browser
) -> None:
    at.join("lured")
    with screen(at, chromium) as ours:
        ours.log_in("lured")
        page = ours.open("/feeds/new")
        _type(page, "Mine")
        page.goto(f"{at.url}/feeds/new?title=evil&declaration=%7B%7D&shared=true")
        expect(page.get_by_text("Draft restored.")).to_be_visible()
        expect(page.get_by_label("Name")).to_have_value("Mine")
        expect(page.get_by_label("Declaration", exact=True)).to_have_value(_VALID)
        expect(page.get_by_role("checkbox", name="Share this feed")).not_to_be_checked()


def test_refused_field_of_a_feed_has_the_focus(at: LiveServer, subjects: Subjects, chromium: Browser) -> None:
    owner = at.join("focused")
    made = at.run(feeds.create(at.network.writes, owner.id, "Focus", _DECLARATION))
    with screen(at, chromium) as ours:
        ours.log_in("focused")
        page = ours.open("/feeds/new")
        page.get_by_label("Name").fill("Mine")
        declaration = page.get_by_label("Declaration", exact=True)
        for button in ("Create feed", "Preview"):
            declaration.fill('{"sources": [{"from": "moon"}]}')
            page.get_by_role("button", name=button).click()
            expect(page.get_by_text("sources[0].from: Invalid value")).to_be_visible()
            expect(declaration).to_be_focused()
        declaration.fill('{"sources": [{"from": "popular"}]}')
        page.get_by_label("Name").fill("   ")
        page.get_by_role("button", name="Create feed").click()
        expect(page.get_by_label("Name")).to_be_focused()
        page = ours.open(f"/feeds/{made.id}")
        page.get_by_text("Parameters", exact=True).click()
        page.evaluate("document.querySelector('form[aria-label=Parameters]').noValidate = true")
        page.get_by_label("Weight").fill("99")
        page.get_by_role("form", name="Parameters").get_by_role("button", name="Save").click()
        expect(page.get_by_text("Expected a number from 0 to 9")).to_be_visible()
        expect(page.get_by_label("Weight")).to_be_focused()


def test_preview_scrolls_to_its_heading_and_first_post_on_a_phone(
    at: LiveServer, subjects: Subjects, chromium: Browser
) -> None:
    author = at.join("previewer")
    at.run(posts.create(at.network.writes, author.id, Draft(text="A loaf #preview")))
    at.settle()
    with screen(at, chromium, 390) as ours:
        ours.log_in("previewer")
        page = ours.open("/feeds/new")
        page.get_by_label("Declaration", exact=True).fill('{"sources": [{"from": "tag", "tag": "preview"}]}')
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_role("heading", name="Preview")).to_be_in_viewport()
        expect(page.get_by_text("A loaf")).to_be_in_viewport()
        expect(page).to_have_title(re.compile("^Preview of New feed"))

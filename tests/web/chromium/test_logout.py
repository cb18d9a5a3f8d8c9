"""Data stored in the browser for a member, and its removal on log-out."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, expect

from shoal.commands import posts
from shoal.commands.posts import Draft
from shoal.core.model import Visibility
from tests.web.chromium.browser_sessions import LiveServer, screen, until

_STORED = """async () => {
  const cached = [];
  for (const name of await caches.keys()) {
    const cache = await caches.open(name);
    for (const request of await cache.keys())
      if (!request.url.includes("/static/")) cached.push(request.url, await (await cache.match(request)).text());
  }
  return { cached: cached.join(" "), local: JSON.stringify(localStorage), session: JSON.stringify(sessionStorage) };
}"""


def stored(page: Page) -> dict[str, str]:
    found: dict[str, str] = page.evaluate(_STORED)
    return found


def test_logout_clears_member_data_from_browser_storage(at: LiveServer, chromium: Browser) -> None:
    hal, ann = at.join("hal"), at.join("ann")
    at.run(posts.create(at.network.writes, hal.id, Draft(text="Low tide")))
    at.run(posts.create(at.network.writes, ann.id, Draft(text="@hal the key", visibility=Visibility.DIRECT)))
    at.settle()
    with screen(at, chromium) as ours:
        ours.log_in("hal")
        page = ours.open("/")
        page.evaluate("async () => { await navigator.serviceWorker.ready; }")
        page.get_by_role("navigation").get_by_role("link", name="Messages").first.click()
        page.get_by_role("main").get_by_role("link", name="the key").click()
        expect(page.get_by_role("main")).to_contain_text("Only the people in this conversation can read it.")
        page.get_by_role("navigation").get_by_role("link", name="New post").first.click()
        until(page, "document.querySelector('#compose')?.dataset.started !== undefined")
        page.get_by_label("Text", exact=True).fill("A draft")
        until(page, "JSON.stringify(localStorage).includes('A draft')")
        while_logged_in = stored(page)
        assert "/offline" in while_logged_in["cached"]
        for private in ("the key", "form_token"):
            assert private not in while_logged_in["cached"], private
        assert "Low tide" in while_logged_in["session"]
        assert "the key" not in while_logged_in["session"]
        # The form is not sent, as in a browser that ignores `Clear-Site-Data`: only the script clears the data.
        page.evaluate("() => document.addEventListener('submit', (event) => event.preventDefault())")
        page.locator("form[action$='/logout'] button:visible").click()
        left = stored(page)
        assert (left["local"], left["session"]) == ("{}", "{}")


def test_logout_in_one_tab_deletes_stored_pages_of_other_tabs(at: LiveServer, chromium: Browser) -> None:
    kim = at.join("kim")
    at.run(posts.create(at.network.writes, kim.id, Draft(text="High tide")))
    at.settle()
    with screen(at, chromium) as ours:
        ours.log_in("kim")
        page = ours.open("/")
        other = ours.page.context.new_page()
        other.goto(at.url + "/")
        until(other, "document.querySelector('form[action$=\"/logout\"]').dataset.started !== undefined")
        other.get_by_role("navigation").get_by_role("link", name="Explore").first.click()
        other.wait_for_url("**/explore")
        assert "High tide" in stored(other)["session"]
        # Simulate a browser that ignores `Clear-Site-Data`, as browsers do over plain HTTP.
        page.route("**/logout", lambda route: route.fulfill(status=204))
        page.locator("form[action$='/logout'] button:visible").click()
        until(other, "sessionStorage.length === 0")
        page.context.clear_cookies()
        # Pages left after log-out are not stored either.
        other.get_by_role("navigation").get_by_role("link", name="Notifications").first.click()
        other.wait_for_url("**/login**")
        assert "High tide" not in stored(other)["session"]
        other.evaluate("() => history.go(-2)")
        expect(other.get_by_role("navigation").get_by_role("link", name="Log in")).to_be_visible()
        expect(other.get_by_role("main")).not_to_contain_text("High tide")


def test_offline_page_is_identical_for_members_and_anonymous_visitors(at: LiveServer, chromium: Browser) -> None:
    at.join("ida")
    with screen(at, chromium) as ours:
        stranger = ours.open("/offline").content()
        expect(ours.page.get_by_role("link", name="Try again")).to_be_visible()
        ours.log_in("ida")
        assert ours.open("/offline").content() == stranger

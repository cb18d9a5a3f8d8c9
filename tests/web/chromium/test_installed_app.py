"""The installed app: shares from other apps, the number on its icon, Home without a connection, and the offer to install it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from shoal.commands import members, posts, reactions, relationships, sessions
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.model import Member, Visibility
from tests.api.in_memory_network import picture
from tests.web.chromium.accessibility import hindrances
from tests.web.chromium.browser_sessions import LiveServer, Screen, live_server, screen, until

_SPIED = """() => {
  window.badges = [];
  Navigator.prototype.setAppBadge = async (number) => void badges.push(number);
  Navigator.prototype.clearAppBadge = async () => void badges.push(0);
}"""
_HAS_COPY = "caches.match(`${document.body.dataset.base}/offline/posts`).then((found) => !!found)"
_HAS_PHOTO = """caches.match("/offline/posts").then((copy) => copy.text()).then((text) =>
  new DOMParser().parseFromString(text, "text/html").querySelector(".photos img[src^=data]") !== null)"""
_AGED = """async (days) => {
  const copy = await caches.match("/offline/posts");
  const headers = { at: Date.now() - days * 86_400_000, viewer: copy.headers.get("viewer") };
  await (await caches.open("home")).put("/offline/posts", new Response(await copy.text(), { headers }));
}"""
_STANDALONE = """const known = matchMedia;
  window.matchMedia = (query) => query === "(display-mode: standalone)" ? { matches: true } : known(query);"""
_OFFERED = """() => {
  const event = new Event("beforeinstallprompt", { cancelable: true });
  event.prompt = async () => (window.prompted = event.defaultPrevented);
  dispatchEvent(event);
}"""


@pytest.fixture(scope="module")
def here() -> Iterator[LiveServer]:
    """Ann follows Ben, who posted a photo, a post for followers, and a message to her."""
    with live_server() as made:
        ann, ben = made.join("ann"), made.join("ben")
        made.run(relationships.follow(made.network.writes, ann.id, ben.id))
        made.settle()
        write(made, ben, "Low tide")
        write(made, ben, "Only for friends", visibility=Visibility.FOLLOWERS)
        write(made, ben, "@ann the key", visibility=Visibility.DIRECT)
        made.join("cyd")
        yield made


def write(here: LiveServer, author: Member, text: str, **more: Any) -> None:
    here.run(posts.create(here.network.writes, author.id, Draft(text=text, **more)))
    here.settle()


def named(here: LiveServer, name: str) -> Member:
    found = here.run(members.find(here.network.writes, name))
    assert found is not None
    return found


def share(page: Page, at: LiveServer, *files: bytes, **fields: str) -> None:
    """Open the share target as Chromium does: by a POST that no page caused."""
    lines = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields.items()]
    head = 'Content-Disposition: form-data; name="files[]"; filename="{}.png"\r\nContent-Type: image/png\r\n\r\n'
    lines += [head.format(n).encode() + data for n, data in enumerate(files)]
    body = b"".join(b"--shared\r\n" + line + b"\r\n" for line in lines) + b"--shared--\r\n"

    def post(route: Route) -> None:
        if route.request.method != "GET":
            return route.continue_()
        headers = {**route.request.headers, "content-type": "multipart/form-data; boundary=shared"}
        return route.continue_(method="POST", post_data=body, headers=headers)

    # The service worker would answer the request, before it becomes a POST.
    browser = page.context.new_cdp_session(page)
    browser.send("Network.enable")
    browser.send("Network.setBypassServiceWorker", {"bypass": True})
    page.route("**/share", post)
    page.goto(f"{at.url}/share")
    page.unroute("**/share")
    browser.detach()


def test_share_to_app_of_photos_opens_compose_form_and_is_kept_when_app_is_ended(
    here: LiveServer, chromium: Browser
) -> None:
    with screen(here, chromium, 390, touch=True) as ours:
        ours.log_in("ann")
        page = ours.page
        share(page, here, picture(60, 40), picture(40, 60), text="Seen today", url="https://example.org/")
        page.wait_for_url("**/compose?**")
        expect(page.locator(".picture")).to_have_count(2)
        expect(page.get_by_label("Text", exact=True)).to_have_value("Seen today\nhttps://example.org/")
        expect(page.locator("#compose[data-started]")).to_be_visible()
        page.reload()
        expect(page.locator(".picture")).to_have_count(2)
        expect(page.locator("#compose[data-started]")).to_be_visible()
        page.get_by_label("Text", exact=True).fill("Seen this morning")
        page.wait_for_url("**/compose")
        page.reload()
        expect(page.get_by_label("Text", exact=True)).to_have_value("Seen this morning")
        expect(page.locator(".picture")).to_have_count(2)
        assert hindrances(page) == []
        page.get_by_role("button", name="Discard draft").click()


def test_share_to_app_with_damaged_file_shows_reason_and_keeps_older_draft(here: LiveServer, chromium: Browser) -> None:
    with screen(here, chromium, 390, touch=True) as ours:
        ours.log_in("ann")
        page = ours.open("/compose")
        page.get_by_label("Text", exact=True).fill("An older draft")
        until(page, "JSON.stringify(localStorage).includes('An older draft')")
        share(page, here, picture(60, 40), picture()[:40])
        expect(page.locator(".refusals")).to_contain_text("1.png")
        expect(page.locator(".picture")).to_have_count(1)
        page = ours.open("/compose")
        expect(page.get_by_label("Text", exact=True)).to_have_value("An older draft")
        page.get_by_role("button", name="Discard draft").click()
        expect(page.get_by_role("button", name="Restore draft")).to_be_visible()


def test_share_to_app_by_visitor_of_photo_leads_to_login(here: LiveServer, chromium: Browser) -> None:
    with screen(here, chromium, 390, touch=True) as ours:
        share(ours.open("/about"), here, b"x" * 200_000)
        expect(ours.page.get_by_role("main")).to_contain_text("send the files again")
        ours.page.get_by_role("main").get_by_role("link", name="Log in").click()
        ours.page.wait_for_url("**/login**")


def test_badge_on_app_icon_counts_unread_notifications_and_is_cleared_when_read(
    here: LiveServer, chromium: Browser
) -> None:
    dee, eli = here.join("dee"), here.join("eli")
    write(here, eli, "@dee the key", visibility=Visibility.DIRECT)
    with screen(here, chromium) as ours:
        ours.context.add_init_script(f"({_SPIED})()")
        ours.log_in("dee")
        # The server answers when it has subscribed to the changes.
        with ours.page.expect_response("**/live"):
            page = ours.open("/")
        until(page, "badges.at(-1) === 1")
        expect(page.locator("#messages .badge")).to_contain_text("1")
        here.run(relationships.follow(here.network.writes, eli.id, dee.id))
        here.settle()
        until(page, "badges.at(-1) === 2")
        page.get_by_role("navigation").get_by_role("link", name="Notifications").first.click()
        until(page, "badges.at(-1) === 1")
        page.get_by_role("navigation").get_by_role("link", name="Messages").first.click()
        page.get_by_role("main").get_by_role("link", name="the key").click()
        until(page, "badges.at(-1) === 0")
        expect(page.locator("#messages .badge")).to_have_count(0)
        # A new message appears in the navigation of the open page.
        write(here, eli, "@dee the other key", visibility=Visibility.DIRECT)
        until(page, "badges.at(-1) === 1")
        expect(page.locator("#messages .badge")).to_contain_text("1")


def copied(ours: Screen) -> Page:
    """Open Home, and wait until the device has a copy."""
    page = ours.open("/")
    page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    until(page, _HAS_COPY)
    return page


def test_offline_home_page_shows_last_posts_and_no_restricted_posts_or_form_tokens(
    here: LiveServer, chromium: Browser
) -> None:
    with screen(here, chromium, 390, touch=True) as ours:
        ours.log_in("ann")
        share(ours.page, here, picture(600, 400), text="By the sea")
        ours.page.wait_for_url("**/compose?**")
        expect(ours.page.locator("#compose[data-started]")).to_be_visible()
        ours.page.get_by_role("button", name="Post", exact=True).click()
        ours.page.get_by_role("button", name="Post without descriptions").click()
        ours.page.wait_for_url("**/@ann/*")
        here.settle()
        page = copied(ours)
        expect(page.get_by_role("main")).to_contain_text("Only for friends")
        until(page, _HAS_PHOTO)
        ours.context.set_offline(offline=True)
        page.goto(f"{here.url}/")
        expect(page.get_by_role("heading", name="Home")).to_be_visible()
        expect(page.get_by_role("status")).to_contain_text(
            re.compile(r"You're offline. This is Home as of .*\d\d:\d\d")
        )
        expect(page.get_by_text("Low tide")).to_be_visible()
        shown = page.locator(".photos img")
        expect(shown).to_have_count(1)
        assert shown.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 100
        text = page.content()
        for private in ("the key", "Only for friends", "form_token", "X-Form-Token"):
            assert private not in text, private
        assert page.locator("main form, main article a[href]").count() == 0
        assert hindrances(page) == []
        page.goto(f"{here.url}/notifications")
        expect(page.get_by_text("The page could not be loaded.")).to_be_visible()
        page.get_by_role("link", name="Home").click()
        expect(page.get_by_text("Low tide")).to_be_visible()
        ours.context.set_offline(offline=False)
        # The service worker may be online again a moment later than the page.
        again = page.get_by_role("link", name="Try again")
        for _ in range(60):
            with page.expect_navigation():
                again.click()
            if not again.count():
                break
            page.wait_for_timeout(1_000)
        expect(page.get_by_role("navigation").first).to_be_visible()


def test_offline_home_page_contains_no_quote_of_restricted_post_and_no_restricted_share(
    here: LiveServer, chromium: Browser
) -> None:
    fia, gil, hal = here.join("fia"), here.join("gil"), here.join("hal")
    writes = here.network.writes
    here.run(members.update_profile(writes, fia.id, ProfileChange(shows_replies=True)))
    for follower, followee in ((fia, gil), (fia, hal), (gil, hal)):
        here.run(relationships.follow(writes, follower.id, followee.id))
    here.settle()
    hidden = here.run(posts.create(writes, hal.id, Draft(text="A plan for friends", visibility=Visibility.FOLLOWERS)))
    open_ = here.run(posts.create(writes, here.join("ida").id, Draft(text="Seen by everyone")))
    here.run(reactions.share(writes, gil.id, open_.id, Visibility.FOLLOWERS))
    write(here, gil, "A public reply", parent_id=hidden.id)
    with screen(here, chromium) as ours:
        ours.log_in("fia")
        page = copied(ours)
        for text in ("A plan for friends", "Seen by everyone", "A public reply"):
            expect(page.get_by_role("main")).to_contain_text(text)
        copy = page.evaluate("caches.match('/offline/posts').then((found) => found.text())")
    assert "A public reply" in copy
    assert "A plan for friends" not in copy
    assert "Seen by everyone" not in copy


def test_offline_home_page_is_not_written_by_tab_of_former_member(here: LiveServer, chromium: Browser) -> None:
    with screen(here, chromium) as ours:
        ours.log_in("ann")
        page = copied(ours)
        ours.context.clear_cookies()
        begun = here.run(sessions.begin(here.network.writes, named(here, "cyd")))
        ours.context.add_cookies([{"name": "shoal_login", "value": begun.text, "url": here.url}])
        other = ours.context.new_page()
        other.goto(f"{here.url}/explore")
        until(page, f"({_HAS_COPY}).then((found) => !found)")
        # A photo of the old page finishes loading, and its timer runs at once.
        page.evaluate("""async () => {
          window.setTimeout = (act) => void act();
          document.getElementById("feed").dispatchEvent(new Event("load"));
          await (await caches.open("after")).put("/", new Response(""));
        }""")
        assert not page.evaluate(_HAS_COPY)


@pytest.mark.parametrize("ending", ["log out", "session ended", "other member", "age"])
def test_offline_home_page_is_deleted_when_its_session_is_over(
    here: LiveServer, chromium: Browser, ending: str
) -> None:
    with screen(here, chromium) as ours:
        ours.log_in("ann")
        page = copied(ours)
        if ending == "log out":
            # Simulate a browser that ignores `Clear-Site-Data`: only the service worker deletes the copy.
            page.route("**/logout", lambda route: route.fulfill(status=204))
            page.locator("form[action$='/logout'] button:visible").click()
        elif ending == "session ended":
            here.run(sessions.end_others(here.network.writes, named(here, "ann").id, 0))
            page.goto(f"{here.url}/explore")
        elif ending == "other member":
            ours.context.clear_cookies()
            begun = here.run(sessions.begin(here.network.writes, named(here, "cyd")))
            ours.context.add_cookies([{"name": "shoal_login", "value": begun.text, "url": here.url}])
            page.goto(f"{here.url}/explore")
        else:
            page.evaluate(_AGED, 4)
            ours.context.set_offline(offline=True)
            page.goto(f"{here.url}/")
            expect(page.get_by_text("The page could not be loaded.")).to_be_visible()
            ours.context.set_offline(offline=False)
            page.goto(f"{here.url}/about")
        until(page, "caches.has('home').then((has) => !has)")


def test_install_offer_is_shown_in_settings_and_once_after_a_post(here: LiveServer, chromium: Browser) -> None:
    with screen(here, chromium, 390, touch=True) as ours:
        ours.log_in("ann")
        page = ours.open("/settings")
        offer = page.get_by_role("button", name="Install", exact=True)
        expect(page.locator(".install[data-started]")).to_be_attached()
        expect(offer).to_be_hidden()
        page.evaluate(_OFFERED)
        offer.click()
        until(page, "window.prompted === true")
        expect(offer).to_be_hidden()
        for offered in (True, False):
            page = ours.open("/compose")
            page.get_by_label("Text", exact=True).fill("A new post")
            page.get_by_role("button", name="Post", exact=True).click()
            page.wait_for_url("**/@ann/*")
            expect(page.locator(".install[data-started]")).to_be_attached()
            page.evaluate(_OFFERED)
            expect(page.locator(".install")).to_be_visible(visible=offered)
            if offered:
                assert hindrances(page) == []
                page.get_by_role("button", name="Not now").click()
                expect(page.locator(".install")).to_have_count(0)


def test_install_offer_does_not_move_the_page(here: LiveServer, chromium: Browser) -> None:
    """The browser reports late that the app can be installed, when people already read or press something."""
    with screen(here, chromium, 390, touch=True) as ours:
        ours.log_in("ann")
        page = ours.open("/settings")
        expect(page.locator(".install[data-started]")).to_be_attached()
        rows = page.locator(".menu-rows a")
        before = [rows.nth(at).bounding_box() for at in range(rows.count())]
        page.evaluate(_OFFERED)
        expect(page.locator(".install")).to_be_visible()
        assert before
        assert [rows.nth(at).bounding_box() for at in range(rows.count())] == before


def test_install_offer_is_hidden_in_installed_app(here: LiveServer, chromium: Browser) -> None:
    with screen(here, chromium) as ours:
        ours.log_in("ann")
        ours.context.add_init_script(_STANDALONE)
        page = ours.open("/settings")
        expect(page.locator(".install[data-started]")).to_be_attached()
        page.evaluate(_OFFERED)
        expect(page.locator(".install")).to_be_hidden()


def test_install_offer_on_ios_names_the_steps(here: LiveServer, chromium: Browser) -> None:
    with screen(here, chromium, 390, touch=True) as ours:
        ours.log_in("ann")
        ours.context.add_init_script("navigator.standalone = false")
        page = ours.open("/settings")
        expect(page.get_by_text("In Safari, tap Share, then Add to Home Screen.")).to_be_visible()
        expect(page.get_by_role("button", name="Install", exact=True)).to_be_hidden()

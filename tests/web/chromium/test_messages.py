"""Messages in a browser: only the participants can read them, on any page, and no device stores them."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, expect

from shoal.commands import relationships
from tests.web.chromium.browser_sessions import LiveServer, Screen, screen

SECRET = "The key is under the mat"
_STORED = """async () => {
  const texts = [];
  for (const name of await caches.keys()) {
    const cache = await caches.open(name);
    for (const request of await cache.keys()) texts.push(await (await cache.match(request)).text());
  }
  return [...texts, ...Object.values(localStorage), ...Object.values(sessionStorage)].join(" ");
}"""


def finds_nothing(ours: Screen, paths: list[str]) -> None:
    for path in paths:
        page = ours.open(path)
        assert SECRET not in page.content(), path


def sends(ours: Screen) -> Page:
    """Send a message to the one person whom the form offers, and return its conversation."""
    page = ours.open("/conversations")
    page.get_by_role("main").get_by_role("link", name="New message").click()
    page.get_by_role("group", name="Recipients").get_by_text("ben").click()
    page.get_by_label("Text").fill(SECRET)
    page.get_by_role("button", name="Send").last.click()
    expect(page.get_by_role("main").get_by_text(SECRET)).to_be_visible()
    return page


def test_message_is_read_by_recipient_and_not_by_stranger_or_third_member(at: LiveServer, chromium: Browser) -> None:
    ann, ben, cyd = at.join("ann"), at.join("ben"), at.join("cyd")
    for follower in (cyd, ben):
        at.run(relationships.follow(at.network.writes, follower.id, ann.id))
    at.run(relationships.follow(at.network.writes, ann.id, ben.id))
    at.settle()
    with screen(at, chromium) as ours:
        ours.log_in("ann")
        talk = sends(ours).url.removeprefix(at.url)
        at.settle()
        assert talk.startswith("/conversations/")
        post = f"/@ann/{talk.rpartition('/')[2]}"
        finds_nothing(
            ours, ["/", "/for-you", "/catch-up", "/@ann", "/@ann?show=posts", "/@ann?show=replies", "/explore"]
        )
    with screen(at, chromium, 390, touch=True) as theirs:
        theirs.log_in("ben")
        finds_nothing(theirs, ["/", "/for-you", "/catch-up", "/explore", "/@ann?show=posts"])
        page = theirs.open("/conversations")
        expect(page.get_by_role("main").get_by_text("unread")).to_be_attached()
        page.get_by_role("main").get_by_text(SECRET).click()
        expect(page.get_by_label("Your message")).to_be_visible()
        page.get_by_label("Your message").fill("Found it")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_text("Found it")).to_be_visible()
        expect(theirs.open("/conversations").get_by_role("main").get_by_text("unread")).to_have_count(0)
        assert SECRET not in page.evaluate(_STORED)
        page.evaluate("navigator.serviceWorker.ready.then(() => null)")
        theirs.context.set_offline(offline=True)
        page.goto(at.url + talk)
        assert SECRET not in page.content()
        theirs.context.set_offline(offline=False)
    listed = ["/", "/explore", "/@ann", "/@ann?show=posts", "/@ann?show=replies", "/@ben?show=replies"]
    for name in ("", "cyd"):
        with screen(at, chromium) as others:
            if name:
                others.log_in(name)
            finds_nothing(others, [post, talk, *listed, "/for-you", "/search?q=key&type=posts", "/conversations"])

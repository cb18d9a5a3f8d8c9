"""A new member, a member, a moderator and an operator use the web app: with scripts, without scripts, and on a phone."""

from __future__ import annotations

from contextlib import ExitStack
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, FilePayload, Locator, Page, expect

from shoal.commands import moderation, posts
from shoal.commands.posts import Draft
from shoal.core.model import Role
from tests.api.in_memory_network import picture
from tests.web.chromium.browser_sessions import UNREADY_BUTTONS, Screen, live_server, screen

PHOTOS: tuple[FilePayload, ...] = (
    {"name": "wide.png", "mimeType": "image/png", "buffer": picture(90, 60, "steelblue")},
    {"name": "tall.png", "mimeType": "image/png", "buffer": picture(60, 90, "darkorange")},
)
RULES = ("Be kind.",)


class Way(NamedTuple):
    """The window of all browsers: its width, touch input, scripts."""

    width: int = 1_280
    touch: bool = False
    scripts: bool = True


@pytest.mark.parametrize("way", [Way(), Way(scripts=False), Way(390, touch=True)], ids=["desk", "no-scripts", "phone"])
def test_web_app_use_from_signup_to_logout_succeeds(chromium: Browser, way: Way) -> None:
    with live_server(rules=RULES) as at, ExitStack() as windows:
        ann = at.join("ann")
        at.run(moderation.set_role(at.network.writes, at.join("chief").id, Role.MODERATOR))
        at.run(moderation.set_role(at.network.writes, at.join("boss").id, Role.ADMIN))
        at.run(posts.create(at.network.writes, ann.id, Draft(text="Low tide at the #harbour")))
        at.settle()

        def person() -> Screen:
            return windows.enter_context(screen(at, chromium, way.width, touch=way.touch, scripts=way.scripts))

        nia, other = person(), person()
        arrives(nia, way)
        follows(nia, "ann")
        other.log_in("ann")
        follows(other, "nia")
        at.settle()
        home = opens_home(other)
        path = posts_two_photos(nia, way)
        at.settle()
        sees_the_new_post(home, way)
        reacts(other, path)
        at.settle()
        finds_and_is_told(nia, path)
        reports(nia)
        at.settle()
        chief = person()
        chief.log_in("chief")
        moderates(chief)
        at.settle()
        boss = person()
        boss.log_in("boss")
        operates(boss)
        chooses_and_leaves(nia, way)


def main(page: Page) -> Locator:
    return page.get_by_role("main")


def press(within: Page | Locator, name: str) -> None:
    within.get_by_role("button", name=name).first.click()


def arrives(nia: Screen, way: Way) -> None:
    """Sign up, pick a tag, follow no members, enter a name, and reach the invitation to post."""
    page = nia.open("/")
    main(page).get_by_role("link", name="Sign up").first.click()
    page.get_by_label("User name").fill("nia")
    page.get_by_label("E-mail address").fill("nia@example.org")
    page.get_by_label("Password").fill("four random words here")
    page.get_by_label("I agree to the rules").check()
    press(main(page), "Sign up")
    expect(page.get_by_role("heading", name="What are you interested in?")).to_be_visible()
    main(page).get_by_text("#harbour").first.click()
    press(main(page), "Continue")
    expect(page.get_by_role("heading", name="People to follow")).to_be_visible()
    main(page).get_by_role("link", name="Continue").click()
    page.get_by_label("Name", exact=True).fill("Nia of the North")
    press(main(page), "Continue")
    expect(page.get_by_role("heading", name="Post your first photo")).to_be_visible()


def follows(one: Screen, name: str) -> None:
    page = one.open(f"/@{name}")
    press(main(page), "Follow")
    expect(main(page).get_by_role("button", name="Following")).to_be_visible()


def posts_two_photos(nia: Screen, way: Way) -> str:
    """Post two described photos; return the path of the post."""
    page = nia.open("/compose")
    page.locator("#files").set_input_files(list(PHOTOS))
    if not way.scripts:
        press(main(page), "Upload")
    expect(page.locator(".picture")).to_have_count(2)
    for n, text in enumerate(("The sea, blue", "A boat, orange")):
        page.locator(".picture").nth(n).locator("summary").first.click()
        page.get_by_label("Picture: description").nth(n).fill(text)
    page.get_by_label("Text").fill("My first tide #harbour")
    page.get_by_role("button", name="Post", exact=True).click()
    page.wait_for_url("**/@nia/*")
    expect(page.get_by_text("My first tide")).to_be_visible()
    expect(main(page).get_by_role("img", name="The sea, blue")).to_be_visible()
    return page.url.removeprefix(nia.at.url)


def opens_home(one: Screen) -> Page:
    """Open the home page; with scripts, wait until the server has subscribed to its changes."""
    if not one.scripts:
        return one.open("/")
    with one.page.expect_response("**/live"):
        return one.open("/")


def sees_the_new_post(home: Page, way: Way) -> None:
    """Read the new post on the home page; with scripts, a button announces it."""
    if way.scripts:
        press(home, "One new post")
    else:
        home.reload()
    expect(home.get_by_role("article").first).to_contain_text("My first tide")


def reacts(ann: Screen, path: str) -> None:
    """Like, share, save and comment."""
    page = ann.open(path)
    post = page.get_by_role("article").first
    for name in ("Like", "Share", "Save"):
        press(post, name)
        expect(post.get_by_role("button", name=name).first).to_have_attribute("aria-pressed", "true")
        if ann.scripts:
            # The response replaces all buttons of the post.
            expect(page.locator(UNREADY_BUTTONS)).to_have_count(0)
    page.get_by_label("Your comment").first.fill("What a boat @nia")
    press(main(page), "Comment")
    expect(page.get_by_text("What a boat")).to_be_visible()
    page = ann.open("/saved")
    expect(page.get_by_role("article")).to_contain_text("My first tide")


def finds_and_is_told(nia: Screen, path: str) -> None:
    """Search, and read the notifications of a like, a share, a comment and a follower."""
    page = nia.open("/explore")
    page.locator("main input[name=q]").fill("tide")
    page.locator("main input[name=q]").press("Enter")
    expect(main(page).get_by_role("img", name="The sea, blue").first).to_be_visible()
    page = nia.open("/notifications")
    for words in ("ann likes your post", "ann shared your post", "ann follows you", "What a boat"):
        expect(main(page).get_by_text(words).first).to_be_visible()
    page = nia.open(path)
    expect(page.get_by_text("What a boat")).to_be_visible()


def reports(nia: Screen) -> None:
    """Report a post of @ann."""
    page = nia.open("/@ann?show=posts")
    page.get_by_role("article").filter(has_text="Low tide").get_by_role("link", name="More").click()
    page.get_by_role("link", name="Report").first.click()
    page.get_by_label("Spam").check()
    page.locator("#comment").fill("The same harbour again")
    press(main(page), "Submit report")
    expect(main(page)).to_contain_text("Thank you")


def moderates(chief: Screen) -> None:
    """Find the report in the queue, hide the post, uphold."""
    page = chief.open("/moderation")
    expect(main(page)).to_contain_text("The same harbour again")
    main(page).get_by_role("link", name="ann").first.click()
    press(main(page), "Hide post")
    expect(main(page).get_by_role("button", name="Unhide post")).to_be_visible()
    press(main(page), "Uphold")
    expect(main(page)).to_contain_text("upheld")


def operates(boss: Screen) -> None:
    """View the metrics and the data sources."""
    page = boss.open("/ops")
    expect(main(page)).to_contain_text("Requests in 10 minutes")
    main(page).get_by_role("link", name="Members and posts on each data source").click()
    expect(page.get_by_role("heading", name="Distribution")).to_be_visible()


def chooses_and_leaves(nia: Screen, way: Way) -> None:
    """Choose German for this browser, and log out."""
    page = nia.open("/settings")
    main(page).get_by_role("link", name="Appearance").last.click()
    page.get_by_role("radio", name="Dark", exact=True).check()
    page.get_by_label("Interface language").select_option("de")
    press(main(page), "Save")
    expect(page.locator("html")).to_have_attribute("lang", "de")
    if way.touch:
        page.get_by_role("navigation", name="Navigation").get_by_role("link", name="Profil").click()
    page.locator("form[action$='/logout'] button:visible").click()
    page = nia.open("/saved")
    expect(page.locator("#password")).to_be_visible()

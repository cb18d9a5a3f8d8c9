"""Live updates of pages in a browser, without a reload."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, Route, expect

from shoal.commands import posts, relationships
from shoal.commands.posts import Draft
from shoal.core.model import Visibility
from shoal.queries import lists
from tests.web.chromium.browser_sessions import UNREADY_BUTTONS, LiveServer, screen, until


def test_home_page_live_stream_offers_new_posts_and_applies_edits_and_deletions(
    at: LiveServer, chromium: Browser
) -> None:
    ann, ben = at.join("ann"), at.join("ben")
    at.run(relationships.follow(at.network.writes, ann.id, ben.id))
    first = at.run(posts.create(at.network.writes, ben.id, Draft(text="The first tide")))
    at.settle()
    with screen(at, chromium) as ours:
        # The server answers when it has subscribed to the changes.
        with ours.page.expect_response("**/live"):
            page = ours.log_in("ann")
        expect(page.get_by_role("article")).to_have_count(1)
        # A direct message belongs to the conversations: it is not counted among the new posts.
        secret = Draft(text="@ann the key", visibility=Visibility.DIRECT)
        at.run(posts.create(at.network.writes, ben.id, secret))
        second = at.run(posts.create(at.network.writes, ben.id, Draft(text="The second tide")))
        fresh = page.get_by_role("button", name="One new post")
        fresh.click()
        expect(page.get_by_role("article").first).to_contain_text("The second tide")
        at.run(posts.update(at.network.writes, ben.id, first.id, Draft(text="The first tide, mended")))
        expect(page.get_by_role("article").last).to_contain_text("mended")
        at.run(posts.delete(at.network.writes, ben.id, second.id))
        expect(page.get_by_role("article")).to_have_count(1)


def test_like_button_updates_immediately_and_reverts_on_failure(at: LiveServer, chromium: Browser) -> None:
    cyd = at.join("cyd")
    post = at.run(posts.create(at.network.writes, cyd.id, Draft(text="Here for a moment")))
    with screen(at, chromium) as ours:
        ours.log_in("cyd")
        page = ours.open(f"/@cyd/{post.id}")
        like = page.get_by_role("article").get_by_role("button", name="Like")
        like.click()
        expect(like).to_have_attribute("aria-pressed", "true")
        expect(like).to_have_accessible_name("Like, 1 like")
        like.click()
        expect(like).to_have_accessible_name("Like, 0 likes")
        expect(page.locator(UNREADY_BUTTONS)).to_have_count(0)
        page.route("**/act", lambda route: route.abort())
        like.click()
        expect(like).to_have_attribute("aria-pressed", "false")
        expect(page.get_by_role("status")).to_contain_text("Could not reach the server")
        # The aborted request is caused by the test.
        ours.complaints.clear()


def test_buttons_of_a_post_pressed_before_a_response_are_all_sent(at: LiveServer, chromium: Browser) -> None:
    lea = at.join("lea")
    post = at.run(posts.create(at.network.writes, lea.id, Draft(text="Pressed in a hurry")))
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    def pressed_while_held(page: Page, *names: str) -> None:
        expect(page.locator(UNREADY_BUTTONS)).to_have_count(0)
        page.route("**/act", hold, times=1)
        buttons = page.get_by_role("article")
        for name in names:
            buttons.get_by_role("button", name=name).click()
        while not held:
            page.wait_for_timeout(20)

    def state(page: Page) -> list[str | None]:
        expect(page.locator(UNREADY_BUTTONS)).to_have_count(0)
        buttons = page.get_by_role("article").locator("button[aria-pressed]")
        return [one.get_attribute("aria-pressed") for one in buttons.all()]

    with screen(at, chromium) as ours:
        ours.log_in("lea")
        page = ours.open(f"/@lea/{post.id}")
        buttons = page.get_by_role("article")
        pressed_while_held(page, "Like", "Share", "Save")
        expect(buttons.locator("button[aria-pressed=true]")).to_have_count(3)
        with page.expect_response(lambda one: "do=save" in (one.request.post_data or "")):
            held.pop().continue_()
        assert state(page) == ["true", "true", "true"]
        # Pressed twice, a button ends in its former state.
        pressed_while_held(page, "Like", "Save", "Like", "Save")
        with page.expect_response(lambda one: "do=like" in (one.request.post_data or "")):
            held.pop().continue_()
        assert state(page) == ["true", "true", "true"]
        # Waiting presses are sent even if the request before them fails.
        pressed_while_held(page, "Share", "Save")
        with page.expect_response("**/act"):
            held.pop().abort()
        expect(buttons.get_by_role("button", name="Save")).to_have_attribute("aria-pressed", "false")
        assert state(page) == ["true", "true", "false"]
        page.reload()
        assert state(page) == ["true", "true", "false"]
        # The aborted request is caused by the test.
        ours.complaints.clear()


def test_button_of_a_comment_pressed_twice_before_its_reply_form_opens_ends_in_its_former_state(
    at: LiveServer, chromium: Browser
) -> None:
    mia = at.join("mia")
    post = at.run(posts.create(at.network.writes, mia.id, Draft(text="Ask me")))
    at.run(posts.create(at.network.writes, mia.id, Draft(text="Myself first", parent_id=post.id)))
    at.settle()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    with screen(at, chromium) as ours:
        ours.log_in("mia")
        page = ours.open(f"/@mia/{post.id}")
        shown = page.get_by_role("article").filter(has_text="Myself first")
        like = shown.get_by_role("button", name="Like")
        expect(page.locator(UNREADY_BUTTONS)).to_have_count(0)
        page.route("**/act", hold, times=1)
        like.click()
        like.click()
        with page.expect_response(
            lambda one: "/act" not in one.url and one.request.headers.get("hx-request") == "true"
        ):
            shown.get_by_role("link", name="Reply").click()
        expect(like).to_have_attribute("aria-pressed", "false")
        with page.expect_response(lambda one: "do=unlike" in (one.request.post_data or "")):
            held.pop().continue_()
        expect(page.locator(UNREADY_BUTTONS)).to_have_count(0)
        expect(like).to_have_attribute("aria-pressed", "false")


def test_form_submitted_twice_quickly_is_sent_once(at: LiveServer, chromium: Browser) -> None:
    dee = at.join("dee")
    with screen(at, chromium) as ours:
        ours.log_in("dee")
        page = ours.open("/lists")
        page.get_by_label("Name").fill("Friends")
        page.evaluate(
            """() => {
                const form = document.querySelector("#main form.form");
                for (let times = 0; times < 3; times += 1) form.requestSubmit(form.querySelector("button.button"));
            }"""
        )
        expect(page.get_by_role("heading", level=1)).to_contain_text("Friends")
        page.wait_for_load_state("networkidle")
        assert len(at.run(lists.owned(at.network.reads.graph, dee.id))) == 1


def test_notification_dismissed_by_keyboard_moves_focus_to_remaining_dismiss_button(
    at: LiveServer, chromium: Browser
) -> None:
    at.join("eve")
    for name in ("fay", "gus"):
        author = at.join(name)
        at.run(posts.create(at.network.writes, author.id, Draft(text="@eve hello")))
    at.settle()
    with screen(at, chromium) as ours:
        ours.log_in("eve")
        page = ours.open("/notifications")
        dismiss = page.get_by_role("main").get_by_role("button", name="Dismiss: ")
        expect(dismiss).to_have_count(2)
        dismiss.last.focus()
        page.keyboard.press("Enter")
        expect(dismiss).to_have_count(1)
        expect(dismiss).to_be_focused()


def test_suggestion_dismissed_by_keyboard_moves_focus_to_another_element(at: LiveServer, chromium: Browser) -> None:
    for name in ("hal", "ida", "jon"):
        at.run(posts.create(at.network.writes, at.join(name).id, Draft(text="Hello")))
    at.settle()
    with screen(at, chromium) as ours:
        ours.log_in("hal")
        page = ours.open("/welcome/people")
        dismiss = page.get_by_role("main").get_by_role("button", name="Dismiss")
        expect(dismiss.first).to_be_visible()
        for left in reversed(range(dismiss.count())):
            dismiss.last.focus()
            page.keyboard.press("Enter")
            expect(dismiss).to_have_count(left)
            until(page, "document.activeElement !== document.body")

"""The React hooks, rendered in Chromium, against a served Shoal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from playwright.sync_api import APIResponse, Browser, Locator, Page, Route, expect

from tests.api.in_memory_network import picture
from tests.clients.server import Served, a_shoal, until
from tests.engines.chromium import browser, window
from tests.sdk.package import bundle, site

_WATCH_LIKES = """() => {
    window.pressed = [];
    new MutationObserver((changes) => {
        for (const { target } of changes) if (target.ariaPressed === "true") window.pressed.push(target.textContent);
    }).observe(document.body, { subtree: true, attributeFilter: ["aria-pressed"] });
}"""
"""Records the buttons that become pressed."""


class Shown(NamedTuple):
    """A page of a member who follows another one, and the client of the other one."""

    page: Page
    other: Any
    name: str
    post: int


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with a_shoal(tmp_path_factory.mktemp("shoal")) as running:
        yield running


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    bundle(folder / "app.js", "test/react.tsx", "--format=iife", "--global-name=app", "--jsx=automatic")
    (folder / "index.html").write_text('<!doctype html><meta charset="utf-8"><script src="app.js" defer></script>')
    with site(folder) as url:
        yield url


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def shown(served: Served, address: str, chromium: Browser) -> Iterator[Shown]:
    with a_page(served, address, chromium) as page_of_member:
        expect(page_of_member.page.get_by_role("status")).to_have_text("Ready")
        yield page_of_member


@contextmanager
def a_page(
    served: Served, address: str, chromium: Browser, *, before: Callable[[Page], object] | None = None
) -> Iterator[Shown]:
    """Open a page, after a call of `before`. The lists are read, but the streams may still be connecting."""
    ann, ben = served.join("ann"), served.join("ben")
    reader, writer = served.client(ann.token), served.client(ben.token)
    other = writer.me()
    reader.account_follow(other.id)
    posts = [writer.status_post(f"Post {number}") for number in range(3)]
    with window(chromium) as context:
        page = context.new_page()
        if before is not None:
            before(page)
        page.goto(address)
        given = [served.url, ann.token, str(other.id), str(posts[2].id), _a_ranked_feed(served, ann.token)]
        page.evaluate("given => app.start(...given)", given)
        expect(page.get_by_role("heading", name=ann.name)).to_be_visible()
        expect(page.get_by_label("Home").get_by_role("article")).to_have_count(2)
        yield Shown(page, writer, ann.name, posts[2].id)
    for client in (reader, writer):
        client.session.close()


def _a_ranked_feed(served: Served, token: str) -> str:
    order = {"by": "expression", "expression": "-age_hours"}
    body = {"title": "Bread", "declaration": {"sources": [{"from": "tag", "tag": "bread"}], "order": order}}
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"{served.url}/api/shoal/v1/feeds", json=body, headers=headers)
    return str(answer.raise_for_status().json()["id"])


def article(page: Page, text: str, section: str = "Home") -> Locator:
    return page.get_by_label(section).get_by_role("article").filter(has_text=text)


def test_feed_reads_next_pages_and_shows_new_edited_and_deleted_posts(shown: Shown) -> None:
    page, writer = shown.page, shown.other
    home = page.get_by_label("Home")
    home.get_by_role("button", name="More").click()
    expect(home.get_by_role("article")).to_have_count(3)
    made = writer.status_post("A new post")
    home.get_by_role("button", name="Show 1 new").click()
    expect(home.get_by_role("article").first).to_contain_text("A new post")
    writer.status_update(made, "An edited post")
    expect(home.get_by_role("article").first).to_contain_text("An edited post")
    writer.status_delete(made)
    expect(home.get_by_role("article")).to_have_count(3)


def test_ranked_feed_reports_newer_posts_and_is_read_again(shown: Shown) -> None:
    declared = shown.page.get_by_label("Declared")
    shown.other.status_post("Fresh #bread")
    declared.get_by_role("button", name="Show newer").click()
    expect(declared.get_by_text("Fresh #bread")).to_be_visible()
    expect(declared.get_by_role("button", name="Show newer")).to_have_count(0)


def test_like_is_shown_in_all_lists_before_the_response(shown: Shown) -> None:
    page = shown.page
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/favourite", hold)
    in_home, in_detail = article(page, "Post 2"), article(page, "Post 2", "Post")
    in_home.get_by_role("button", name="Like").click()
    for one in (in_home, in_detail):
        expect(one.get_by_role("button", name="Like", pressed=True)).to_be_visible()
        expect(one).to_contain_text("1 likes")
    held[0].continue_()
    expect(in_detail).to_contain_text("1 likes")
    until(lambda: shown.other.status(shown.post).favourites_count == 1)


def test_failed_like_is_taken_back_with_its_reason(shown: Shown) -> None:
    page = shown.page
    refusal = '{"error": "The server has a break"}'
    page.route("**/favourite", lambda route: route.fulfill(status=503, body=refusal, content_type="application/json"))
    post = article(page, "Post 2")
    post.get_by_role("button", name="Like").click()
    expect(post.get_by_role("alert")).to_have_text("The server has a break")
    expect(post.get_by_role("button", name="Like", pressed=False)).to_be_visible()
    expect(post).to_contain_text("0 likes")


def test_like_and_unlike_in_quick_succession_end_in_the_last_state(shown: Shown) -> None:
    page = shown.page
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/favourite", hold)
    post = article(page, "Post 2")
    post.get_by_role("button", name="Like", pressed=False).click()
    post.get_by_role("button", name="Like", pressed=True).click()
    page.evaluate(_WATCH_LIKES)
    with page.expect_response("**/unfavourite"):
        held[0].continue_()
    expect(post.get_by_role("button", name="Like", pressed=False)).to_be_visible()
    until(lambda: shown.other.status(shown.post).favourites_count == 0)
    assert page.evaluate("window.pressed") == []


def test_components_in_strict_mode_share_one_connection_of_a_stream(
    served: Served, address: str, chromium: Browser
) -> None:
    ann, requested = served.join("ann"), []
    client = served.client(ann.token)
    post, me = client.status_post("A post"), client.me()
    client.session.close()
    with window(chromium) as context:
        page = context.new_page()
        page.on("request", lambda request: requested.append(request.url.partition("?")[0]))
        page.goto(address)
        with page.expect_response("**/streaming/user*"):
            page.evaluate("given => app.start(...given)", [served.url, ann.token, str(me.id), str(post.id)])
        expect(page.get_by_label("Home").get_by_role("article")).to_have_count(1)
        assert requested.count(f"{served.url}/api/v1/streaming/user") == 1


def test_removed_component_aborts_its_requests_and_closes_its_stream(shown: Shown) -> None:
    page, failed = shown.page, set[str]()
    page.on("requestfailed", lambda request: failed.add(request.url.partition("?")[0].rpartition("/")[2]))
    page.route("**/timelines/home*", lambda route: None)
    with page.expect_request("**/timelines/home*"):
        page.get_by_label("Home").get_by_role("button", name="More").click()
    page.evaluate("app.stop()")
    expect(page.get_by_label("Home")).to_have_count(0)
    # Playwright receives the failures while it evaluates.
    until(lambda: page.evaluate("true") and {"home", "user"} <= failed)


def test_share_save_and_follow_are_kept_by_the_server(shown: Shown) -> None:
    page = shown.page
    post = article(page, "Post 2", "Post")
    with page.expect_response("**/reblog"):
        post.get_by_role("button", name="Share").click()
    expect(post).to_contain_text("1 shares")
    with page.expect_response("**/bookmark"):
        post.get_by_role("button", name="Save").click()
    expect(post.get_by_role("button", name="Save", pressed=True)).to_be_visible()
    follow = page.get_by_label("Profile").get_by_role("button", name="Follow")
    expect(follow).to_have_attribute("aria-pressed", "true")
    with page.expect_response("**/unfollow"):
        follow.click()
    expect(follow).to_have_attribute("aria-pressed", "false")
    assert shown.other.status(shown.post).reblogs_count == 1
    assert shown.other.account_followers(shown.other.me().id) == []


def test_comment_appears_in_thread_and_own_post_in_home(shown: Shown) -> None:
    page = shown.page
    detail = page.get_by_label("Post", exact=True)
    detail.get_by_role("button", name="Comment").click()
    expect(detail).to_contain_text("Nice!")
    expect(article(page, "Post 2", "Post")).to_contain_text("1 comments")
    detail.get_by_role("button", name="Publish").click()
    expect(page.get_by_label("Home").get_by_role("article").first).to_contain_text("A post of my own")


def test_notification_arrives_live(shown: Shown) -> None:
    shown.other.account_follow(shown.other.account_lookup(shown.name).id)
    name = shown.other.me().username
    expect(shown.page.get_by_label("Notifications").get_by_role("listitem").first).to_have_text(f"follow by {name}")


def test_changes_between_first_read_and_start_of_streams_are_shown(
    served: Served, address: str, chromium: Browser
) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    def hold_streams(page: Page) -> None:
        page.route("**/streaming/**", hold)

    with a_page(served, address, chromium, before=hold_streams) as shown:
        page, other = shown.page, shown.other
        expect(page.get_by_label("Profile")).to_contain_text("3 posts")
        other.account_follow(other.account_lookup(shown.name).id)
        other.status_post("Early #bread")
        other.status_delete(shown.post)
        until(lambda: page.evaluate("true") and len(held) == 2)
        for route in held:
            route.continue_()
        name = other.me().username
        expect(page.get_by_label("Notifications").get_by_role("listitem").first).to_have_text(f"follow by {name}")
        expect(article(page, "Early #bread")).to_be_visible()
        expect(article(page, "Post 2")).to_have_count(0)
        expect(page.get_by_label("Declared").get_by_text("Early #bread")).to_be_visible()


def test_notification_that_arrives_while_the_list_is_read_is_shown(shown: Shown) -> None:
    page, other = shown.page, shown.other
    held: list[tuple[Route, APIResponse]] = []
    page.route("**/api/v1/notifications*", lambda route: held.append((route, route.fetch())))
    page.evaluate("app.readAgain()")
    until(lambda: page.evaluate("true") and held)
    other.account_follow(other.account_lookup(shown.name).id)
    expect(page.get_by_role("status")).to_have_attribute("data-last", "notification")
    for route, response in held:
        route.fulfill(response=response)
    expect(page.get_by_role("status")).to_have_text("Ready")
    expect(page.get_by_label("Notifications").get_by_role("listitem")).to_have_text(f"follow by {other.me().username}")


def test_upload_hook_reports_progress_and_errors(shown: Shown, tmp_path: Path) -> None:
    (tmp_path / "sand.png").write_bytes(picture(64, 40))
    (tmp_path / "note.txt").write_text("no picture")
    upload = shown.page.get_by_label("Upload")
    upload.get_by_label("File").set_input_files(tmp_path / "sand.png")
    expect(upload).to_contain_text("Uploaded a image")
    upload.get_by_label("File").set_input_files(tmp_path / "note.txt")
    expect(upload.get_by_role("alert")).to_be_visible()

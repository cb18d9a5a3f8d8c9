"""The way of a newcomer from the front page to a full feed: on the demo network, and on networks with one post and with none."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from shoal.commands import media, posts
from shoal.commands.posts import Draft
from shoal_demo.plan import plan
from shoal_demo.populate import Stage
from tests.api.in_memory_network import picture
from tests.web.browser import PASSWORD
from tests.web.chromium.browser_sessions import LiveServer, Screen, live_server, screen


def _demo(at: LiveServer) -> None:
    written = plan(1, 60, 28, now_ms=time.time_ns() // 1_000_000)
    at.run(Stage(at.network.writes, written, PASSWORD, lambda _noun: None).run(), seconds=600)


def _one_post(at: LiveServer) -> None:
    ann = at.join("ann")
    photo = at.run(media.upload(at.network.writes, ann.id, picture(600, 400), description="The harbour at dawn"))
    at.run(posts.create(at.network.writes, ann.id, Draft(text="Low tide #harbour", media=(photo.id,))))


def _nothing(_at: LiveServer) -> None:
    pass


@pytest.mark.parametrize(
    ("filled", "photos"),
    [(_one_post, 1), (_nothing, 0), pytest.param(_demo, 12, marks=pytest.mark.deep)],
    ids=["one-post", "empty", "demo"],
)
@pytest.mark.parametrize("width", [390, 1_280])
def test_onboarding_of_new_member_leads_to_feed_with_posts_of_the_network(
    chromium: Browser, filled: Callable[[LiveServer], None], photos: int, width: int
) -> None:
    with live_server() as at:
        filled(at)
        at.settle()
        with screen(at, chromium, width, touch=width < 800) as nia:
            page = nia.open("/")
            page.get_by_role("main").get_by_role("link", name="Sign up").first.click()
            page.get_by_label("User name").fill("nia")
            page.get_by_label("E-mail address").fill("nia@example.org")
            page.get_by_label("Password").fill("four random words here")
            page.get_by_role("main").get_by_role("button", name="Sign up").click()
            _picks_interests(page, photos)
            _follows_people(page, photos)
            expect(page.get_by_role("heading", name="Set up your profile")).to_be_visible()
            page.get_by_role("main").get_by_role("button", name="Continue").click()
            expect(page.get_by_role("heading", name="Post your first photo")).to_be_visible()
            expect(page.locator("main a.photo")).to_have_count(photos)
            page.get_by_role("link", name="See your feed").click()
            page.wait_for_url("**/for-you")
            _is_full(nia, "/for-you", photos)
            at.settle()
            _is_full(nia, "/", photos)
            expect(page.get_by_role("main").get_by_role("link", name="#film")).to_be_visible()


def _picks_interests(page: Page, photos: int) -> None:
    expect(page.get_by_role("heading", name="What are you interested in?")).to_be_visible()
    offered = page.locator(".tag-tile, .tag-chips .chip")
    expect(offered.first).to_be_visible() if photos else expect(offered).to_have_count(0)
    for n in range(min(3, offered.count())):
        offered.nth(n).click()
    page.get_by_label("tags", exact=False).last.fill("film")
    page.get_by_role("main").get_by_role("button", name="Continue").click()


def _follows_people(page: Page, photos: int) -> None:
    """Check that each suggestion states a reason, and follow nobody, so that the feed comes from the interests."""
    if photos:
        expect(page.get_by_role("heading", name="People to follow")).to_be_visible()
        for suggestion in page.locator(".suggested-person").all():
            expect(suggestion.locator(".reason")).not_to_be_empty()
    else:
        expect(page.get_by_role("heading", name="You are among the first members")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="Continue").click()


def _is_full(nia: Screen, path: str, photos: int) -> None:
    """Check that a page shows photos, in the first window, or the invitation to post the first one."""
    page = nia.open(path)
    shown = page.locator("main a.photo, main .photos img")
    if not photos:
        expect(page.get_by_role("heading", name="Post the first photo")).to_be_visible()
        return
    expect(shown.first).to_be_visible()
    assert shown.count() >= photos
    box = shown.first.bounding_box()
    assert box is not None
    assert box["y"] < 700

"""The photo viewer in a browser: keys, swipes, zoom, buttons and comments, and the way back to the grid."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from shoal.commands import albums, media, posts, relationships
from shoal.commands.posts import Draft
from shoal.core.model import Post
from tests.api.in_memory_network import picture
from tests.web.chromium.accessibility import hindrances, pale
from tests.web.chromium.browser_sessions import LiveServer, screen, until
from tests.web.chromium.test_every_page import too_wide
from tests.web.pictures import posted

_COUNTED = """window.transitions = 0;
const start = document.startViewTransition.bind(document);
document.startViewTransition = (change) => (window.transitions++, start(change));"""


@pytest.fixture(scope="module")
def tides(at: LiveServer) -> Sequence[Post]:
    """Posts with the tag *tide*, newest first; Ben follows the author of all."""
    ann, ben = at.join("ann"), at.join("ben")
    at.run(relationships.follow(at.network.writes, ben.id, ann.id))
    found = []
    for number in range(12):
        files = [picture(1_200, 800 + 40 * number, color) for color in ("steelblue", "peru")[: 1 + number % 2]]
        made = [at.run(media.upload(at.network.writes, ann.id, file, description="The sea")).id for file in files]
        found.append(at.run(posts.create(at.network.writes, ann.id, Draft(text=f"Number {number} #tide", media=made))))
    at.run(posts.create(at.network.writes, ben.id, Draft(text="I was there", parent_id=found[-1].id)))
    at.settle()
    return found[::-1]


def viewer(page: Page) -> Locator:
    return page.get_by_role("dialog")


def photo(page: Page, post: Post) -> Locator:
    return page.locator(f"main a.photo[href*='{post.id}']").first


def path_of(page: Page) -> str:
    path: str = page.evaluate("location.pathname")
    return path


class Fingers:
    """Fingers on a touch screen."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)

    def touch(self, kind: str, *points: tuple[float, float], at: float = 0) -> None:
        """Send an event of `touchStart`, `touchMove` or `touchEnd` with all fingers that touch the screen then.

        `at` is its time; 0 is now.
        """
        found = [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(points)]
        self._session.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": found, "timestamp": at or time.time()}
        )

    def double_tap(self, point: tuple[float, float]) -> None:
        """Tap twice within a tenth of a second, however slow the machine is."""
        began = time.time()
        for at in (began, began + 0.06):
            self.touch("touchStart", point, at=at)
            self.touch("touchEnd", at=at + 0.02)

    def swipe(self, by: float) -> None:
        self.touch("touchStart", (195, 200))
        for part in (0.25, 0.5, 0.75, 1):
            self.touch("touchMove", (195 + by * part, 202))
        self.touch("touchEnd")


def scale(page: Page) -> float:
    found: float = page.evaluate(
        "new DOMMatrix(getComputedStyle(document.querySelector('.viewer .stage img')).transform).a"
    )
    return found


def test_photo_viewer_steps_through_grid_by_keys_and_returns_focus(
    at: LiveServer, chromium: Browser, tides: Sequence[Post]
) -> None:
    with screen(at, chromium) as ours:
        page = ours.open("/tags/tide")
        order = page.evaluate("[...document.querySelectorAll('main a.photo')].map((one) => one.pathname)")
        photo(page, tides[0]).focus()
        page.keyboard.press("Enter")
        expect(viewer(page).get_by_role("article").first).to_contain_text("Number 11")
        expect(viewer(page).get_by_role("link", name="ann").first).to_be_visible()
        expect(viewer(page)).to_contain_text("I was there")
        passed = [path_of(page)]
        for _ in order[1:]:
            page.keyboard.press("ArrowRight")
            passed.append(path_of(page))
        assert passed == order[order.index(passed[0]) :][: len(passed)]
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
        assert path_of(page) == order[-2]
        for _ in range(40):
            page.keyboard.press("Tab")
            assert page.evaluate(
                "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
            )
        page.keyboard.press("Escape")
        expect(viewer(page)).to_have_count(0)
        assert path_of(page) == "/tags/tide"
        assert page.evaluate("document.activeElement.pathname") == order[-2]


def test_photo_viewer_closed_by_back_button_keeps_scroll_position_and_forward_opens_it(
    at: LiveServer, chromium: Browser, tides: Sequence[Post]
) -> None:
    with screen(at, chromium, 390, touch=True) as ours:
        # A page that htmx loaded has a history entry of its own, which htmx restores on the way back.
        page = ours.open(f"/@ann/{tides[0].id}")
        page.get_by_role("main").get_by_role("link", name="#tide").first.click()
        page.wait_for_url("**/tags/tide")
        assert page.evaluate("history.state?.htmx")
        photo(page, tides[5]).scroll_into_view_if_needed()
        before = page.evaluate("[scrollY, document.querySelectorAll('main a.photo').length]")
        photo(page, tides[5]).click()
        expect(viewer(page).get_by_role("article").first).to_be_visible()
        page.go_back()
        expect(viewer(page)).to_have_count(0)
        assert page.evaluate("[scrollY, document.querySelectorAll('main a.photo').length]") == before
        assert path_of(page) == "/tags/tide"
        page.go_forward()
        expect(viewer(page).get_by_role("article").first).to_contain_text("Number 6")
        page.reload()
        expect(page.get_by_role("main").get_by_role("article").first).to_contain_text("Number 6")


def test_back_button_returns_to_grid_after_link_in_photo_viewer(
    at: LiveServer, chromium: Browser, tides: Sequence[Post]
) -> None:
    with screen(at, chromium) as ours:
        page = ours.open("/@ann")
        photo(page, tides[5]).click()
        viewer(page).get_by_role("article").first.get_by_role("link", name="#tide").click()
        page.wait_for_url("**/tags/tide")
        page.go_back()
        page.wait_for_url(f"**/{tides[5].id}")
        expect(page.get_by_role("main")).to_contain_text("Number 6")
        page.go_back()
        page.wait_for_url("**/@ann")
        expect(photo(page, tides[0])).to_be_visible()


def test_photo_viewer_steps_through_all_photos_of_post_in_album(
    at: LiveServer, chromium: Browser, tides: Sequence[Post]
) -> None:
    with screen(at, chromium) as ours:
        writes, ann = at.network.writes, tides[0].author_id
        album = at.run(albums.create(writes, ann, "Tides", ""))
        for post in tides[:2]:
            at.run(albums.put_in(writes, ann, album.id, post.id))
        page = ours.open(f"/@ann/albums/{album.id}")
        photo(page, tides[0]).click()
        expect(viewer(page).get_by_text("1 / 3", exact=True)).to_be_visible()
        expect(viewer(page).get_by_role("article").first).to_contain_text("Number 11")
        page.keyboard.press("ArrowRight")
        expect(viewer(page).get_by_text("2 / 3", exact=True)).to_be_visible()
        expect(viewer(page).get_by_role("article").first).to_contain_text("Number 11")
        expect(viewer(page).locator(".stage figure").nth(1)).to_be_in_viewport(ratio=0.9)
        page.keyboard.press("ArrowRight")
        expect(viewer(page).get_by_role("article").first).to_contain_text("Number 10")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Escape")
        expect(viewer(page)).to_have_count(0)
        assert page.evaluate("[...document.querySelectorAll('main a.photo')].indexOf(document.activeElement)") == 1


def test_photo_viewer_swipe_goes_to_next_post_and_back(
    at: LiveServer, chromium: Browser, tides: Sequence[Post]
) -> None:
    with screen(at, chromium, 390, touch=True) as ours:
        page = ours.open("/@ann")
        fingers = Fingers(page)
        photo(page, tides[0]).tap()
        expect(viewer(page).get_by_role("article").first).to_contain_text("Number 11")
        expect(viewer(page).get_by_role("link", name="ann").first).to_be_in_viewport()
        fingers.swipe(-150)
        expect(viewer(page).get_by_role("article").first).to_contain_text("Number 10")
        fingers.swipe(20)
        fingers.swipe(150)
        expect(viewer(page).get_by_role("article").first).to_contain_text("Number 11")
        assert path_of(page).endswith(str(tides[0].id))


def test_photo_viewer_zooms_by_double_tap_pinch_and_keys(
    at: LiveServer, chromium: Browser, tides: Sequence[Post]
) -> None:
    with screen(at, chromium, 390, touch=True) as ours:
        page = ours.open("/@ann")
        fingers = Fingers(page)
        photo(page, tides[1]).tap()
        expect(viewer(page).get_by_role("article").first).to_be_visible()
        box = page.locator(".viewer .stage img").bounding_box()
        assert box
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        fingers.double_tap((x, y))
        assert scale(page) == 2.5
        fingers.swipe(-120)
        assert path_of(page).endswith(str(tides[1].id)), "a zoomed photo is moved instead"
        page.keyboard.press("0")
        assert scale(page) == 1
        fingers.touch("touchStart", (x - 20, y), (x + 20, y))
        fingers.touch("touchMove", (x - 60, y), (x + 60, y))
        fingers.touch("touchEnd")
        assert 2.5 < scale(page) < 3.5
        page.keyboard.press("-")
        page.keyboard.press("-")
        page.keyboard.press("-")
        assert scale(page) == 1
        page.keyboard.press("+")
        assert scale(page) == 1.5
        page.get_by_role("button", name="Zoom").click()
        assert scale(page) == 1
        expect(page.get_by_role("button", name="Zoom")).to_have_attribute("aria-pressed", "false")


def test_photo_viewer_like_and_comment_are_stored_and_shown_on_page(
    at: LiveServer, chromium: Browser, tides: Sequence[Post]
) -> None:
    with screen(at, chromium) as ours:
        ours.log_in("ben")
        page = ours.open("/")
        post = page.get_by_role("main").get_by_role("article").filter(has_text="Number 9")
        post.locator("a.photo").first.click()
        dialog = viewer(page)
        expect(dialog.get_by_role("article").first).to_contain_text("Number 9")
        page.keyboard.press("l")
        expect(dialog.get_by_role("button", name="Like, 1 like").first).to_have_attribute("aria-pressed", "true")
        page.keyboard.press("c")
        page.keyboard.type("Well seen")
        dialog.get_by_role("button", name="Comment").click()
        expect(dialog.get_by_role("article").nth(1)).to_contain_text("Well seen")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(post.get_by_role("button", name="Like, 1 like")).to_have_attribute("aria-pressed", "true")
        assert post.locator("a.photo").first.evaluate("(link) => link === document.activeElement")
        page.reload()
        expect(post.get_by_role("link", name="Comment, 1 comment")).to_be_visible()


def test_photo_viewer_from_home_steps_over_posts_without_photos(
    at: LiveServer, chromium: Browser, tides: Sequence[Post]
) -> None:
    with screen(at, chromium) as ours:
        ours.log_in("ben")
        ann = tides[0].author_id
        at.run(posts.create(at.network.writes, ann, Draft(text="Only words")))
        newest = posted(at, at.run(at.network.store.obj_get((ann,)))[ann], "Newest", 2)  # type: ignore[arg-type]  # a member
        at.settle()
        page = ours.open("/")
        photo(page, newest).click()
        expect(viewer(page).locator(".stage img")).to_have_count(2)
        page.keyboard.press("ArrowRight")
        expect(viewer(page).get_by_role("article").first).to_contain_text("Number 11")
        at.run(posts.delete(at.network.writes, ann, newest.id))


def test_photo_viewer_at_end_of_loaded_photos_loads_more(at: LiveServer, chromium: Browser) -> None:
    ida = at.join("ida")
    for number in range(30):
        posted(at, ida, f"Day {number}", 1)
    at.settle()
    with screen(at, chromium, 390, touch=True) as ours:
        page = ours.open("/@ida")
        page.locator("main a.photo").first.tap()
        expect(page.locator(".viewer > .count")).to_have_text("1 / 24")
        for _ in range(23):
            page.keyboard.press("ArrowRight")
        expect(page.locator(".viewer > .count")).to_have_text("24 / 30")
        page.keyboard.press("ArrowRight")
        expect(viewer(page).get_by_role("article").first).to_contain_text("Day 5")


@pytest.mark.parametrize("still", [False, True])
def test_photo_viewer_opens_and_closes_with_view_transition_unless_motion_is_reduced(
    at: LiveServer, chromium: Browser, tides: Sequence[Post], still: bool
) -> None:
    with screen(at, chromium) as ours:
        ours.context.add_init_script(_COUNTED)
        ours.page.emulate_media(reduced_motion="reduce" if still else "no-preference")
        page = ours.open("/tags/tide")
        photo(page, tides[0]).click()
        expect(viewer(page).get_by_role("article").first).to_be_visible()
        page.keyboard.press("Escape")
        expect(viewer(page)).to_have_count(0)
        assert page.evaluate("window.transitions") == (0 if still else 2)
        until(page, "!document.querySelector('.viewed')")


def test_photo_viewer_of_post_page_steps_from_opened_photo_without_second_copy_of_post(
    at: LiveServer, chromium: Browser, tides: Sequence[Post]
) -> None:
    with screen(at, chromium) as ours:
        page = ours.open(f"/@ann/{tides[0].id}")
        photos = page.locator(".the-post a.photo")
        photos.nth(1).click()
        expect(viewer(page).get_by_text("2 / 2", exact=True)).to_be_visible()
        expect(viewer(page).locator(".stage img")).to_have_count(1)
        expect(viewer(page).get_by_role("article")).to_have_count(0)
        page.keyboard.press("ArrowLeft")
        expect(viewer(page).get_by_text("1 / 2", exact=True)).to_be_visible()
        page.keyboard.press("Escape")
        expect(viewer(page)).to_have_count(0)
        expect(photos.first).to_be_focused()
        assert path_of(page) == f"/@ann/{tides[0].id}"


def test_photo_viewer_of_post_page_steps_by_swipe(at: LiveServer, chromium: Browser, tides: Sequence[Post]) -> None:
    with screen(at, chromium, 390, touch=True) as ours:
        page = ours.open(f"/@ann/{tides[0].id}")
        page.locator(".the-post a.photo").first.tap()
        expect(viewer(page).get_by_text("1 / 2", exact=True)).to_be_visible()
        Fingers(page).swipe(-150)
        expect(viewer(page).get_by_text("2 / 2", exact=True)).to_be_visible()
        page.go_back()
        expect(viewer(page)).to_have_count(0)
        page.go_forward()
        expect(viewer(page).get_by_text("2 / 2", exact=True)).to_be_visible()


def test_photo_viewer_keeps_sensitive_photo_covered(at: LiveServer, chromium: Browser) -> None:
    joe = at.join("joe")
    posted(at, joe, "Careful", 1, sensitive=True)
    with screen(at, chromium) as ours:
        page = ours.open("/@joe")
        page.locator("main a.photo").click()
        expect(viewer(page).get_by_text("Sensitive content. Tap to view.")).to_be_visible()
        expect(viewer(page).locator(".stage img")).to_be_hidden()
        viewer(page).get_by_text("Sensitive content. Tap to view.").click()
        expect(viewer(page).locator(".stage img")).to_be_visible()


def test_photo_viewer_receives_clicks_during_its_opening_animation(
    at: LiveServer, chromium: Browser, tides: Sequence[Post]
) -> None:
    with screen(at, chromium) as ours:
        page = ours.open("/tags/tide")
        page.evaluate("document.documentElement.style.setProperty('--quick', '60s')")
        photo(page, tides[0]).click()
        expect(viewer(page).get_by_role("article").first).to_be_visible()
        until(page, "document.getAnimations().length > 0")
        viewer(page).get_by_role("button", name="Zoom").click()
        expect(viewer(page).get_by_role("button", name="Zoom")).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1_280, False)])
def test_photo_viewer_is_accessible_and_fits_window(
    at: LiveServer, chromium: Browser, tides: Sequence[Post], width: int, dark: bool
) -> None:
    with screen(at, chromium, width, dark=dark, touch=width < 800) as ours:
        ours.log_in("ben")
        page = ours.open("/tags/tide")
        photo(page, tides[0]).click()
        expect(viewer(page).get_by_role("article").first).to_be_visible()
        until(page, "!document.querySelector('.viewed') || document.getAnimations().length === 0")
        assert [*hindrances(page), *too_wide(page), *pale(page, dark=not dark)] == []


def test_post_page_without_scripts_links_to_previous_and_next_post(
    at: LiveServer, chromium: Browser, tides: Sequence[Post]
) -> None:
    with screen(at, chromium, scripts=False) as ours:
        page = ours.open("/tags/tide")
        order = [f"{at.url}{link.get_attribute('href')}" for link in page.locator("main a.photo").all()]
        page.locator("main a.photo").nth(1).click()
        expect(page).to_have_url(order[1])
        for name, position in (("Next", 2), ("Previous", 1), ("Previous", 0)):
            page.get_by_role("link", name=name, exact=True).click()
            expect(page).to_have_url(order[position])
        expect(page.get_by_role("link", name="Previous", exact=True)).to_have_count(0)

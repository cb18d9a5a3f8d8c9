"""Scripts of the settings: cropping a picture before upload, and the live preview of a ranking recipe."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from shoal.commands import members, posts, reactions, relationships
from shoal.commands.posts import Draft
from tests.example_counts import DEEP
from tests.web.chromium.browser_sessions import LiveServer, file, held, live_server, screen, until


@pytest.fixture(scope="module")
def here() -> Iterator[LiveServer]:
    """Ann follows Ben. Ben's first post has four likes."""
    with live_server() as made:
        ann, ben = made.join("ann"), made.join("ben")
        made.run(relationships.follow(made.network.writes, ann.id, ben.id))
        written = [
            made.run(posts.create(made.network.writes, ben.id, Draft(text=f"Wave number {n}"))) for n in range(3)
        ]
        for n in range(4):
            fan = made.run(members.register(made.network.writes, f"fan{n}"))
            made.run(reactions.like(made.network.writes, fan.id, written[0].id))
        made.settle()
        yield made


def test_ranking_preview_follows_slider_without_saving(here: LiveServer, chromium: Browser) -> None:
    with screen(here, chromium) as ann:
        ann.log_in("ann")
        page = ann.open("/settings/ranking")
        first = page.locator(".preview-card .text").first
        expect(first).to_have_text("Wave number 0")
        slider = page.get_by_label("Likes and shares")
        slider.focus()
        page.keyboard.press("Home")
        expect(first).not_to_have_text("Wave number 0")
        expect(page.locator("output[for=reactions]")).to_have_text("\N{MINUS SIGN}10")
        expect(page.get_by_label("Link to this recipe")).to_have_value(re.compile("reactions=-10&"))
        expect(page.get_by_text("Not saved yet")).to_be_visible()
        page.reload()
        expect(first).to_have_text("Wave number 0")


def test_profile_picture_cropper_moves_by_keys_and_crops_to_square(here: LiveServer, chromium: Browser) -> None:
    with screen(here, chromium) as ann:
        page = ann.log_in("ann")
        with held(page, "picture"):
            page.goto(f"{here.url}/settings/profile")
            page.get_by_label("Profile picture").set_input_files(file("wide.png", 90, 30))
        dialog = page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        page.keyboard.press("ArrowRight")
        dialog.get_by_role("button", name="Apply").click()
        expect(dialog).to_be_hidden()
        size = page.get_by_label("Profile picture").evaluate(
            "async (input) => { const image = await createImageBitmap(input.files[0]); return [image.width, image.height] }"
        )
        assert size == [30, 30]
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved.")).to_be_visible()
    found = here.run(members.find(here.network.writes, "ann"))
    assert found is not None
    assert found.avatar


_GLIDE = "const { glide } = await import(new URL('glide.js', document.querySelector('script[type=module]').src));"


def test_view_transitions_interrupting_each_other_report_no_error(here: LiveServer, chromium: Browser) -> None:
    with screen(here, chromium) as ann:
        page = ann.log_in("ann")
        ann.open("/settings")
        for _ in range(3):
            page.evaluate(f"async () => {{ {_GLIDE} glide(() => {{}}); glide(() => {{}}); }}")
        page.wait_for_timeout(200)


def test_view_transition_during_change_of_window_size_reports_no_error(here: LiveServer, chromium: Browser) -> None:
    with screen(here, chromium) as ann:
        page = ann.log_in("ann")
        ann.open("/settings")
        page.evaluate(f"""async () => {{
          {_GLIDE}
          // The change ends when the page has the new size. It begins when the old size is captured.
          const resized = (done) => (innerWidth === 700 ? done() : setTimeout(resized, 10, done));
          window.transition = glide(() => ((window.changing = true), new Promise(resized)));
        }}""")
        until(page, "window.changing")
        page.set_viewport_size({"width": 700, "height": 500})
        page.evaluate("() => window.transition.finished")
        assert page.evaluate("window.transition.ready.then(() => '', (error) => error.name)") == "InvalidStateError"


def test_settings_menu_and_navigation_stay_in_place_on_all_pages(here: LiveServer, chromium: Browser) -> None:
    with screen(here, chromium) as ann:
        ann.log_in("ann")
        page = ann.open("/settings")
        menu, navigation = (
            page.get_by_role("navigation", name=name, exact=True) for name in ("Settings", "Navigation")
        )
        links = [*menu.get_by_role("link").all(), *navigation.get_by_role("link").all()]
        paths = [link.get_attribute("href") or "" for link in menu.get_by_role("link").all()]
        places = [link.bounding_box() for link in links]
        assert len(paths) > 15
        for path in (*paths[:: 1 if DEEP else 4], "/settings?q=password"):
            ann.open(path)
            assert [link.bounding_box() for link in links] == places, path
            expect(page.get_by_role("searchbox", name="Search settings").locator("visible=true")).to_have_count(1)

"""Profiles, menus, the portfolio and photo details in a browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

from shoal.commands import albums, media, members, posts, reactions
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.licenses import License
from shoal.core.model import Member, Post
from tests.api.in_memory_network import picture
from tests.media.photos import taken
from tests.web.chromium.accessibility import hindrances, pale
from tests.web.chromium.browser_sessions import LiveServer, screen, until
from tests.web.chromium.test_viewer import Fingers


def shot(at: LiveServer, author: Member, **more: Any) -> Post:
    made = at.run(media.upload(at.network.writes, author.id, taken(size=(900, 600)), shows_details=True))
    draft = Draft(text="Low tide", media=(made.id,), license=License.CC_BY, downloads=True, **more)
    return at.run(posts.create(at.network.writes, author.id, draft))


def overflowing(page: Page) -> list[str]:
    """Return the elements that make the page scroll sideways."""
    found: list[str] = page.evaluate("""() => {
      const wide = document.documentElement.clientWidth;
      if (document.documentElement.scrollWidth <= wide) return [];
      const all = [...document.querySelectorAll("main *")].filter((one) => one.getBoundingClientRect().right > wide + 1);
      return all.map((one) => `${one.tagName}.${one.className}`);
    }""")
    return found


@pytest.mark.parametrize("width", [390, 1_280])
def test_profile_tabs_portfolio_and_photo_pages_are_accessible(at: LiveServer, chromium: Browser, width: int) -> None:
    name = f"ann{width}"
    ann = at.join(name, display_name="Ann Marie of the Long Pier and Harbour", note="Walks before breakfast. " * 12)
    at.run(members.update_profile(at.network.writes, ann.id, ProfileChange(header=picture(1500, 500))))
    post = shot(at, ann)
    for _ in range(7):
        shot(at, ann)
    at.run(reactions.pin(at.network.writes, ann.id, post.id))
    at.settle()
    tabs = (
        "",
        "?show=posts",
        "?show=replies",
        "/albums",
        "?show=about",
        "/more",
        "/portfolio",
        f"/{post.id}",
        f"/{post.id}/photos/1",
    )
    with screen(at, chromium, width) as ours:
        for path in tabs:
            page = ours.open(f"/@{name}{path}") if path != "/portfolio" else ours.page
            if path == "/portfolio":
                page.goto(f"{at.url}/@{name}/portfolio")
            assert hindrances(page) == [], path
            assert pale(page, dark=True) == [], path
            page.emulate_media(color_scheme="light")
            assert overflowing(page) == [], path
        page = ours.open(f"/@{name}")
        heading, picture_ = (
            page.get_by_role("heading", level=1).bounding_box(),
            page.locator(".profile .top .face").bounding_box(),
        )
        assert heading
        assert picture_
        assert heading["x"] >= picture_["x"] + picture_["width"]
        rows = page.locator(".photo-rows").bounding_box()
        assert rows
        assert rows["width"] >= (width if width == 390 else 900)
        page.get_by_role("link", name="About", exact=True).last.click()
        expect(page.get_by_role("heading", name="Views")).to_be_visible()


@pytest.mark.parametrize("which", ["profile", "post"])
def test_profile_menu_works_with_keyboard_and_without_scripts(at: LiveServer, chromium: Browser, which: str) -> None:
    author, reader = at.join(f"author_{which}"), f"reader_{which}"
    at.join(reader)
    post = shot(at, author)
    path = f"/@{author.name}" if which == "profile" else f"/@{author.name}/{post.id}"
    first, last = (f"Message {author.name}", f"Report {author.name}") if which == "profile" else ("Copy link", "Report")
    with screen(at, chromium) as ours:
        ours.log_in(reader)
        page = ours.open(path)
        button = page.get_by_role("main").get_by_role("link", name="More options")
        button.focus()
        page.keyboard.press("Enter")
        menu = page.locator(".button-popover .sheet-of-choices")
        expect(menu).to_be_visible()
        expect(button).to_have_attribute("aria-expanded", "true")
        choices = menu.locator("a:visible, button:visible")
        expect(choices.first).to_be_focused()
        assert first in choices.first.inner_text()
        page.keyboard.press("ArrowDown")
        expect(choices.nth(1)).to_be_focused()
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowUp")
        expect(choices.last).to_be_focused()
        assert last in choices.last.inner_text()
        assert hindrances(page) == []
        page.keyboard.press("Escape")
        expect(menu).to_have_count(0)
        expect(button).to_be_focused()
        page.keyboard.press("Enter")
        expect(choices.first).to_be_focused()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Shift+Tab")
        expect(menu).to_have_count(0)
        expect(button).to_have_attribute("aria-expanded", "false")
    with screen(at, chromium, scripts=False) as ours:
        ours.log_in(reader)
        page = ours.open(path)
        page.get_by_role("main").get_by_role("link", name="More options").click()
        expect(
            page.get_by_role("main").get_by_text(f"Report {author.name}" if which == "profile" else "Report")
        ).to_be_visible()


@pytest.mark.parametrize("granted", [True, False], ids=["allowed", "refused"])
def test_copy_button_copies_link_or_shows_it_if_browser_refuses(
    at: LiveServer, chromium: Browser, *, granted: bool
) -> None:
    author = at.join(f"linked_{'by_all' if granted else 'by_hand'}")
    with screen(at, chromium) as ours:
        ours.page.context.grant_permissions(["clipboard-read", "clipboard-write"] if granted else [], origin=at.url)
        page = ours.open(f"/@{author.name}")
        page.get_by_role("main").get_by_role("link", name="More options").click()
        button, link = page.get_by_role("button", name="Copy link"), f"{at.url}/@{author.name}"
        # The menu shows the button before its script is loaded.
        expect(button).to_have_attribute("data-started", "")
        if granted:
            button.click()
            expect(page.get_by_text("Link copied.")).to_be_visible()
            assert page.evaluate("navigator.clipboard.readText()") == link
        else:
            page.on("dialog", lambda dialog: dialog.dismiss())
            with page.expect_event("dialog") as shown:
                button.click()
            assert (shown.value.message, shown.value.default_value) == ("Copy link", link)
            expect(page.get_by_text("Link copied.")).to_have_count(0)


def test_portfolio_page_needs_no_scripts_and_fills_the_window(at: LiveServer, chromium: Browser) -> None:
    gus = at.join("gus")
    for _ in range(9):
        shot(at, gus)
    with screen(at, chromium, scripts=False) as ours:
        page = ours.open("/@gus/portfolio")
        rows = page.locator(".photo-rows").bounding_box()
        assert rows
        assert rows["width"] > 1_200
        assert page.get_by_role("navigation").count() == 0
        assert page.get_by_role("heading", level=1).inner_text() == "gus"
        assert overflowing(page) == []


def test_compose_script_photo_details_choice_survives_reload_and_download_setting_is_saved(
    at: LiveServer, chromium: Browser
) -> None:
    at.join("dee")
    upload: FilePayload = {"name": "a.jpg", "mimeType": "image/jpeg", "buffer": taken(size=(900, 600))}
    with screen(at, chromium) as ours:
        ours.log_in("dee")
        page = ours.open("/compose")
        page.locator("#files").set_input_files(upload)
        page.locator(".picture summary").first.click()
        choice = page.get_by_label("Show camera, exposure and date")
        expect(choice).not_to_be_checked()
        choice.check()
        page.get_by_label("Text").fill("Quay")
        page.locator(".option summary", has_text="License").click()
        page.get_by_label("License", exact=True).select_option("CC-BY-4.0")
        page.get_by_label("Allow downloads").check()
        assert hindrances(page) == []
        until(page, "Object.values(localStorage).some((kept) => kept.includes('CC-BY-4.0') && kept.includes('Quay'))")
        page.reload()
        expect(page.get_by_text("Draft restored.")).to_be_visible()
        expect(choice).to_be_checked()
        expect(page.get_by_label("Allow downloads")).to_be_checked()
        page.locator(".picture summary").first.click()
        page.get_by_label("Picture: description").fill("A quay at low tide")
        page.get_by_role("button", name="Post", exact=True).first.click()
        page.wait_for_url("**/@dee/*")
        notes = page.get_by_role("region", name="Photo details")
        expect(notes).to_contain_text("FUJIFILM X100V")
        expect(notes.get_by_role("link", name="CC BY 4.0")).to_be_visible()
        with page.expect_download() as saved:
            notes.get_by_role("link", name="Download").click()
        assert re.fullmatch(r"dee-\d+-1\.jpg", saved.value.suggested_filename)


def test_album_photo_dragged_by_finger_changes_place(at: LiveServer, chromium: Browser) -> None:
    hob = at.join("hob")
    album = at.run(albums.create(at.network.writes, hob.id, "Tides", ""))
    for _ in range(3):
        at.run(albums.put_in(at.network.writes, hob.id, album.id, shot(at, hob).id))
    with screen(at, chromium, 390, touch=True) as ours:
        ours.log_in("hob")
        page = ours.open(f"/@hob/albums/{album.id}/edit")
        ids = "[...document.querySelectorAll('.arrange > li')].map((one) => one.dataset.media)"
        first, second, third = page.evaluate(ids)
        page.locator(".arrange > li").last.scroll_into_view_if_needed()
        boxes = [one.bounding_box() for one in page.get_by_title("Drag").all()]
        points = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes if box]
        fingers = Fingers(page)
        fingers.touch("touchStart", points[0])
        (x, y), (to_x, to_y) = points[:2]
        for part in (0.25, 0.5, 0.75, 1):
            fingers.touch("touchMove", (x + (to_x - x) * part, y + (to_y - y) * part))
        fingers.touch("touchEnd")
        expect(page.get_by_text("Order saved.")).to_be_visible()
        page.reload()
        assert page.evaluate(ids) == [second, first, third]

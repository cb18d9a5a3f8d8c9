"""Photos in the compose form with scripts: up to ten, in any order, described, cropped, rotated, and never lost."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.api.in_memory_network import picture
from tests.web.browser import PASSWORD
from tests.web.chromium.accessibility import hindrances
from tests.web.chromium.browser_sessions import LiveServer, Screen, click_at, file, screen, until
from tests.web.chromium.test_compose_scripts import edit

_TRANSFERRED = """(form, [kind, data]) => {
  const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
  const files = new DataTransfer();
  files.items.add(new File([bytes], "held.png", { type: "image/png" }));
  const more = { bubbles: true, cancelable: true };
  if (kind === "paste") form.dispatchEvent(new ClipboardEvent("paste", { ...more, clipboardData: files }));
  const drag = (name) => form.dispatchEvent(new DragEvent(name, { ...more, dataTransfer: files }));
  if (kind === "drop") ["dragenter", "dragover", "drop"].forEach(drag);
}"""
"""Pastes a picture into the form or drops it there, as the browser does after the user's gesture."""


def composing(ours: Screen, *names: str) -> Page:
    """Open the form and upload pictures: a `tall` one has 40 by 60 pixels, any other 60 by 40."""
    page = ours.open("/compose")
    expect(page.locator("#compose[data-started]")).to_be_visible()
    page.locator("#files").set_input_files(
        [file(f"{name}.png", *((40, 60) if name == "tall" else ())) for name in names]
    )
    expect(cards(page)).to_have_count(min(len(names), 10))
    return page


def cards(page: Page) -> Locator:
    return page.locator(".picture")


def ids(page: Page) -> list[str]:
    """Return the ids of the pictures in order."""
    return [str(one.get_attribute("data-picture")) for one in cards(page).all()]


def description(page: Page, n: int) -> Locator:
    return page.get_by_label("Picture: description").nth(n)


def posted(page: Page, at: LiveServer) -> Any:
    """Press Post, and return the post as the API shows it."""
    page.get_by_role("button", name="Post", exact=True).click()
    page.wait_for_url("**/@*/*")
    answer = page.request.get(f"{at.url}/api/v1/statuses/{page.url.rpartition('/')[2]}")
    assert answer.ok, answer.text()
    return answer.json()


def test_compose_photos_reordered_described_rotated_and_focused_are_posted(at: LiveServer, chromium: Browser) -> None:
    at.join("photo_ann")
    with screen(at, chromium) as ours:
        ours.log_in("photo_ann")
        page = composing(ours, "wide", "tall")
        expect(page.get_by_role("button", name="Post", exact=True)).to_have_count(1)
        before = ids(page)
        edit(page, 1)
        description(page, 1).fill("A tall one")
        page.get_by_role("button", name="Move earlier").click()
        assert ids(page) == before[::-1]
        page.get_by_role("button", name="Crop and rotate").click()
        page.get_by_role("button", name="Turn right").click()
        page.get_by_role("button", name="Apply").click()
        expect(page.locator(".picture img").first).to_have_attribute("width", "60")
        expect(description(page, 0)).to_have_value("A tall one")
        click_at(page.locator(".picture img").first, 3 / 4, 1 / 4)
        # The picture is 60 pixels wide, so a pixel is 2 percent.
        assert abs(int(page.get_by_role("slider", name="horizontal").input_value()) - 75) <= 2
        edit(page, 1)
        description(page, 1).fill("A wide one")
        page.get_by_label("Text").fill("Two of them")
        post = posted(page, at)
    media = post["media_attachments"]
    assert [one["description"] for one in media] == ["A tall one", "A wide one"]
    # The tall picture was turned, so it is wide now.
    assert [one["meta"]["original"]["width"] for one in media] == [60, 60]
    assert all(abs(media[0]["meta"]["focus"][axis] - 0.5) < 0.1 for axis in "xy")


def test_compose_photos_dragged_with_the_mouse_change_places(at: LiveServer, chromium: Browser) -> None:
    at.join("photo_ben")
    with screen(at, chromium) as ours:
        ours.log_in("photo_ben")
        page = composing(ours, "one", "two", "three")
        first, second, third = ids(page)
        boxes = [one.bounding_box() for one in cards(page).all()]
        middles = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes if box]
        page.mouse.move(*middles[2])
        page.mouse.down()
        for x, y in (middles[1], middles[0]):
            page.mouse.move(x, y, steps=5)
        page.mouse.up()
        assert ids(page) == [third, first, second]
        # The drag opened no picture; a click does.
        expect(description(page, 0)).to_be_hidden()
        page.mouse.click(*middles[0])
        expect(description(page, 0)).to_be_visible()


@pytest.mark.parametrize("kind", ["paste", "drop"])
def test_compose_photos_pasted_or_dropped_are_uploaded(at: LiveServer, chromium: Browser, kind: str) -> None:
    at.join(f"photo_{kind}")
    with screen(at, chromium) as ours:
        ours.log_in(f"photo_{kind}")
        page = composing(ours)
        page.locator("#compose").evaluate(_TRANSFERRED, [kind, base64.b64encode(picture()).decode()])
        expect(cards(page)).to_have_count(1)


def test_compose_photos_accept_ten_and_refuse_the_eleventh_without_loss(at: LiveServer, chromium: Browser) -> None:
    at.join("photo_cyd")
    with screen(at, chromium) as ours:
        ours.log_in("photo_cyd")
        page = composing(ours, *(f"p{n}" for n in range(11)))
        page.get_by_label("Text").fill("Ten of them")
        refusal = page.get_by_role("listitem").filter(has=page.get_by_role("alert"))
        expect(refusal).to_contain_text("A post can have up to 10 photos.")
        expect(page.get_by_text("Add photos")).to_be_hidden()
        last = ids(page)[-1]
        page.get_by_role("button", name="Remove", exact=True).first.click()
        refusal.get_by_role("button", name="Try again").click()
        expect(cards(page)).to_have_count(10)
        assert ids(page)[-2] == last
        page.get_by_label("Remind me to add descriptions").uncheck()
        post = posted(page, at)
        assert len(post["media_attachments"]) == 10
        pictures = page.get_by_role("article").first.get_by_role("img", name="Picture without description")
        expect(pictures).to_have_count(10)
        heights = [box["height"] for one in pictures.all() if (box := one.bounding_box())]
        # Rows of three and two photos: no photo is alone in a row.
        assert max(heights) < 2 * min(heights)
        # Until the script of the viewer has started, a click opens the page of the photo.
        click_at(pictures.first, 1 / 2, 1 / 2)
        expect(page.get_by_role("dialog").get_by_role("img")).to_have_count(1)
        expect(page.get_by_role("dialog")).to_contain_text("1 / 10")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        frame = page.request.get(f"{at.url}/api/oembed?url={page.url}").json()
        path = page.url.removeprefix(at.url)
        page.set_viewport_size({"width": frame["width"], "height": frame["height"]})
        page = ours.open(f"/embed{path}")
        expect(page.get_by_role("img", name="Picture without description")).to_have_count(10)
        # The frame of the embedding page has room for all photos, and little more.
        assert 0 <= frame["height"] - page.locator("article").evaluate("(post) => post.offsetHeight") < 60


def test_compose_draft_with_photos_survives_reload_and_end_of_session(at: LiveServer, chromium: Browser) -> None:
    at.join("photo_dan")
    with screen(at, chromium) as ours:
        ours.log_in("photo_dan")
        page = composing(ours, "one", "two")
        kept = ids(page)
        edit(page, 0)
        description(page, 0).fill("A boat")
        page.get_by_label("Text").fill("Low tide")
        page.get_by_text("Warning", exact=True).click()
        page.get_by_role("textbox", name="Content warning").fill("Wet")
        until(page, "Object.values(localStorage).some((kept) => kept.includes('A boat') && kept.includes('Wet'))")
        page.reload()
        expect(page.get_by_text("Draft restored.")).to_be_visible()
        # The session ends, for example because the server was told to end it.
        ours.context.clear_cookies()
        page = ours.open("/compose")
        page.get_by_label("User name or e-mail address").fill("photo_dan")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("main").get_by_role("button", name="Log in").click()
        page.wait_for_url("**/compose")
        expect(cards(page)).to_have_count(2)
        assert ids(page) == kept
        expect(description(page, 0)).to_have_value("A boat")
        expect(page.get_by_label("Text")).to_have_value("Low tide")
        expect(page.get_by_role("group", name="Options")).to_contain_text("Wet")
        page.get_by_label("Remind me to add descriptions").uncheck()
        post = posted(page, at)
        assert ([one["id"] for one in post["media_attachments"]], post["spoiler_text"]) == (kept, "Wet")
        page = composing(ours)
        assert page.evaluate("localStorage.length") == 0
        expect(cards(page)).to_have_count(0)
        expect(page.get_by_label("Text")).to_have_value("")


def test_compose_draft_discarded_leaves_an_empty_form_and_can_be_restored(at: LiveServer, chromium: Browser) -> None:
    at.join("photo_eve")
    with screen(at, chromium) as ours:
        ours.log_in("photo_eve")
        page = composing(ours, "one")
        expect(page.get_by_role("button", name="Discard draft")).to_be_visible()
        page.get_by_role("button", name="Discard draft").click()
        expect(cards(page)).to_have_count(0)
        page.get_by_role("button", name="Restore draft").click()
        expect(page.get_by_text("Draft restored.")).to_be_visible()
        expect(cards(page)).to_have_count(1)
        page.get_by_role("button", name="Discard draft").click()
        expect(cards(page)).to_have_count(0)
        expect(page.get_by_role("button", name="Restore draft")).to_be_visible()
        page.get_by_label("Text").fill("Something else")
        expect(page.get_by_role("button", name="Discard draft")).to_be_visible()
        assert page.evaluate("Object.keys(localStorage).filter((key) => key.includes('discarded')).length") == 0


def test_compose_button_says_that_it_schedules_while_a_time_is_set(at: LiveServer, chromium: Browser) -> None:
    at.join("photo_gus")
    with screen(at, chromium) as ours:
        ours.log_in("photo_gus")
        page = composing(ours)
        page.get_by_role("group", name="Options").get_by_text("Schedule", exact=True).click()
        page.get_by_label("Publish at").fill("2031-12-05T08:30")
        expect(page.get_by_role("group", name="Options")).to_contain_text("Dec 5, 2031, 8:30")
        expect(page.get_by_role("button", name="Schedule", exact=True)).to_be_visible()
        page.get_by_label("Publish at").fill("")
        expect(page.get_by_role("button", name="Post", exact=True)).to_be_visible()


def test_compose_cropper_shows_whole_picture_below_its_crop_area(at: LiveServer, chromium: Browser) -> None:
    at.join("photo_cox")
    with screen(at, chromium) as ours:
        ours.log_in("photo_cox")
        page = composing(ours, "wide")
        edit(page, 0)
        page.get_by_role("button", name="Crop and rotate").click()
        stage = page.locator(".cropper .stage")
        # The focused crop area has handles that extend beyond the picture, which must not scroll it.
        stage.evaluate("(one) => one.scrollBy(0, 15)")
        boxes = [page.locator(f".cropper {name}").bounding_box() for name in (".stage", "canvas", ".window")]
        assert all(box and boxes[0] and abs(box["y"] - boxes[0]["y"]) < 1 for box in boxes)


def test_compose_refused_post_keeps_photos_text_and_options(at: LiveServer, chromium: Browser) -> None:
    at.join("photo_fay")
    with screen(at, chromium) as ours:
        ours.log_in("photo_fay")
        page = composing(ours, "one", "two")
        kept = ids(page)
        for n in range(2):
            edit(page, n)
            description(page, n).fill(f"Number {n}")
        page.get_by_label("Text").fill("Where am I?")
        page.get_by_text("Place", exact=True).click()
        page.get_by_label("Latitude and longitude").fill("91, 0")
        page.get_by_text("Public", exact=True).first.click()
        page.get_by_role("radio", name="Followers").check()
        page.get_by_role("button", name="Post", exact=True).click()
        error = page.get_by_text("Latitude is -90 to 90")
        expect(error).to_be_visible()
        assert ids(page) == kept
        expect(description(page, 1)).to_have_value("Number 1")
        expect(page.get_by_label("Text")).to_have_value("Where am I?")
        expect(page.get_by_role("group", name="Options")).to_contain_text("Followers")
        field = page.get_by_label("Latitude and longitude")
        expect(field).to_have_value("91, 0")
        assert hindrances(page) == []
        field.fill("47.38, 8.54")
        # Enter in a field sends nothing.
        field.press("Enter")
        page.get_by_role("button", name="Post", exact=True).click()
        page.wait_for_url("**/@photo_fay/*")


@pytest.mark.parametrize("width", [390, 1_280])
def test_compose_page_with_photos_and_open_options_fits_the_window(
    at: LiveServer, chromium: Browser, width: int
) -> None:
    at.join(f"photo_gus{width}")
    with screen(at, chromium, width, touch=width < 800) as ours:
        ours.log_in(f"photo_gus{width}")
        page = composing(ours, "one", "two")
        text = page.get_by_label("Text").bounding_box()
        button = page.get_by_role("button", name="Post", exact=True).bounding_box()
        height = page.evaluate("innerHeight")
        assert text is not None
        assert button is not None
        assert max(one["y"] + one["height"] for one in (text, button)) < height
        page.locator("#files").set_input_files([file(f"{n}.png") for n in range(8)])
        expect(cards(page)).to_have_count(10)
        assert page.get_by_label("Text").evaluate("(field) => field.getBoundingClientRect().bottom") < height
        edit(page, 0)
        for name in ("Public", "Place", "Warning", "Poll", "Schedule", "Language"):
            page.get_by_role("group", name="Options").get_by_text(name, exact=True).first.click()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        assert hindrances(page) == []


def test_compose_form_without_scripts_uploads_describes_moves_and_posts_photos(
    at: LiveServer, chromium: Browser
) -> None:
    at.join("photo_hal")
    with screen(at, chromium, 390, scripts=False) as ours:
        ours.log_in("photo_hal")
        page = ours.open("/compose")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.locator("#files").set_input_files([file("wide.png"), file("tall.png", 40, 60)])
        page.get_by_role("button", name="Upload", exact=True).click()
        expect(cards(page)).to_have_count(2)
        expect(page.get_by_text("Cropping and rotating need scripts")).to_be_visible()
        first, second = ids(page)
        edit(page, 1)
        description(page, 1).fill("A tall one")
        page.get_by_role("button", name="Move earlier").click()
        expect(cards(page).first).to_have_attribute("data-picture", second)
        assert ids(page) == [second, first]
        expect(description(page, 0)).to_have_value("A tall one")
        edit(page, 1)
        page.get_by_text("Focal point").nth(1).click()
        page.get_by_label("horizontal").nth(1).fill("100")
        page.get_by_label("Text").fill("Two of them")
        # One photo has no description: its fields open, with the reason.
        page.get_by_role("button", name="Post", exact=True).click()
        expect(page.get_by_text("A sentence is enough.")).to_be_visible()
        description(page, 1).fill("A wide one")
        post = posted(page, at)
    media = post["media_attachments"]
    assert [one["id"] for one in media] == [second, first]
    assert [one["description"] for one in media] == ["A tall one", "A wide one"]
    assert media[1]["meta"]["focus"]["x"] == 1

"""The example `examples/gallery`, built with Vite, in Chromium: log-in, feeds, actions, uploads and live updates."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, Response, expect

from tests.api.in_memory_network import picture
from tests.clients.server import PASSWORD, Account, Served, a_shoal
from tests.engines.chromium import browser, window
from tests.sdk.package import ROOT, build, need, node, site
from tests.web.chromium.accessibility import hindrances, pale

GALLERY = ROOT / "examples" / "gallery"
PHOTO = ROOT / "src/shoal_demo/photos/sea_sunset.webp"


class Gallery(NamedTuple):
    url: str
    served: Served
    photographer: Account


def share_photos(served: Served, account: Account, number: int) -> None:
    """Publish posts with pictures of several shapes."""
    client = served.client(account.token)
    for index in range(number):
        image = io.BytesIO(picture(60 + index % 5 * 20, 80))
        media = client.media_post(image, mime_type="image/png", description=f"Photo {index}")
        client.status_post(f"Caption {index} #shore", media_ids=[media.id])
    client.session.close()


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    need(GALLERY)
    folder = tmp_path_factory.mktemp("gallery")
    build(folder)
    with a_shoal(folder) as served:
        target = folder / "built"
        vite = GALLERY / "node_modules/vite/bin/vite.js"
        # Vite refuses concurrent builds, although another test run has its build in a different directory.
        options = ("--outDir", target, "--emptyOutDir", "--bypass-lock")
        node(vite, "build", *options, cwd=GALLERY, VITE_SHOAL_URL=served.url)
        photographer = served.join("mira")
        share_photos(served, photographer, 23)
        with site(target) as url:
            yield Gallery(url, served, photographer)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    with window(chromium) as found:
        yield found


def logged_in(context: BrowserContext, gallery: Gallery) -> tuple[Page, Account]:
    account = gallery.served.join("ann")
    page = context.new_page()
    page.goto(gallery.url)
    page.get_by_role("button", name="Log in").click()
    page.get_by_label("E-mail").fill(account.address)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Allow").click()
    expect(page.get_by_role("link", name="Following")).to_be_visible()
    return page, account


@contextmanager
def list_read_again(page: Page, stream: str, path: str) -> Iterator[None]:
    """Wait at the end until a list was read again, as when its stream starts. Photos that it contains then are not new."""
    streams: list[Response] = []
    reads: list[Request] = []
    page.on("response", lambda one: streams.append(one) if f"/streaming/{stream}" in one.url else None)
    page.on("request", lambda one: reads.append(one) if streams and path in one.url else None)
    with page.expect_response(lambda one: one.request in reads):
        yield


def test_visitor_scrolls_through_all_photos_and_opens_one(gallery: Gallery, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(gallery.url)
    tiles = page.get_by_role("list", name="Photos").get_by_role("listitem")
    expect(tiles.first).to_be_visible()
    page.mouse.wheel(0, 20_000)
    expect(tiles).to_have_count(23)
    tiles.first.get_by_role("link").first.click()
    dialog = page.get_by_role("dialog", name="Photo by")
    expect(dialog).to_contain_text("Caption 22 #shore")
    expect(dialog.get_by_role("button", name="Like")).to_be_disabled()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_member_likes_follows_comments_and_sees_new_photos(gallery: Gallery, context: BrowserContext) -> None:
    page, _ = logged_in(context, gallery)
    tiles = page.get_by_role("list", name="Photos").get_by_role("listitem")
    tiles.first.get_by_role("link").first.click()
    dialog = page.get_by_role("dialog", name="Photo by")
    with page.expect_response("**/favourite"):
        dialog.get_by_role("button", name="Like").click()
    expect(dialog.get_by_role("button", name="Like, 1", pressed=True)).to_be_visible()
    with page.expect_response("**/follow"):
        dialog.get_by_role("button", name="Follow").click()
    dialog.get_by_label("Comment", exact=True).fill("What a light!")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog.get_by_role("region", name="Comments")).to_contain_text("What a light!")
    page.keyboard.press("Escape")
    with list_read_again(page, "user", "timelines/home"):
        page.get_by_role("link", name="Following").click()
    expect(tiles.first).to_be_visible()
    share_photos(gallery.served, gallery.photographer, 1)
    page.get_by_role("button", name="1 new photo").click()
    expect(tiles.first.get_by_role("img")).to_have_attribute("alt", "Photo 0")
    page.reload()
    expect(tiles.first).to_be_visible()


def test_member_shares_photo_and_logs_out(gallery: Gallery, context: BrowserContext) -> None:
    page, account = logged_in(context, gallery)
    page.get_by_role("button", name="Share a photo").click()
    composer = page.get_by_role("dialog", name="Share a photo")
    composer.get_by_label("Photo", exact=True).set_input_files(PHOTO)
    composer.get_by_label("Description").fill("A hill at dusk")
    composer.get_by_label("Caption").fill("Home again")
    composer.get_by_role("button", name="Share", exact=True).click()
    expect(composer).to_be_hidden()
    expect(page.get_by_alt_text("A hill at dusk")).to_be_visible()
    page.get_by_role("link", name="your photos").click()
    expect(page.get_by_role("heading", name=account.name)).to_be_visible()
    expect(page.get_by_role("list", name="Photos").get_by_role("listitem")).to_have_count(1)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


@pytest.mark.parametrize(("width", "height"), [(1_280, 900), (390, 844)])
def test_gallery_pages_are_accessible_and_fit_window(
    gallery: Gallery, chromium: Browser, width: int, height: int
) -> None:
    with window(chromium, width, height, touch=width < 500) as context:
        page, _ = logged_in(context, gallery)
        tiles = page.get_by_role("list", name="Photos").get_by_role("listitem")
        expect(tiles.first.get_by_role("img")).to_have_js_property("complete", value=True)
        assert hindrances(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        tiles.nth(6).get_by_role("link").first.click()
        dialog = page.get_by_role("dialog", name="Photo by")
        expect(dialog.get_by_text("No comments yet.")).to_be_visible()
        assert hindrances(page) == []
        assert pale(page, dark=True) == []
        page.emulate_media(color_scheme="light")
        dialog.get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Share a photo").click()
        page.get_by_label("Photo", exact=True).set_input_files(PHOTO)
        expect(page.get_by_role("button", name="Share", exact=True)).to_be_enabled()
        assert hindrances(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width

"""What a browser downloads for a page: little before the photos, and each photo in about the size in which it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from shoal.commands import albums, media, members, posts, relationships
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.model import Member
from tests.api.in_memory_network import picture
from tests.example_counts import DEEP
from tests.web.chromium.browser_sessions import LiveServer, Screen, live_server, screen

MOST_BYTES = 150_000
"""Bytes of a page before its photos, as sent."""
MOST, LEAST = 2.25, 0.6
"""Pixels of a file per pixel of the screen."""
SMALLEST = 160
"""Longer edge of the smallest file of a photo."""
SHAPES = ((2_000, 1_333), (1_333, 2_000), (2_000, 2_000), (2_400, 1_000), (900, 1_900), (2_000, 1_500))
PAGES = {
    "front": "/",
    "explore": "/explore",
    "tag": "/tags/tide",
    "profile": "/@ann",
    "profile-posts": "/@ann?show=posts",
    "post": "/@ann/{one}",
    "few": "/@ann/{few}",
    "many": "/@ann/{many}",
    "photo": "/@ann/{one}/photos/1",
    "albums": "/@ann/albums",
    "album": "/@ann/albums/{album}",
    "portfolio": "/@ann/portfolio",
    "embedded": "/embed/@ann/{few}",
}
"""Pages that strangers see."""
OWN_PAGES = {
    "home": "/",
    "search": "/search?q=tide",
    "liked": "/@ann/{one}",
    "edit": "/posts/{many}/edit",
    "add": "/@ann/albums/{album}/add",
    "arrange": "/@ann/albums/{album}/edit",
    "choose": "/posts/{many}/albums",
    "settings": "/settings/profile",
    "interests": "/welcome/interests",
}
"""Pages that members see."""
_PART = slice(None, None, 1 if DEEP else 3)
"""The first tier opens a third of the pages."""
_LOADED = """() => [...document.images].every(
    (one) => one.complete || !one.checkVisibility() || one.getBoundingClientRect().top > innerHeight)"""
_SIZES = """async () => {
  const loaded = [...document.images].filter((one) => one.complete && one.naturalWidth && one.checkVisibility());
  const shown = loaded.filter((one) => one.currentSrc.includes("/media/"));
  return Promise.all(shown.map(async (one) => {
    const file = new Image();
    file.src = one.currentSrc;
    await file.decode();
    const box = one.getBoundingClientRect();
    return {
      url: one.currentSrc,
      sizes: one.sizes,
      shown: [box.width, box.height],
      file: [file.naturalWidth, file.naturalHeight],
      largest: Math.max(one.getAttribute("width"), one.getAttribute("height")),
    };
  }));
}"""


class Sea(NamedTuple):
    """A network with a member whose photos have all sizes."""

    at: LiveServer
    ids: dict[str, int]


def _posted(at: LiveServer, author: Member, photos: int, text: str) -> int:
    made = [at.run(media.upload(at.network.writes, author.id, picture(*shape), description=text)) for shape in SHAPES]
    files = tuple(one.id for one in made[:photos])
    return at.run(posts.create(at.network.writes, author.id, Draft(text=text, media=files))).id


@pytest.fixture(scope="module")
def sea() -> Iterator[Sea]:
    with live_server() as at:
        writes = at.network.writes
        ann, ben = at.join("ann"), at.join("ben")
        change = ProfileChange(avatar=picture(600, 600), header=picture(2_000, 700), rankable=True)
        at.run(members.update_profile(writes, ann.id, change))
        at.run(relationships.follow(writes, ben.id, ann.id))
        album = at.run(albums.create(writes, ann.id, "Tides", ""))
        found = {"album": album.id}
        for name, photos in (("many", 6), ("few", 3), ("two", 2), ("one", 1)):
            found[name] = _posted(at, ann, photos, f"{name} #tide")
            at.run(albums.put_in(writes, ann.id, album.id, found[name]))
        at.settle()
        yield Sea(at, found)


def wrong_sizes(page: Page) -> list[str]:
    """Return the pictures on the screen whose file is much larger or smaller than they are shown."""
    page.wait_for_function(_LOADED)
    found: list[dict[str, Any]] = page.evaluate(_SIZES)
    wrong = [] if found else ["no picture"]
    for one in found:
        (width, height), (across, down) = one["shown"], one["file"]
        times = min(across / max(width, 1), down / max(height, 1))
        is_larger = times > MOST and max(across, down) > SMALLEST
        is_smaller = times < LEAST and max(across, down) < one["largest"]
        if is_larger or is_smaller:
            wrong.append(f"{one['url']} of {one['sizes']}: {across} x {down} shown as {width:.0f} x {height:.0f}")
    return wrong


def _sizes_on_pages(ours: Screen, sea: Sea, pages: dict[str, str]) -> list[str]:
    # Browsers prefer a larger file that they have cached.
    session = ours.context.new_cdp_session(ours.page)
    session.send("Network.enable")
    session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    found = {name: wrong_sizes(ours.open(path.format(**sea.ids))) for name, path in [*pages.items()][_PART]}
    return [f"{name}: {one}" for name, wrong in found.items() for one in wrong]


@pytest.mark.parametrize("width", [390, 1_280])
def test_photo_on_any_page_is_loaded_in_about_the_size_in_which_it_is_shown(
    sea: Sea, chromium: Browser, width: int
) -> None:
    with screen(sea.at, chromium, width, touch=width < 700) as ours:
        wrong = _sizes_on_pages(ours, sea, PAGES)
        ours.log_in("ann")
        wrong += _sizes_on_pages(ours, sea, OWN_PAGES)
        assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("width", [390, 1_280])
def test_photo_in_the_viewer_is_loaded_in_about_the_size_in_which_it_is_shown(
    sea: Sea, chromium: Browser, width: int
) -> None:
    with screen(sea.at, chromium, width, touch=width < 700) as ours:
        page = ours.open("/tags/tide")
        page.locator("main a.photo").first.click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("article")).to_be_visible()
        image = dialog.locator(".stage img").first
        page.wait_for_function(
            "([image, least]) => image.naturalWidth >= least * image.clientWidth", arg=[image.element_handle(), LEAST]
        )
        assert wrong_sizes(page) == []


def _received(session: CDPSession) -> dict[str, float]:
    """Return a map to which the session adds the bytes of each file, with headers and as sent."""
    urls: dict[str, str] = {}
    found: dict[str, float] = {}

    def ended(event: dict[str, Any]) -> None:
        if "/media/" not in (url := urls.get(event["requestId"], "")):
            found[url] = event["encodedDataLength"]

    session.on("Network.responseReceived", lambda event: urls.update({event["requestId"]: event["response"]["url"]}))
    session.on("Network.loadingFinished", ended)
    session.send("Network.enable")
    return found


@pytest.mark.parametrize("name", ["front", "explore", "tag", "profile", "post", "home", "search"])
def test_page_weighs_less_than_150_kilobytes_before_its_photos(sea: Sea, chromium: Browser, name: str) -> None:
    with screen(sea.at, chromium, 390, touch=True) as ours:
        if name in OWN_PAGES:
            cookies = [one for one in _logged_in(sea, chromium) if one["name"] == "shoal_login"]
            ours.context.add_cookies(cookies)
        bytes_by_url = _received(ours.context.new_cdp_session(ours.page))
        page = ours.open((PAGES | OWN_PAGES)[name].format(**sea.ids))
        page.wait_for_function(_LOADED)
        assert len(bytes_by_url) > 5
        assert sum(bytes_by_url.values()) < MOST_BYTES, bytes_by_url


def _logged_in(sea: Sea, chromium: Browser) -> list[Any]:
    with screen(sea.at, chromium) as ours:
        ours.log_in("ben")
        return list(ours.context.cookies())
